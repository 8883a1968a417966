// What becomes of a call, one file for each stage: gathered, decided, applied, replied to.
#ifndef THROTTLE_RUN_H
#define THROTTLE_RUN_H

#include "call.h"

// command.c
int throttleRun(int index, RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

// gather.c
void throttleOpenSeveral(throttleCall *call, RedisModuleCtx *ctx);
void throttleOpenAgain(throttleCall *call, RedisModuleCtx *ctx);
void throttleCloseKeys(throttleCall *call);
// throttleHaveChanged reads the values that a call changes through their keys, and tells whether one is no longer as it
// was copied.
int throttleHaveChanged(throttleCall *call) __attribute__((cold));
int throttleOpenUnexpired(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) __attribute__((cold));

// members.c. throttleDecide has Go decide a call that was gathered, and throttleTry tells whether the sets are as it
// was decided. throttleLookUp tells whether the call has to be decided again, now that it knows.
void throttleDecide(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv);
int throttleTry(throttleCall *call);
int throttleLookUp(throttleCall *call);
// throttleMayNameMembers returns whether a call has to see members before it is decided for the first time.
int throttleMayNameMembers(const throttleCall *call);
// throttleGatherMembers is throttleGatherSets, in which other modules may run unless the key was opened quietly, and
// throttleGatherNames.
void throttleGatherMembers(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv);
void throttleGatherSets(throttleCall *call, RedisModuleCtx *ctx);
void throttleGatherNames(throttleCall *call, RedisModuleString **argv);
void throttleChangeMembers(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key, int isHeard);
void throttleMakeSet(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key, int isHeard);
void throttleFreeMembers(throttleCall *call);
void throttleNotifyMembers(RedisModuleCtx *ctx, throttleKey *key);
void throttleNotifyLease(RedisModuleCtx *ctx, throttleKey *key);

// memory.c. throttleGrows tells whether a call that was decided adds a key or makes one longer. throttleRefuseGrowth
// refuses a call that would make a key longer while the server is over maxmemory.
int throttleGrows(const throttleCall *call);
void throttleRefuseGrowth(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv);

// cold.c
void throttleMakeStrings(void);
void throttleGatherKind(throttleKey *key) __attribute__((cold));
void throttleKeepLaterExpiry(throttleKey *key) __attribute__((cold));
void throttleReplicateSet(RedisModuleCtx *ctx, throttleKey *key);
void throttleResize(throttleKey *key); // to the length of the new value
void throttleCountError(const throttleCall *call) __attribute__((cold));
// throttleRefuse gives the call an error in place of its outcome, and nothing changes.
void throttleRefuse(throttleCall *call, const char *error) __attribute__((cold));

// apply.c. throttleApply closes the keys. A call in the middle of another's that adds a key
// leaves the keys of that one alone: throttleCreating, NULL when the server adds none.
extern const throttleCall *throttleCreating;
int throttleIsBeingCreated(RedisModuleCtx *ctx, RedisModuleString *name);
void throttleApply(throttleCall *call, RedisModuleCtx *ctx);

// reply.c
void throttleReply(throttleCall *call, RedisModuleCtx *ctx);
const int64_t (*throttleEachOf(const throttleCall *call))[EACH_FIELDS]; // what each limit says, in the frame of the call
void throttleReplyMap(RedisModuleCtx *ctx, int pairs);
void throttleReplyName(RedisModuleCtx *ctx, const throttleView *name);

#endif
