// What a decision does to the keys of its call: value and expiry, their replication, and
// notifications.
#include "path.h"

const throttleCall *throttleCreating;

static void delete(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) {
  api.DeleteKey(key->handle);
  if (isHeard(call, ctx)) {
    api.Replicate(ctx, "DEL", "s", key->name);
  } else {
    api.ReplicateVerbatim(ctx);
  }
}

// A set that is not there, and gets its first member.
static int isNewSet(const throttleKey *key) { return key->effect == EFFECT_MEMBERS && key->kind == KEY_ABSENT && key->members->add; }

static int isNewString(const throttleKey *key) { return key->effect == EFFECT_SET && key->kind == KEY_ABSENT; }

// Changes a key that is there, and closes it. One that is to be created stays open.
static void change(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) {
  if (isNewString(key) || isNewSet(key)) return;
  switch (key->effect) {
  case EFFECT_SET:
    rewrite(call, ctx, key);
    break;
  case EFFECT_DELETE:
    delete(call, ctx, key);
    api.SignalModifiedKey(ctx, key->name);
    break;
  case EFFECT_MEMBERS:
    throttleChangeMembers(call, ctx, key, isHeard(call, ctx));
    api.SignalModifiedKey(ctx, key->name);
    break;
  }
  if (key->handle && call->reply != REPLY_LEASES) api.CloseKey(key->handle); // which that reply still reads
}

// A short string of the server's lies in one piece with its object, and the first command of a
// module that reads it has it created again as one that does not. A copy of one that does not is as
// it has to be from the start, so for each length there is one to copy. Nobody but this function
// ever sees it. Valkey 9.1 has objects of up to 128 bytes in one piece, Redis and earlier Valkeys of 64.
enum { SHORT_UP_TO = 128 };

static RedisModuleString *newValue(const throttleView *value) {
  static RedisModuleString *patterns[SHORT_UP_TO + 1];
  if (value->length > SHORT_UP_TO) return api.CreateString(NULL, value->bytes, value->length);
  RedisModuleString **pattern = &patterns[value->length];
  if (!*pattern) *pattern = api.CreateStringPrintf(NULL, "%*s", (int)value->length, "");
  size_t length;
  memcpy((char *)api.StringPtrLen(*pattern, &length), value->bytes, value->length);
  return api.CreateStringFromString(NULL, *pattern);
}

int throttleIsBeingCreated(RedisModuleCtx *ctx, RedisModuleString *name) {
  if (api.GetSelectedDb(ctx) != throttleCreating->db) return 0;
  for (int i = 0; i < throttleCreating->keyCount; i++) {
    if (api.StringCompare(throttleCreating->keys[i].name, name) == 0) return 1;
  }
  return 0;
}

// While a call adds one of its keys, another module may write to the next ones. So each is opened anew just before it
// is added. What was written there in the meantime is replaced, as it is by MSET. This returns 0 if the key expires
// again whenever it is opened.
static int openToAdd(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) {
  if (call->keyCount == 1 || !throttleHasNeighbours) return 1;
  api.CloseKey(key->handle);
  if (throttleOpenUnexpired(call, ctx, key)) return 1;
  key->effect = EFFECT_KEEP;
  return 0;
}

// Whether a key still holds what was written to it. Another module may have written to it while it was added, which
// came later for replicas.
static int holds(RedisModuleKey *key, const throttleView *value) {
  if (api.KeyType(key) != KEYTYPE_STRING) return 0;
  if (!throttleHasNeighbours) return 1;
  size_t length;
  const char *bytes = api.StringDMA(key, &length, OPEN_READ);
  return length == value->length && memcmp(bytes, value->bytes, length) == 0;
}

// The server sends event "new" while it adds a key, and is not done with the key then: up to
// Redis 7.0 it goes on to take the expiry away, and aborts if the key is gone. Another module
// may run any command in the middle. Those of ours leave the keys of this call alone; the
// reference to value keeps it valid whatever the others do. Replicas are told of each key just before it is added, so
// they see all writes in the same order. From what another module has written, the server takes the expiry away, which
// replicas are told. Redis 8.6 itself reads what it added again after the event, and may crash if that was replaced.
static void create(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) {
  if (!openToAdd(call, ctx, key)) return;
  key->expiryChanges = 1;
  replicateSet(call, ctx, key);
  RedisModuleString *value = newValue(&key->newValue);
  api.RetainString(NULL, value);
  const throttleCall *outer = throttleCreating;
  throttleCreating = call;
  api.StringSet(key->handle, value);
  api.CloseKey(key->handle);
  throttleCreating = outer;
  api.FreeString(NULL, value);
  api.FreeString(NULL, value);
  RedisModuleKey *created = api.OpenKey(ctx, key->name, OPEN_READ | OPEN_WRITE);
  if (holds(created, &key->newValue)) {
    api.SetAbsExpire(created, key->expireAtMs);
  } else if (isHeard(call, ctx)) {
    api.Replicate(ctx, "PERSIST", "s", key->name);
  }
  api.CloseKey(created);
  api.SignalModifiedKey(ctx, key->name);
}

// As create, of a set.
static void createSet(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) {
  if (!openToAdd(call, ctx, key)) return;
  const throttleCall *outer = throttleCreating;
  throttleCreating = call;
  throttleMakeSet(call, ctx, key, isHeard(call, ctx));
  throttleCreating = outer;
  api.CloseKey(key->handle);
  api.SignalModifiedKey(ctx, key->name);
}

static void notifyOf(RedisModuleCtx *ctx, throttleKey *key) {
  switch (key->effect) {
  case EFFECT_SET:
    notifySet(ctx, key);
    break;
  case EFFECT_DELETE:
    notify(ctx, NOTIFY_GENERIC, "del", key->name);
    break;
  case EFFECT_MEMBERS:
    throttleNotifyMembers(ctx, key);
  }
}

// The listeners of notifications come last, with all keys written and closed: one of another
// module may change them.
void throttleApply(throttleCall *call, RedisModuleCtx *ctx) {
  int effects = 0;
  for (int i = 0; i < call->keyCount; i++) {
    effects |= call->keys[i].effect;
    change(call, ctx, &call->keys[i]);
  }
  for (int i = 0; call->seesMembers && i < call->keyCount; i++) throttleCountLease(call->keys[i].members);
  if (effects != EFFECT_KEEP) {
    for (int i = 0; i < call->keyCount; i++) {
      throttleKey *key = &call->keys[i];
      if (isNewString(key)) create(call, ctx, key);
      if (isNewSet(key)) createSet(call, ctx, key);
    }
    for (int i = 0; i < call->keyCount; i++) notifyOf(ctx, &call->keys[i]);
  }
  if (call->keyCount && call->openMode & OPEN_QUIETLY) return;
  for (int i = 0; call->seesMembers && i < call->keyCount; i++) throttleNotifyLease(ctx, &call->keys[i]);
  notifyOfDecision(call, ctx);
}
