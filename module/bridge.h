// What crosses between the C bridge and Go: one struct for each call.
#ifndef THROTTLE_BRIDGE_H
#define THROTTLE_BRIDGE_H

#include "api.h"

enum { MAX_ARGS = 16, MAX_VALUE_LEN = 20, MAX_ERROR_LEN = 255, MAX_INTEGERS = 5 };

typedef struct {
  const char *bytes;
  size_t length;
} throttleView;

enum { KEY_ABSENT, KEY_STRING, KEY_OTHER };
enum { REPLY_ERROR, REPLY_WRONG_ARITY, REPLY_INTEGERS };
enum { WRITE_KEEP, WRITE_SET };

// A call as C gathered it, and its outcome as Go filled it in for C to apply. The
// constants above are those of Go's package command; boundary.go compares them.
typedef struct {
  int32_t command;
  int32_t argCount; // after the command's name, maybe more than MAX_ARGS
  int32_t keyKind;
  int64_t nowNs;
  throttleView value;
  throttleView args[MAX_ARGS];

  int32_t reply;
  int32_t write;
  int32_t panicked; // error tells what happened
  int32_t integerCount;
  int64_t expireAtMs;
  int64_t valueLength;
  int64_t integers[MAX_INTEGERS];
  char newValue[MAX_VALUE_LEN];
  char error[MAX_ERROR_LEN + 1];
} throttleCall;

// throttleRegister makes the server call the command at index in Go's table by
// this name.
int throttleRegister(RedisModuleCtx *ctx, int index, const char *name, const char *flags);

// throttlePrepare gets what every call needs: the API and the constant strings. It
// returns NULL, or a sentence that says why the module cannot run here.
const char *throttlePrepare(RedisModuleCtx *ctx, const char *moduleName);

void throttleLog(RedisModuleCtx *ctx, const char *level, const char *text);

// throttleRestoreTimerSlack gives the calling thread its timer slack back.
void throttleRestoreTimerSlack(void);

#endif
