// What every call does, inlined into the path of a command. Together with the server's own code the path fits a
// processor's first cache only if it is short and lies in one piece; so what is rare is in functions of its own, which
// are not part of it.
#ifndef THROTTLE_PATH_H
#define THROTTLE_PATH_H

#include "run.h"
#include "server.h"
#include "line.h"
#include "stats.h"

#define RARELY(condition) __builtin_expect(!!(condition), 0)

// Nothing is copied.
static inline void gatherArgs(throttleCall *call, RedisModuleString **argv, int argc, int room) {
  int count = argc - 1;
  call->argCount = count;
  if (count > room) count = room;
  call->viewCount = call->viewCapacity = count;
  throttleView *arg = call->args;
  for (int i = 1; i <= count; i++, arg++) {
    arg->bytes = api.StringPtrLen(argv[i], &arg->length);
    arg->capacity = arg->length;
  }
}

// A key that is not there and was opened for reading has no handle.
static inline int isOfType(const throttleKey *key, int type) { return key->handle && api.KeyType(key->handle) == type; }

// The server shows no bytes of a value of another type, and none of a key that is not there.
static inline void gatherKey(throttleKey *key) {
  key->kind = KEY_STRING;
  key->value.length = 0;
  key->value.bytes = key->handle ? api.StringDMA(key->handle, &key->value.length, OPEN_READ) : NULL;
  key->value.capacity = key->value.length;
  if (RARELY(!key->value.length)) throttleGatherKind(key);
}

static inline void countDecision(const throttleCall *call) {
  stats.tallies[call->tally]++;
  stats.shadowed += call->shadowed;
  stats.refundedUnits += (uint64_t)call->refunded;
  if (RARELY(call->reply == REPLY_ERROR || call->reply == REPLY_WRONG_ARITY)) throttleCountError(call);
}

// Whether anybody may hear of an event: another module, a client, or a line of ours.
static inline int mayHear(int type) { return throttleHasNeighbours || throttleAllLines || api.GetNotifyKeyspaceEvents() & type; }

static inline void notify(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *name) {
  if (RARELY(mayHear(type))) api.NotifyKeyspaceEvent(ctx, type, event, name);
}

// Replicas and the AOF are told the effect, never the command, so that they end
// with the same bytes whatever their clock, and also without this module. Where there
// are none a change is only counted; there is no command to name outside of a call.
static inline int isHeard(const throttleCall *call, RedisModuleCtx *ctx) { return call->origin != BY_COMMAND || throttleIsHeard(ctx); }

static inline void replicateSet(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) {
  if (RARELY(isHeard(call, ctx))) {
    throttleReplicateSet(ctx, key);
  } else {
    api.ReplicateVerbatim(ctx);
  }
}

// Whether the key needs another expiry, which is then a later one than it has to be: so the calls that follow need
// none. Of a key without an expiry the server says -1.
static inline int movesExpiry(throttleKey *key) {
  if (!key->expireAtMs || (uint64_t)(api.GetAbsExpire(key->handle) - key->expireAtMs) <= (uint64_t)key->expireSlackMs) return 0;
  key->expireAtMs += key->expireSlackMs;
  return 1;
}

// Writes the new value of a string that is there. One of the same length is overwritten where it lies.
__attribute__((always_inline)) static inline void rewrite(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) {
  if (RARELY(key->expireNoEarlier)) throttleKeepLaterExpiry(key);
  key->expiryChanges = movesExpiry(key);
  replicateSet(call, ctx, key);
  if (RARELY(key->value.length != key->newValue.length)) throttleResize(key);
  // For writing, the server hands out a copy of its own where the old value is shared.
  size_t length;
  memcpy(api.StringDMA(key->handle, &length, OPEN_WRITE), key->newValue.bytes, key->newValue.length);
  if (key->expiryChanges) api.SetAbsExpire(key->handle, key->expireAtMs);
  api.SignalModifiedKey(ctx, key->name);
}

static inline void notifySet(RedisModuleCtx *ctx, throttleKey *key) {
  notify(ctx, NOTIFY_STRING, "set", key->name);
  if (key->expiryChanges) notify(ctx, NOTIFY_GENERIC, "expire", key->name);
}

static inline int isRewritten(const throttleKey *key) { return key->effect == EFFECT_SET && key->kind != KEY_ABSENT; }

static inline void notifyOfDecision(throttleCall *call, RedisModuleCtx *ctx) {
  if (call->tally == TALLY_LIMITED) notify(ctx, NOTIFY_MODULE, "limited", call->keys[call->tallyKey].name);
  if (RARELY(call->shadowed)) notify(ctx, NOTIFY_MODULE, "shadowed", call->keys[call->tallyKey].name);
}

#endif
