// The bridge between the server and Go: what crosses, and the C parts of the path.
#ifndef THROTTLE_BRIDGE_H
#define THROTTLE_BRIDGE_H

#include <string.h>

#include "api.h"

// The constants here are those of Go's package command; boundary.go compares them.
enum { MAX_ARGS = 40, MAX_VALUE_LEN = 8426, MAX_ERROR_LEN = 255, MAX_INTEGERS = 9 };
enum { KEY_ABSENT, KEY_STRING, KEY_OTHER };
enum { REPLY_ERROR, REPLY_WRONG_ARITY, REPLY_INTEGERS, REPLY_FIELDS, REPLY_LATER };
enum { WRITE_KEEP, WRITE_SET, WRITE_DELETE };
enum { KIND_WRITE, KIND_READ, KIND_BLOCKING };
enum { COMMAND_THROTTLE, COMMAND_LIMIT, COMMAND_PEEK, COMMAND_REFUND, COMMAND_WAIT, COMMANDS };
// Places in integers.
enum { FIELD_LIMITED = 0, FIELD_GRANTED = 7 };
enum { MAX_TOP_NAME_LEN = 128 };

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
  int32_t db;       // of KIND_BLOCKING, and when CL.TOP counts
  int64_t nowNs;
  throttleView value;
  throttleView args[MAX_ARGS];

  int32_t reply;
  int32_t write;
  int32_t panicked; // error tells what happened
  int32_t line;     // of REPLY_LATER: where the caller waits
  int32_t integerCount;
  int64_t expireAtMs;
  int64_t valueLength;
  int64_t integers[MAX_INTEGERS];
  char newValue[MAX_VALUE_LEN];
  char error[MAX_ERROR_LEN + 1];
} throttleCall;

// A call is not zeroed: every field is written before it is read. The test build fills it, so
// that one that is not shows.
static inline void throttleBlank(throttleCall *call) {
#ifdef THROTTLE_CHECK
  memset(call, 0xA5, sizeof *call);
#else
  (void)call;
#endif
}

// One key of CL.TOP's reply.
typedef struct {
  int32_t db;
  int32_t nameLength;
  int64_t count;
  int64_t error;
  char name[MAX_TOP_NAME_LEN];
} throttleTopKey;

typedef struct {
  char version[64];
  uint64_t sinceUnixTime;
  uint64_t calls[COMMANDS];
  uint64_t allowed, limited, refundedUnits;
  uint64_t waiting, waited, waitLeft;
  uint64_t errorsArity, errorsArgument, errorsWrongType, errorsInternal;
} throttleStats;

// load.c. throttlePrepare gets what every call needs: the API and the constant
// strings. It returns NULL, or what keeps the module from running here.
const char *throttlePrepare(RedisModuleCtx *ctx, const char *moduleName);
void throttleLog(RedisModuleCtx *ctx, const char *level, const char *text);
// throttleSilenceGoRm keeps go-rm from logging anything until the next load.
void throttleSilenceGoRm(void);
const char *throttleText(const RedisModuleString *string, size_t *length);

// commands.c. Returns NULL, or the name of a command that could not be registered.
const char *throttleRegisterCommands(RedisModuleCtx *ctx);

// config.c
int throttleConfigure(RedisModuleCtx *ctx, long long topAtLoad, long long topMax);

// listeners.c
int throttleIsHeard(RedisModuleCtx *ctx); // whether a replica, an AOF or a backlog may hear of a write
void throttleWatchListeners(RedisModuleCtx *ctx);

// stats.c
extern throttleStats stats;
int throttleRegisterInfo(RedisModuleCtx *ctx, const char *version);
void throttleCount(const throttleCall *call);

// crash.c. throttlePrepareForCrash runs before Go starts, throttleNoteGoThreads after,
// throttleStopGoThreads when the server crashes.
void throttlePrepareForCrash(void);
void throttleNoteGoThreads(void);
void throttleStopGoThreads(void);

// command.c, topkeys.c
extern uint64_t throttleRuns; // commands that began; more than before when others ran nested
int throttleRun(int index, int kind, RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
int throttleTop(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

// gather.c. The command clock is the server's own reading where it gives one (Redis 7.2,
// Valkey): of the start of the call, or of the transaction or script it is part of. It
// costs nothing, and expiry goes by the same.
int64_t throttleClockNs(void);
int64_t throttleCommandClockNs(void);
void throttleGatherArgs(throttleCall *call, RedisModuleString **argv, int argc);
void throttleGatherKey(throttleCall *call, RedisModuleKey *key);

// apply.c. throttleApplyKey closes key. A call in the middle of another's that adds its key
// leaves that key alone.
int throttleIsBeingCreated(RedisModuleCtx *ctx, RedisModuleString *name);
void throttleMakeStrings(void);
void throttleApplyKey(throttleCall *call, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name);
void throttleReply(throttleCall *call, RedisModuleCtx *ctx);

void throttleReplyMap(RedisModuleCtx *ctx, int pairs);
void throttleReplyName(RedisModuleCtx *ctx, const char *name);

// wait.c. throttleWait blocks the caller of a REPLY_LATER until its slot has come.
void throttleWait(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString *name);

// timerslack.c. Gives the calling thread its timer slack back.
void throttleRestoreTimerSlack(void);

#endif
