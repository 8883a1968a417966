// What a call needs to be decided: views of its arguments and of its keys' values, and
// the clock. Nothing is copied.
#include <time.h>

#include "bridge.h"

int64_t throttleClockNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t throttleCommandClockNs(void) {
  return api.CachedMicroseconds ? api.CachedMicroseconds() * 1000 : throttleClockNs();
}

int64_t throttleMsAfter(int64_t ns) { return ns > 0 ? ns / MS_NS + 1 : 0; }

void throttleGatherArgs(throttleCall *call, RedisModuleString **argv, int argc, int room) {
  call->argCount = argc - 1;
  int count = call->viewCount = call->argCount < room ? call->argCount : room;
  throttleView *arg = call->args;
  for (int i = 1; i <= count; i++, arg++) {
    arg->bytes = api.StringPtrLen(argv[i], &arg->length);
    arg->capacity = arg->length;
  }
}

// A key that is not there is NULL when it was opened for reading.
static void gatherKey(throttleKey *key) {
  switch (key->handle ? api.KeyType(key->handle) : KEYTYPE_EMPTY) {
  case KEYTYPE_EMPTY:
    key->kind = KEY_ABSENT;
    break;
  case KEYTYPE_STRING:
    key->kind = KEY_STRING;
    key->value.bytes = api.StringDMA(key->handle, &key->value.length, OPEN_READ);
    break;
  default:
    key->kind = KEY_OTHER; // throttleGatherMembers knows better, of commands on sorted sets
  }
}

static void openAll(throttleCall *call, RedisModuleCtx *ctx, int mode) {
  for (int i = 0; i < call->keyCount; i++) call->keys[i].handle = api.OpenKey(ctx, call->keys[i].name, mode);
}

// Opening a key that has expired removes it, of which other modules are notified. The handles
// do not show what a command of ours wrote on their behalf, so the keys are opened again.
void throttleOpenKeys(throttleCall *call, RedisModuleCtx *ctx, int mode) {
  uint64_t runs = throttleRuns;
  openAll(call, ctx, mode);
  if (throttleRuns != runs) {
    for (int i = 0; i < call->keyCount; i++) {
      if (call->keys[i].handle) api.CloseKey(call->keys[i].handle);
    }
    openAll(call, ctx, mode);
  }
  for (int i = 0; i < call->keyCount; i++) gatherKey(&call->keys[i]);
}
