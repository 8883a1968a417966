// The state of the server and its process: who listens, other modules, forks, clocks, obstacles to writes.
#ifndef THROTTLE_SERVER_H
#define THROTTLE_SERVER_H

#include <time.h>

#include "call.h"

// listeners.c
int throttleIsHeard(RedisModuleCtx *ctx); // whether a replica, an AOF or a backlog may hear of a write
extern int throttleValkeyMajor; // 0 on Redis
extern int throttleIsKnownServer; // of no later major version than the tested ones
// The server gives no answer to a caller that CLIENT UNBLOCK names after the module has unblocked it (Redis before 7.4,
// Valkey before 8.0).
extern int throttleForgetsAnswers;
void throttleWatchListeners(RedisModuleCtx *ctx);
void throttleLookForListeners(RedisModuleCtx *ctx);
void throttleNotePossibleListener(void);

// events.c
void throttleHearEvents(RedisModuleCtx *ctx);

// neighbours.c
extern int throttleHasNeighbours;  // there are other modules, or there were
extern uint64_t throttleExpiries; // keys that the server has removed because they expired, since there are neighbours
// Whether the call is known to be nested in nothing. Where filters did not know it, throttleLookIfOutermost may find it
// out.
extern int throttleIsOutermost;
void throttleLookIfOutermost(const throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) __attribute__((cold));
void throttleWatchNeighbours(RedisModuleCtx *ctx, const char *moduleName);
RedisModuleString *throttleUserOf(RedisModuleCtx *ctx); // NULL for nobody. Not for a master, nor where GetCurrentUserName is missing
// Whether the call may come from another module that hears of what a command does to a key. The server may use the
// value again afterwards (events "new", "incrby" and "incrbyfloat"), so it must not be replaced, which reading it
// through the key may do.
int throttleMayBeNested(const throttleCall *call, RedisModuleCtx *ctx);
int throttleMayBeUnfinished(RedisModuleKey *key); // of such a call: whether that command may still be adding the key

// clock.c, and the wall clock.
static inline int64_t throttleClockNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// The server's own reading of it where it gives one (Redis 7.2, Valkey): of the start of the call, or of the
// transaction or script it is part of. It costs nothing, and expiry goes by the same.
static inline int64_t throttleServersClockNs(void) {
  return api.CachedMicroseconds ? api.CachedMicroseconds() * US_NS : throttleClockNs();
}

int64_t throttleMonotonicNs(void);
int64_t throttleMsAfter(int64_t ns); // for a timer: the first whole ms after ns, never too early; 0 for what is over
// throttleHasStepped tells whether the wall clock was set since the last step, as compared with the monotonic one. A
// clock that is not watched may be set: then it is no step, and the clock counts as it is.
int throttleHasStepped(int isWatched);

// obstacle.c. throttleAsk tells whether the server would write to a key: 0, or an errno.
enum { MAY_WRITE, IS_PAUSED, IS_REFUSED, HAS_MOVED };
int throttleAsk(RedisModuleCtx *ctx, RedisModuleString *name);
int throttleObstacle(RedisModuleCtx *ctx, RedisModuleString *name);
int throttleIsPaused(void);

// send.c. throttleMakeCarriers prepares replies that are sent in one piece (send.h), where the server is known. It
// calls a command without keys, which throttleReplyLengths answers.
void throttleMakeCarriers(RedisModuleCtx *ctx);
int throttleReplyLengths(RedisModuleCtx *ctx);

// fork.c. Whether this is a forked child of the server, in which nothing enters Go.
extern int throttleIsForked;

// crash.c. throttlePrepareForCrash runs before Go starts, throttleNoteGoThreads after,
// throttleStopGoThreads when the server crashes.
void throttlePrepareForCrash(void);
void throttleNoteGoThreads(void);
void throttleStopGoThreads(void);

// timerslack.c. Gives the calling thread its timer slack back.
void throttleRestoreTimerSlack(void);

#endif
