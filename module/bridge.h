// The bridge between the server and Go: what crosses, and the C parts of the path.
#ifndef THROTTLE_BRIDGE_H
#define THROTTLE_BRIDGE_H

#include "api.h"

// The constants here are those of Go's package command; boundary.go compares them.
enum { MAX_ARGS = 40, MAX_VALUE_LEN = 8426, MAX_ERROR_LEN = 255, MAX_INTEGERS = 9 };
enum { KEY_ABSENT, KEY_STRING, KEY_OTHER };
enum { REPLY_ERROR, REPLY_WRONG_ARITY, REPLY_INTEGERS, REPLY_FIELDS, REPLY_LATER };
enum { WRITE_KEEP, WRITE_SET, WRITE_DELETE };
enum { KIND_WRITE, KIND_READ, KIND_BLOCKING };

typedef struct {
  const char *bytes;
  size_t length;
} throttleView;

// A call as C gathered it, and its outcome as Go filled it in for C to apply.
typedef struct {
  int32_t command;
  int32_t argCount; // after the command's name, maybe more than MAX_ARGS
  int32_t keyKind;
  int32_t mayBlock; // of KIND_BLOCKING: the caller can be made to wait
  int32_t db;       // of KIND_BLOCKING
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

// load.c. throttlePrepare gets what every call needs: the API and the constant
// strings. It returns NULL, or what keeps the module from running here.
const char *throttlePrepare(RedisModuleCtx *ctx, const char *moduleName);
void throttleLog(RedisModuleCtx *ctx, const char *level, const char *text);

// command.c. throttleRegister makes the server call the command at index in Go's
// table by this name.
int throttleRegister(RedisModuleCtx *ctx, int index, const char *name, const char *flags, int kind);

// gather.c. The command clock is the server's own reading where it gives one (Redis 7,
// Valkey): of the start of the call, or of the transaction or script it is part of. It
// costs nothing, and expiry goes by the same.
int64_t throttleClockNs(void);
int64_t throttleCommandClockNs(void);
void throttleGatherArgs(throttleCall *call, RedisModuleString **argv, int argc);
void throttleGatherKey(throttleCall *call, RedisModuleKey *key);

// apply.c. throttleApplyKey closes key.
void throttleMakeStrings(void);
void throttleFreeStrings(void);
void throttleApplyKey(throttleCall *call, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name);
void throttleReply(throttleCall *call, RedisModuleCtx *ctx);

// wait.c. throttleWait blocks the caller of a REPLY_LATER until its slot has come.
void throttleWait(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString *name);

// timerslack.c. Gives the calling thread its timer slack back.
void throttleRestoreTimerSlack(void);

#endif
