// The path of a command: gather what the call needs into one struct, cross into Go
// once, apply what Go decided. All commands share it.
#include <stdio.h>

#include "open.h"
#include "send.h"

#include "_cgo_export.h"

static int canBlock(RedisModuleCtx *ctx) {
  return !(api.GetContextFlags(ctx) & (CONTEXT_MULTI | CONTEXT_LUA | CONTEXT_DENY_BLOCKING | CONTEXT_REPLICATED));
}

static const char beingCreated[] = "ERR key is being created by the command that this call is nested in";

static const char inForkedChild[] =
    "ERR commands of throttle do not run in a forked child of the server, such as that of SCRIPT DEBUG YES: use SCRIPT DEBUG SYNC, which needs none";

__attribute__((noinline, cold)) static int refuseWith(RedisModuleCtx *ctx, const char *error) {
  stats.errorsArgument++;
  api.ReplyWithError(ctx, error);
  return 1;
}

__attribute__((noinline, cold)) static int refuseBeforeGo(throttleCall *call, RedisModuleCtx *ctx) {
  if (throttleIsForked) return refuseWith(ctx, inForkedChild);
  for (int i = 0; i < call->keyCount; i++) {
    if (throttleIsBeingCreated(ctx, call->keys[i].name)) return refuseWith(ctx, beingCreated);
  }
  return 0;
}

static int isWaiting(const throttleCall *call) { return call->reply == REPLY_LATER || call->reply == REPLY_IN_TURN; }

// Another module may call in the middle of a command that uses the value of a key again. The call may tell what it
// found there. It may change it as any other command may, unless the server may still be adding the key: then it moves
// the value as soon as the key gets an expiry. A caller that was put in line is not decided again: it overwrites what
// another module has just written.
__attribute__((noinline, cold)) static void guardKeys(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv) {
  int changes = 0;
  for (int i = 0; i < call->keyCount; i++) changes |= call->keys[i].effect != EFFECT_KEEP;
  if (!changes) return;
  if (call->unfinished) {
    throttleRefuse(call, beingCreated);
  } else if (throttleHaveChanged(call) && !isWaiting(call)) {
    throttleDecide(call, ctx, argv);
  }
}

static void decideAndGuard(const throttleTraits *traits, throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv) {
  throttleDecide(call, ctx, argv);
  if (traits->runsOverMaxmemory && !call->unfinished) throttleRefuseGrowth(call, ctx, argv);
  if (call->isGuarded) guardKeys(call, ctx, argv);
}

// A key may have callers in line.
static void lookForLines(throttleCall *call) {
  for (int i = 0; i < call->keyCount; i++) call->keys[i].hasLine = throttleMayHaveLine(call->db, call->keys[i].name);
}

// When the only key of a call expires, 0 if never. Redis 8.6 crashes when it is asked for the expiry of a key that does
// not exist.
static void lookAtExpiry(throttleCall *call) {
  throttleKey *key = call->keys;
  int64_t ms = key->kind == KEY_ABSENT || !key->handle ? 0 : api.GetAbsExpire(key->handle); // -1 for none
  key->expireAtMs = ms > 0 ? ms : 0;
}

static void wakeLines(throttleCall *call, RedisModuleCtx *ctx) {
  for (int i = 0; i < call->keyCount; i++) {
    if (call->keys[i].wake) throttleLookAtLines(ctx);
  }
}

// Closes the key of a call, after it was changed. Listeners of notifications come last: one of another module may
// change the key.
__attribute__((always_inline)) static inline void apply(throttleCall *call, RedisModuleCtx *ctx) {
  throttleKey *key = call->keys;
  if (RARELY(call->keyCount != 1 || call->seesMembers || (key->effect != EFFECT_KEEP && !isRewritten(key)))) {
    throttleApply(call, ctx);
    return;
  }
  if (key->effect == EFFECT_SET) rewrite(call, ctx, key);
  if (key->handle) api.CloseKey(key->handle);
  if (key->effect == EFFECT_SET) notifySet(ctx, key);
  notifyOfDecision(call, ctx);
}

static inline void reply(throttleCall *call, RedisModuleCtx *ctx) {
  if (RARELY(call->reply != REPLY_INTEGERS)) {
    throttleReply(call, ctx);
    return;
  }
  throttleSentText text;
  const char *end = throttlePutIntegers(throttlePutArray(text.text, call->count), call->integersRoom, call->count);
  if (RARELY(!throttleSend(ctx, &text, end))) throttleReply(call, ctx);
}

// Decides a call and applies what was decided. Inlined twice: into the path of plain commands nothing comes that those
// do not need.
__attribute__((always_inline)) static inline int run(const throttleTraits *traits, int isPlain, throttleCall *call, RedisModuleCtx *ctx,
    RedisModuleString **argv, int argc, int room) {
  if (RARELY(throttleCreating && refuseBeforeGo(call, ctx))) return API_OK;
  call->nowNs = throttleServersClockNs();
  call->db = api.GetSelectedDb(ctx);
  gatherArgs(call, argv, argc, room);
  if (RARELY(throttleHasNeighbours && !throttleIsOutermost)) throttleLookIfOutermost(call, ctx, argv, argc);
  openKeys(call, ctx, traits->readOnly ? OPEN_READ : OPEN_READ | OPEN_WRITE);
  if (isPlain) {
    throttleCross(call);
    if (RARELY(call->isGuarded)) guardKeys(call, ctx, argv);
  } else {
    int mayHaveLines = traits->lines && throttleAllLines;
    if (traits->blocks) {
      call->mayBlock = !call->unfinished && canBlock(ctx);
      call->isFull = throttleIsFull();
    }
    if (mayHaveLines) lookForLines(call);
    if (traits->onSortedSet && throttleMayNameMembers(call)) throttleGatherMembers(call, ctx, argv);
    if (RARELY(traits->seesExpiry)) lookAtExpiry(call);
    decideAndGuard(traits, call, ctx, argv);
    if (call->seesMembers && traits->keys == KEYS_COUNTED && !throttleTry(call)) decideAndGuard(traits, call, ctx, argv);
    if (mayHaveLines) wakeLines(call, ctx);
    if (RARELY(call->turnedAway)) throttleTurnAway(ctx);
  }
  stats.calls[call->command]++;
  countDecision(call);
  if (RARELY(call->panicked)) throttleLog(ctx, "warning", call->error);
  apply(call, ctx);
  if (!isPlain) {
    if (call->seesMembers) throttleFreeMembers(call);
    if (isWaiting(call)) {
      throttleWait(call, ctx, argv, argc);
      return API_OK;
    }
  }
  reply(call, ctx);
  return API_OK;
}

// What is wrong with the number of keys is Go's to say, to a call that has none.
static int countKeys(RedisModuleString **argv, int argc) {
  long long keys;
  if (argc < 2 || api.StringToLongLong(argv[1], &keys) != API_OK || keys < 1 || keys > MAX_KEYS || keys > argc - 2) return 0;
  return (int)keys;
}

// To send a client of a cluster to the right node, a server asks the command where its keys are: it does
// not look at the key specs then (seen on Redis 7.0), unless they are of the simplest kind.
static int tellKeys(RedisModuleCtx *ctx, int keys) {
  for (int i = 0; i < keys; i++) api.KeyAtPos(ctx, 2 + i);
  return API_OK;
}

// Functions of their own, for their frames and what plain commands do not need.
__attribute__((noinline)) static int runMany(int index, const throttleTraits *traits, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  if (api.IsKeysPositionRequest(ctx)) return tellKeys(ctx, countKeys(argv, argc));
  throttleMany many;
  throttleCall *call = throttleBeginMany(&many, index, countKeys(argv, argc), argv + 2);
  return run(traits, 0, call, ctx, argv, argc, MAX_ARGS_OF_KEYS);
}

__attribute__((noinline)) static int runOther(int index, const throttleTraits *traits, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  if (traits->keys == KEYS_NONE && throttleReplyLengths(ctx)) return API_OK;
  throttleSingle single;
  throttleCall *call = throttleBeginSingle(&single, index, traits->keys == KEYS_ONE && !traits->onlyNames, argv + 1);
  return run(traits, 0, call, ctx, argv, argc, MAX_ARGS);
}

static int refuseArity(RedisModuleCtx *ctx) {
  stats.errorsArity++;
  return api.WrongArity(ctx);
}

int throttleRun(int index, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  const throttleTraits *traits = &throttleCommands[index];
  if (traits->keys == KEYS_COUNTED) return runMany(index, traits, ctx, argv, argc);
  if (RARELY(traits->keys == KEYS_ONE && argc < 2)) return refuseArity(ctx);
  if (!traits->isPlain) return runOther(index, traits, ctx, argv, argc);
  throttleSingle single;
  throttleCall *call = throttleBeginSingle(&single, index, 1, argv + 1);
  return run(traits, 1, call, ctx, argv, argc, MAX_ARGS);
}
