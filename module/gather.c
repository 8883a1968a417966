// What a call needs to be decided: views of its arguments and of its key's value, and
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

void throttleGatherArgs(throttleCall *call, RedisModuleString **argv, int argc) {
  call->argCount = argc - 1;
  int viewed = call->argCount < MAX_ARGS ? call->argCount : MAX_ARGS;
  for (int i = 0; i < viewed; i++) call->args[i].bytes = api.StringPtrLen(argv[i + 1], &call->args[i].length);
}

// A key that is not there is NULL when it was opened for reading.
void throttleGatherKey(throttleCall *call, RedisModuleKey *key) {
  switch (key ? api.KeyType(key) : KEYTYPE_EMPTY) {
  case KEYTYPE_EMPTY:
    call->keyKind = KEY_ABSENT;
    break;
  case KEYTYPE_STRING:
    call->keyKind = KEY_STRING;
    call->value.bytes = api.StringDMA(key, &call->value.length, OPEN_READ);
    break;
  default:
    call->keyKind = KEY_OTHER;
  }
}
