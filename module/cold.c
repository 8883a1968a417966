// What the inlined parts of path.h leave to functions, because it is rare.
#include <stdio.h>

#include "run.h"
#include "stats.h"

// Sets the kind of a key whose value shows no bytes. A key that does not exist and was opened for reading has no
// handle.
void throttleGatherKind(throttleKey *key) {
  switch (key->handle ? api.KeyType(key->handle) : KEYTYPE_EMPTY) {
  case KEYTYPE_EMPTY:
    key->kind = KEY_ABSENT;
    break;
  case KEYTYPE_STRING:
    key->kind = KEY_STRING;
    break;
  default:
    key->kind = KEY_OTHER; // throttleGatherMembers knows better, of commands on sorted sets
  }
}

static RedisModuleString *stringPxat, *stringKeepttl;

// Made once and kept over MODULE UNLOAD, like the library itself: a server may still
// call a command that was queued in MULTI before.
void throttleMakeStrings(void) {
  if (stringPxat) return;
  stringPxat = api.CreateString(NULL, "PXAT", 4);
  stringKeepttl = api.CreateString(NULL, "KEEPTTL", 7);
}

void throttleReplicateSet(RedisModuleCtx *ctx, throttleKey *key) {
  if (key->expiryChanges) {
    api.Replicate(ctx, "SET", "sbsl", key->name, key->newValue.bytes, key->newValue.length, stringPxat, (long long)key->expireAtMs);
  } else {
    api.Replicate(ctx, "SET", "sbs", key->name, key->newValue.bytes, key->newValue.length, stringKeepttl);
  }
}

// The server doubles a string that grows. Above this length that costs too much memory, so the
// string is grown to more than twice its length and cut, upon which the server gives back all
// that is not needed.
enum { GROW_UP_TO = 512 };

void throttleResize(throttleKey *key) {
  size_t length = key->newValue.length;
  if (length > GROW_UP_TO && length > key->value.length) api.StringTruncate(key->handle, 2 * length + 2);
  api.StringTruncate(key->handle, length);
}

// Keeps a later expiry of a key, which has to exist: Redis 8.6 crashes when it is asked for the expiry of one that does
// not.
void throttleKeepLaterExpiry(throttleKey *key) {
  int64_t hasMs = api.GetAbsExpire(key->handle); // -1 for none
  if (hasMs < 0 || hasMs > key->expireAtMs) key->expireAtMs = 0;
}

void throttleCountError(const throttleCall *call) {
  if (call->reply == REPLY_WRONG_ARITY) {
    stats.errorsArity++;
  } else if (call->panicked) {
    stats.errorsInternal++;
  } else if (call->error[0] == 'W') {
    stats.errorsWrongType++;
  } else if (call->error[0] != 'O' && call->error[0] != 'U') { // OOM is counted by the server, and UNBLOCKED is nobody's mistake
    stats.errorsArgument++;
  }
}

void throttleRefuse(throttleCall *call, const char *error) {
  for (int i = 0; i < call->keyCount; i++) {
    call->keys[i].effect = EFFECT_KEEP;
    if (call->keys[i].members) throttleNoLease(call->keys[i].members);
  }
  call->reply = REPLY_ERROR;
  call->tally = TALLY_NONE;
  call->shadowed = call->turnedAway = 0;
  call->refunded = 0;
  snprintf(call->error, sizeof call->error, "%s", error);
}
