// Callers that wait, and the alarm that wakes them.
#ifndef THROTTLE_LINE_H
#define THROTTLE_LINE_H

#include "call.h"
#include "stats.h"

enum { LINES_RELEASED, LINES_CHANGED, LINES_STEPPED, LINES_SENT_AWAY };
enum { STEP_SLEEP, STEP_CLOSE, STEP_ANSWER, STEP_SEND_AWAY, STEP_MOVED, STEP_GIVE_BACK, STEP_DECIDE, STEP_TIME_OUT };
// How many callers in line one turn of the event loop decides, which takes some hundred microseconds.
enum { DECISIONS_IN_A_TURN = 64, PAUSE_AFTER_PANIC_NS = 100 * MS_NS };

// What is to be done next for a line, as Go's package line says.
typedef struct {
  int32_t kind;
  uint64_t lineID, entry;
  throttleLine *line; // NULL for a new one
  throttleCaller *caller;
  int64_t ns;    // how long to sleep, or how long the caller has waited
  int64_t slots; // as the latest caller told
} throttleStep;

// waiting.c
extern uint32_t throttleAllLines;
int throttleMayHaveLine(int db, const RedisModuleString *name); // whether callers may wait for a key
void throttleCountLine(int db, const RedisModuleString *name, int more); // one that begins, or -1 for one that ends
// How many callers may wait in line, all lines together; UINT64_MAX without a bound.
enum { MAX_WAITING_BY_MEMORY = -1 };
extern uint64_t throttleMaxWaiting;
void throttleSetMaxWaiting(long long callers); // 0 for no bound, or MAX_WAITING_BY_MEMORY
void throttleLookAtMaxmemory(void); // which may have changed
void throttleTurnAway(RedisModuleCtx *ctx); // counts a caller that was answered at once instead of waiting, and logs it now and then
static inline int throttleIsFull(void) { return stats.waiting + stats.leasesWaiting >= throttleMaxWaiting; }

// line.c. throttleWait blocks the caller of a REPLY_LATER or REPLY_IN_TURN until its slot has come, or its turn.
void throttleWait(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
void throttleLookAtLines(RedisModuleCtx *ctx);                       // those that were woken, at the next turn of the event loop
// throttleTurn does what is due, up to what one turn of the event loop has room for, and tells in how many ns the next
// turn is due; INT64_MAX for never.
int64_t throttleTurn(RedisModuleCtx *ctx);
void throttleWatchClocks(RedisModuleCtx *ctx);                       // in each cron
void throttleLeaveToMaster(RedisModuleCtx *ctx);                     // the server has become a replica
void throttleForgetLines(void);                                      // before the module is loaded again

// alarm.c. throttleSetTurn says what a turn is. throttleTurnIn has the next turn come in ns at the latest.
// throttleNoteSteps tells whether the clock was set, and has one come at once then. throttleIsSetBack tells whether it
// was set back since the server called the alarm; the turn ends then. throttleKeepTime takes a turn that is late.
void throttleSetTurn(int64_t (*turn)(RedisModuleCtx *ctx));
void throttleTurnIn(RedisModuleCtx *ctx, int64_t ns);
int throttleNoteSteps(RedisModuleCtx *ctx, int isWatched);
int throttleIsSetBack(void);
void throttleKeepTime(RedisModuleCtx *ctx);

#endif
