// The path of a command: gather what the call needs into one struct, cross into Go
// once, apply what Go decided. All commands that have a key share it.
#include "bridge.h"

#include "_cgo_export.h"

static int canBlock(RedisModuleCtx *ctx) {
  return !(api.GetContextFlags(ctx) & (CONTEXT_MULTI | CONTEXT_LUA | CONTEXT_DENY_BLOCKING));
}

int throttleRun(int index, int kind, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  if (argc < 2) {
    stats.errorsArity++;
    return api.WrongArity(ctx);
  }
  throttleCall call; // not zeroed: every field is written before it is read
  RedisModuleString *name = argv[1];
  RedisModuleKey *key = api.OpenKey(ctx, name, kind == KIND_READ ? OPEN_READ : OPEN_READ | OPEN_WRITE);
  call.command = index;
  call.nowNs = throttleCommandClockNs();
  if (kind == KIND_BLOCKING) call.mayBlock = canBlock(ctx);
  if (kind == KIND_BLOCKING || stats.topEnabled) call.db = api.GetSelectedDb(ctx);
  throttleGatherArgs(&call, argv, argc);
  throttleGatherKey(&call, key);

  throttleDecide(&call);

  throttleCount(&call);
  if (call.panicked) throttleLog(ctx, "warning", call.error);
  throttleApplyKey(&call, ctx, key, name);
  if (call.reply == REPLY_LATER) {
    throttleWait(&call, ctx, name);
  } else {
    throttleReply(&call, ctx);
  }
  return API_OK;
}
