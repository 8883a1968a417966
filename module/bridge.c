// The path of a command: gather what the call needs into one struct, cross into Go
// once, apply what Go decided. All commands share it.
#include "bridge.h"

#include <string.h>
#include <time.h>

#include "_cgo_export.h"

static RedisModuleString *stringPxat, *stringKeepttl;

// The server's own clock reading of this call where it has one to give (Redis 7,
// Valkey): taken at the start of the call, or of the transaction or script the call
// is part of. It costs nothing, and expiry goes by the same.
static int64_t nowNs(void) {
  if (api.CachedMicroseconds) return api.CachedMicroseconds() * 1000;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void gatherKey(throttleCall *call, RedisModuleKey *key) {
  switch (api.KeyType(key)) {
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

static void gatherArgs(throttleCall *call, RedisModuleString **argv, int argc) {
  call->argCount = argc - 1;
  int viewed = call->argCount < MAX_ARGS ? call->argCount : MAX_ARGS;
  for (int i = 0; i < viewed; i++) call->args[i].bytes = api.StringPtrLen(argv[i + 1], &call->args[i].length);
}

// A value of the same length is overwritten where it lies. StringTruncate makes or
// resizes any other; it creates a key without the copy that StringSet takes.
static void applyValue(throttleCall *call, RedisModuleKey *key) {
  size_t length = (size_t)call->valueLength;
  if (call->keyKind == KEY_ABSENT || call->value.length != length) api.StringTruncate(key, length);
  // For writing, the server hands out a copy of its own where the old value is shared.
  memcpy(api.StringDMA(key, &length, OPEN_WRITE), call->newValue, length);
}

// Replicas and the AOF are told the effect, never the command, so that they end
// with the same bytes whatever their clock, and also without this module.
static void applyWrite(throttleCall *call, RedisModuleCtx *ctx, RedisModuleKey *key, RedisModuleString *name) {
  applyValue(call, key);
  int expiryChanges = api.GetAbsExpire(key) != call->expireAtMs;
  if (expiryChanges) {
    api.SetAbsExpire(key, call->expireAtMs);
    api.Replicate(ctx, "SET", "sbsl", name, call->newValue, (size_t)call->valueLength, stringPxat,
                  (long long)call->expireAtMs);
  } else {
    api.Replicate(ctx, "SET", "sbs", name, call->newValue, (size_t)call->valueLength, stringKeepttl);
  }
  api.SignalModifiedKey(ctx, name);
  api.CloseKey(key);
  // Last, with the key closed: a listener in another module may change it.
  api.NotifyKeyspaceEvent(ctx, NOTIFY_STRING, "set", name);
  if (expiryChanges) api.NotifyKeyspaceEvent(ctx, NOTIFY_GENERIC, "expire", name);
}

static void applyReply(throttleCall *call, RedisModuleCtx *ctx) {
  switch (call->reply) {
  case REPLY_INTEGERS:
    api.ReplyWithArray(ctx, call->integerCount);
    for (int i = 0; i < call->integerCount; i++) api.ReplyWithLongLong(ctx, call->integers[i]);
    break;
  case REPLY_WRONG_ARITY:
    api.WrongArity(ctx);
    break;
  default:
    api.ReplyWithError(ctx, call->error);
  }
}

static int runCommand(int index, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  if (argc < 2) return api.WrongArity(ctx);
  throttleCall call; // not zeroed: every field is written before it is read
  RedisModuleString *name = argv[1];
  RedisModuleKey *key = api.OpenKey(ctx, name, OPEN_READ | OPEN_WRITE);
  call.command = index;
  call.nowNs = nowNs();
  gatherArgs(&call, argv, argc);
  gatherKey(&call, key);

  throttleDecide(&call);

  if (call.panicked) throttleLog(ctx, "warning", call.error);
  if (call.write == WRITE_SET) {
    applyWrite(&call, ctx, key, name);
  } else {
    api.CloseKey(key);
  }
  applyReply(&call, ctx);
  return API_OK;
}

// The server calls a command by a function of its own and tells nothing else apart
// (a name may have been changed by rename-command), so each index has a function.
#define COMMAND(index)                                                            \
  static int command##index(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) { \
    return runCommand(index, ctx, argv, argc);                                    \
  }
COMMAND(0)
static const RedisModuleCmdFunc commands[] = {command0};

int throttleRegister(RedisModuleCtx *ctx, int index, const char *name, const char *flags) {
  if (index < 0 || (size_t)index >= sizeof commands / sizeof *commands) return API_ERR;
  return api.CreateCommand(ctx, name, commands[index], flags, 1, 1, 1);
}

static void freeString(RedisModuleString **string) {
  if (*string) api.FreeString(NULL, *string);
  *string = NULL;
}

const char *throttlePrepare(RedisModuleCtx *ctx, const char *moduleName) {
  const char *missing = throttleLoadApi(ctx);
  if (missing) return missing;
  if (api.IsModuleNameBusy(moduleName)) return "a module of this name is already loaded";
  // A denied call opens its key for writing and changes nothing; WATCH and
  // client-side caches are told by applyWrite alone.
  api.SetModuleOptions(ctx, OPTION_NO_IMPLICIT_SIGNAL_MODIFIED);
  stringPxat = api.CreateString(NULL, "PXAT", 4);
  stringKeepttl = api.CreateString(NULL, "KEEPTTL", 7);
  return NULL;
}

// The server calls this on MODULE UNLOAD. The Go runtime stays mapped and serves a
// later MODULE LOAD.
int RedisModule_OnUnload(RedisModuleCtx *ctx) {
  (void)ctx;
  freeString(&stringPxat);
  freeString(&stringKeepttl);
  return API_OK;
}

void throttleLog(RedisModuleCtx *ctx, const char *level, const char *text) { api.Log(ctx, level, "%s", text); }
