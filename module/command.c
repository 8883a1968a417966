// The path of a command: gather what the call needs into one struct, cross into Go
// once, apply what Go decided. All commands share it.
#include "bridge.h"

#include "_cgo_export.h"

static int canBlock(RedisModuleCtx *ctx) {
  return !(api.GetContextFlags(ctx) & (CONTEXT_MULTI | CONTEXT_LUA | CONTEXT_DENY_BLOCKING));
}

static inline int runCommand(int index, int kind, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  if (argc < 2) return api.WrongArity(ctx);
  throttleCall call; // not zeroed: every field is written before it is read
  RedisModuleString *name = argv[1];
  RedisModuleKey *key = api.OpenKey(ctx, name, kind == KIND_READ ? OPEN_READ : OPEN_READ | OPEN_WRITE);
  call.command = index;
  call.nowNs = throttleCommandClockNs();
  if (kind == KIND_BLOCKING) {
    call.mayBlock = canBlock(ctx);
    call.db = api.GetSelectedDb(ctx);
  }
  throttleGatherArgs(&call, argv, argc);
  throttleGatherKey(&call, key);

  throttleDecide(&call);

  if (call.panicked) throttleLog(ctx, "warning", call.error);
  throttleApplyKey(&call, ctx, key, name);
  if (kind == KIND_BLOCKING && call.reply == REPLY_LATER) {
    throttleWait(&call, ctx, name);
  } else {
    throttleReply(&call, ctx);
  }
  return API_OK;
}

// The server calls a command by a function of its own and tells nothing else apart
// (a name may have been changed by rename-command), so each row of Go's table has a
// function here.
#define COMMAND(index, kind)                                                           \
  static int command##index(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) { \
    return runCommand(index, kind, ctx, argv, argc);                                   \
  }
COMMAND(0, KIND_WRITE)
COMMAND(1, KIND_WRITE)
COMMAND(2, KIND_READ)
COMMAND(3, KIND_WRITE)
COMMAND(4, KIND_BLOCKING)

static const struct {
  RedisModuleCmdFunc function;
  int kind;
} commands[] = {
    {command0, KIND_WRITE}, {command1, KIND_WRITE},    {command2, KIND_READ},
    {command3, KIND_WRITE}, {command4, KIND_BLOCKING},
};

int throttleRegister(RedisModuleCtx *ctx, int index, const char *name, const char *flags, int kind) {
  if (index < 0 || (size_t)index >= sizeof commands / sizeof *commands || commands[index].kind != kind) return API_ERR;
  return api.CreateCommand(ctx, name, commands[index].function, flags, 1, 1, 1);
}
