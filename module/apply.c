// What a decision does: the key's value and expiry, their replication and
// notification, and the reply.
#include <string.h>

#include "bridge.h"

static RedisModuleString *stringPxat, *stringKeepttl;

// Made once and kept over MODULE UNLOAD, like the library itself: a server may still
// call a command that was queued in MULTI before.
void throttleMakeStrings(void) {
  if (stringPxat) return;
  stringPxat = api.CreateString(NULL, "PXAT", 4);
  stringKeepttl = api.CreateString(NULL, "KEEPTTL", 7);
}

// Replicas and the AOF are told the effect, never the command, so that they end
// with the same bytes whatever their clock, and also without this module. Where there
// are none a change is only counted; there is no command to name outside of a call.
static int isHeard(const throttleCall *call, RedisModuleCtx *ctx) { return call->command < 0 || throttleIsHeard(ctx); }

static void replicateSet(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString *name, int expiryChanges) {
  size_t length = (size_t)call->valueLength;
  if (!isHeard(call, ctx)) {
    api.ReplicateVerbatim(ctx);
  } else if (expiryChanges) {
    api.Replicate(ctx, "SET", "sbsl", name, call->newValue, length, stringPxat, (long long)call->expireAtMs);
  } else {
    api.Replicate(ctx, "SET", "sbs", name, call->newValue, length, stringKeepttl);
  }
}

static RedisModuleString *creating;
static int creatingDb;

int throttleIsBeingCreated(RedisModuleCtx *ctx, RedisModuleString *name) {
  return creating && api.GetSelectedDb(ctx) == creatingDb && api.StringCompare(creating, name) == 0;
}

// The server sends event "new" while it adds a key, and is not done with the key then: up to
// Redis 7.0 it goes on to take the expiry away, and aborts if the key is gone. Another module
// may run any command in the middle. Those of ours leave this key alone. Replicas are told
// before, in the order of the writes, and the reference to value keeps it valid.
static void create(throttleCall *call, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name) {
  replicateSet(call, ctx, name, 1);
  RedisModuleString *value = api.CreateString(NULL, call->newValue, (size_t)call->valueLength);
  api.RetainString(NULL, value);
  RedisModuleString *outer = creating;
  int outerDb = creatingDb;
  creating = name;
  creatingDb = api.GetSelectedDb(ctx);
  api.StringSet(key, value);
  api.CloseKey(key);
  creating = outer;
  creatingDb = outerDb;
  api.FreeString(NULL, value);
  api.FreeString(NULL, value);
  key = api.OpenKey(ctx, name, OPEN_READ | OPEN_WRITE);
  if (api.KeyType(key) == KEYTYPE_STRING) api.SetAbsExpire(key, call->expireAtMs);
  api.CloseKey(key);
}

// The server doubles a string that grows. Above this length that costs too much memory, so the
// string is grown to more than twice its length and cut, upon which the server gives back all
// that is not needed.
enum { GROW_UP_TO = 512 };

// A value of the same length is overwritten where it lies.
static void overwrite(throttleCall *call, RedisModuleKey *key) {
  size_t length = (size_t)call->valueLength;
  if (call->value.length != length) {
    if (length > GROW_UP_TO && length > call->value.length) api.StringTruncate(key, 2 * length + 2);
    api.StringTruncate(key, length);
  }
  // For writing, the server hands out a copy of its own where the old value is shared.
  memcpy(api.StringDMA(key, &length, OPEN_WRITE), call->newValue, length);
}

// The listeners of notifications come last, with the key closed: one of another module
// may change it.
static void set(throttleCall *call, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name) {
  int expiryChanges = call->keyKind == KEY_ABSENT || api.GetAbsExpire(key) != call->expireAtMs;
  if (call->keyKind == KEY_ABSENT) {
    create(call, ctx, key, name);
    api.SignalModifiedKey(ctx, name);
  } else {
    overwrite(call, key);
    if (expiryChanges) api.SetAbsExpire(key, call->expireAtMs);
    replicateSet(call, ctx, name, expiryChanges);
    api.SignalModifiedKey(ctx, name);
    api.CloseKey(key);
  }
  api.NotifyKeyspaceEvent(ctx, NOTIFY_STRING, "set", name);
  if (expiryChanges) api.NotifyKeyspaceEvent(ctx, NOTIFY_GENERIC, "expire", name);
}

static void delete(throttleCall *call, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name) {
  api.DeleteKey(key);
  if (isHeard(call, ctx)) {
    api.Replicate(ctx, "DEL", "s", name);
  } else {
    api.ReplicateVerbatim(ctx);
  }
  api.SignalModifiedKey(ctx, name);
  api.CloseKey(key);
  api.NotifyKeyspaceEvent(ctx, NOTIFY_GENERIC, "del", name);
}

static int isLimited(const throttleCall *call) {
  return (call->reply == REPLY_INTEGERS || call->reply == REPLY_FIELDS) && call->integers[FIELD_LIMITED];
}

void throttleApplyKey(throttleCall *call, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name) {
  switch (call->write) {
  case WRITE_SET:
    set(call, ctx, key, name);
    break;
  case WRITE_DELETE:
    delete(call, ctx, key, name);
    break;
  default:
    if (key) api.CloseKey(key);
  }
  if (isLimited(call) && call->command != COMMAND_PEEK) api.NotifyKeyspaceEvent(ctx, NOTIFY_MODULE, "limited", name);
}

// The names of a REPLY_FIELDS, in the order of package command's integers.
#define FIELD(name) {name, sizeof name - 1}
static const throttleView fieldNames[MAX_INTEGERS] = {
    FIELD("limited"),        FIELD("rule"),          FIELD("limit"),   FIELD("remaining"), FIELD("retry_after_ms"),
    FIELD("reset_after_ms"), FIELD("next_after_ms"), FIELD("granted"), FIELD("wait_ms"),
};

// A map in RESP3, its pairs one after the other in RESP2.
void throttleReplyMap(RedisModuleCtx *ctx, int pairs) {
  if (api.ReplyWithMap) {
    api.ReplyWithMap(ctx, pairs);
  } else {
    api.ReplyWithArray(ctx, 2 * pairs);
  }
}

void throttleReplyName(RedisModuleCtx *ctx, const char *name) { api.ReplyWithStringBuffer(ctx, name, strlen(name)); }

static void replyFields(throttleCall *call, RedisModuleCtx *ctx) {
  throttleReplyMap(ctx, MAX_INTEGERS);
  for (int i = 0; i < MAX_INTEGERS; i++) {
    api.ReplyWithStringBuffer(ctx, fieldNames[i].bytes, fieldNames[i].length);
    api.ReplyWithLongLong(ctx, call->integers[i]);
  }
}

void throttleReply(throttleCall *call, RedisModuleCtx *ctx) {
  switch (call->reply) {
  case REPLY_INTEGERS:
    api.ReplyWithArray(ctx, call->integerCount);
    for (int i = 0; i < call->integerCount; i++) api.ReplyWithLongLong(ctx, call->integers[i]);
    break;
  case REPLY_FIELDS:
    replyFields(call, ctx);
    break;
  case REPLY_WRONG_ARITY:
    api.WrongArity(ctx);
    break;
  default:
    api.ReplyWithError(ctx, call->error);
  }
}
