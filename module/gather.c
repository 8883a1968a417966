// What a call needs to be decided: views of its arguments and of its keys' values. Nothing is copied.
#include "path.h"

enum { IS_NOT_COPIED, IS_COPIED, IS_NOT_SHOWN };

// Reading a value through the key may replace it by one in a form that the module API can show. This leaves it alone. A
// value that is too long to be of ours, or that GET does not show because it was renamed, is of the wrong type.
static void copyValue(RedisModuleCtx *ctx, throttleKey *key) {
  RedisModuleCallReply *reply = api.Call(ctx, "GET", THROTTLE_FORMAT("s"), key->name);
  key->isCopied = reply ? IS_COPIED : IS_NOT_SHOWN;
  size_t length = 0;
  const char *bytes = reply && api.CallReplyType(reply) == CALL_REPLY_STRING ? api.CallReplyStringPtr(reply, &length) : NULL;
  key->kind = KEY_OTHER;
  if (bytes && length <= MAX_VALUE_LEN) {
    key->kind = KEY_STRING;
    key->value = (throttleView){memcpy(api.PoolAlloc(ctx, length + 1), bytes, length), length, length}; // for no bytes the pool gives no place
  }
  if (reply) api.FreeCallReply(reply);
}

// Whether a call on several keys, which stand behind their number, names a key that it has named before. Such a call is
// refused, but only after it was gathered.
static int isGivenBefore(const throttleCall *call, int index) {
  const throttleView *name = &call->args[1 + index];
  for (int i = 1; i <= index; i++) {
    if (call->args[i].length == name->length && memcmp(call->args[i].bytes, name->bytes, name->length) == 0) return 1;
  }
  return 0;
}

// A key is opened once: reading its value may replace it, which a second handle would not notice.
static void openAll(throttleCall *call, RedisModuleCtx *ctx) {
  for (int i = 0; i < call->keyCount; i++) {
    throttleKey *key = &call->keys[i];
    key->handle = isGivenBefore(call, i) ? NULL : api.OpenKey(ctx, key->name, call->openMode);
  }
}

// A module that adds expired keys again and again must not keep us here.
enum { MOST_TRIES = 16 };

// Opens a key, which was tried some times before. If a key has expired meanwhile, other modules were notified, which
// may have added this one, and it is opened again. This returns 0, and opens nothing, if that happens each time.
static int openUnexpired(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key, int tries) {
  for (; tries < MOST_TRIES; tries++) {
    uint64_t expiries = throttleExpiries;
    key->handle = api.OpenKey(ctx, key->name, call->openMode);
    if (throttleExpiries == expiries) return 1;
    if (key->handle) api.CloseKey(key->handle);
  }
  return 0;
}

int throttleOpenUnexpired(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) { return openUnexpired(call, ctx, key, 0); }

// Removes what has expired, with at most one key open. It returns 0 if something expires each time.
static int expireAll(throttleCall *call, RedisModuleCtx *ctx) {
  for (int tries = 0; tries < MOST_TRIES; tries++) {
    uint64_t expiries = throttleExpiries;
    for (int i = 0; i < call->keyCount; i++) {
      RedisModuleKey *key = api.OpenKey(ctx, call->keys[i].name, call->openMode);
      if (key) api.CloseKey(key);
    }
    if (throttleExpiries == expiries) return 1;
  }
  return 0;
}

// Opening a key that has expired removes it, of which other modules are notified. They may write to any key, and a
// handle that is open already does not show that: it may point to a value that is gone, and cannot even be closed then.
// So several keys are opened only when none has expired. None expires in between: time stands still within a command.
__attribute__((noinline, cold)) static int openAmongNeighbours(throttleCall *call, RedisModuleCtx *ctx, int tries) {
  if (call->keyCount == 1) return openUnexpired(call, ctx, call->keys, tries);
  if (!expireAll(call, ctx)) return 0;
  openAll(call, ctx);
  return 1;
}

// Marks all keys as of the wrong type after opening failed.
static void forgetKeys(throttleCall *call) {
  for (int i = 0; i < call->keyCount; i++) {
    call->keys[i].handle = NULL;
    call->keys[i].kind = KEY_OTHER;
  }
}

static int isAnyString(const throttleCall *call) {
  for (int i = 0; i < call->keyCount; i++) {
    if (isOfType(&call->keys[i], KEYTYPE_STRING)) return 1;
  }
  return 0;
}

// Notes which values must not be read through their keys, also if a key gets an expiry meanwhile. It returns whether
// there are any. Of a client that the server is about to answer only those are noted that may be unfinished: no value
// can be copied then.
static int noteNested(throttleCall *call, RedisModuleCtx *ctx) {
  if (!isAnyString(call) || !throttleMayBeNested(call, ctx)) return 0;
  int isAny = 0, canCopy = !(call->openMode & OPEN_QUIETLY);
  for (int i = 0; i < call->keyCount; i++) {
    throttleKey *key = &call->keys[i];
    if (isOfType(key, KEYTYPE_STRING)) {
      int isUnfinished = throttleMayBeUnfinished(key->handle);
      call->unfinished |= isUnfinished;
      if (isUnfinished || canCopy) key->isCopied = IS_COPIED;
    }
    isAny |= key->isCopied;
  }
  return isAny;
}

// Opens the keys anew after the values of some were copied, which may have run other modules: so no key is open
// meanwhile. It returns 0 if they cannot be opened. For a client that the server is about to answer no other module may
// run, and no value is copied.
__attribute__((noinline, cold)) static int copyAndReopen(throttleCall *call, RedisModuleCtx *ctx) {
  call->isGuarded = 1;
  int isQuiet = call->openMode & OPEN_QUIETLY;
  if (!isQuiet) throttleCloseKeys(call);
  for (int i = 0; i < call->keyCount; i++) {
    throttleKey *key = &call->keys[i];
    if (!key->isCopied) continue;
    key->kind = KEY_OTHER;
    if (!isQuiet) copyValue(ctx, key);
  }
  return isQuiet || openAmongNeighbours(call, ctx, 0);
}

// Whether a value is read through its key. Where GET was renamed, that is how scripts and modules read keys that have
// an expiry.
static int isReadByKey(const throttleKey *key) {
  return !key->isCopied || !isOfType(key, KEYTYPE_STRING) || (key->isCopied == IS_NOT_SHOWN && !throttleMayBeUnfinished(key->handle));
}

__attribute__((noinline, cold)) static void gatherAmongNeighbours(throttleCall *call, RedisModuleCtx *ctx, int tries) {
  int isOpen = openAmongNeighbours(call, ctx, tries);
  if (isOpen && noteNested(call, ctx)) isOpen = copyAndReopen(call, ctx);
  if (!isOpen) {
    forgetKeys(call);
    return;
  }
  for (int i = 0; i < call->keyCount; i++) {
    throttleKey *key = &call->keys[i];
    if (!isReadByKey(key)) continue;
    key->isCopied = IS_NOT_COPIED;
    gatherKey(key);
  }
}

// Reads a value through its key after all, since the call changes it. It returns whether it is no longer as it was
// copied: other modules may have run when the next one was copied, or the keys were opened again.
static int hasChanged(throttleKey *key) {
  if (!key->isCopied || !isOfType(key, KEYTYPE_STRING)) return 0;
  throttleView copy = key->value;
  int kind = key->kind;
  key->isCopied = IS_NOT_COPIED;
  gatherKey(key);
  return kind != key->kind || copy.length != key->value.length || memcmp(copy.bytes, key->value.bytes, copy.length) != 0;
}

int throttleHaveChanged(throttleCall *call) {
  int isAny = 0;
  for (int i = 0; i < call->keyCount; i++) {
    if (call->keys[i].effect != EFFECT_KEEP) isAny |= hasChanged(&call->keys[i]);
  }
  for (int i = 0; isAny && i < call->keyCount; i++) hasChanged(&call->keys[i]);
  return isAny;
}

void throttleOpenSeveral(throttleCall *call, RedisModuleCtx *ctx) {
  if (throttleHasNeighbours) {
    gatherAmongNeighbours(call, ctx, 0);
    return;
  }
  openAll(call, ctx);
  for (int i = 0; i < call->keyCount; i++) gatherKey(&call->keys[i]);
}

// Another module was told that the only key of the call had expired when it was opened.
__attribute__((noinline, cold)) void throttleOpenAgain(throttleCall *call, RedisModuleCtx *ctx) {
  throttleCloseKeys(call);
  gatherAmongNeighbours(call, ctx, 1);
}

void throttleCloseKeys(throttleCall *call) {
  for (int i = 0; i < call->keyCount; i++) {
    throttleKey *key = &call->keys[i];
    if (key->handle) api.CloseKey(key->handle);
    key->handle = NULL;
  }
}
