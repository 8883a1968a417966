// The path of a command: gather what the call needs into one struct, cross into Go
// once, apply what Go decided. All commands that have a key share it.
#include "bridge.h"

#include "_cgo_export.h"

uint64_t throttleRuns;

static int canBlock(RedisModuleCtx *ctx) {
  return !(api.GetContextFlags(ctx) & (CONTEXT_MULTI | CONTEXT_LUA | CONTEXT_DENY_BLOCKING));
}

// Opening a key that has expired removes it, of which other modules are notified. The handle
// does not show what a command of ours wrote on their behalf.
static RedisModuleKey *openKey(RedisModuleCtx *ctx, RedisModuleString *name, int mode) {
  uint64_t runs = throttleRuns;
  RedisModuleKey *key = api.OpenKey(ctx, name, mode);
  if (throttleRuns == runs) return key;
  if (key) api.CloseKey(key);
  return api.OpenKey(ctx, name, mode);
}

int throttleRun(int index, int kind, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  if (argc < 2) {
    stats.errorsArity++;
    return api.WrongArity(ctx);
  }
  throttleRuns++;
  if (throttleIsBeingCreated(ctx, argv[1])) {
    stats.errorsArgument++;
    return api.ReplyWithError(ctx, "ERR key is being created by the command that this call is nested in");
  }
  throttleCall call;
  throttleBlank(&call);
  RedisModuleString *name = argv[1];
  RedisModuleKey *key = openKey(ctx, name, kind == KIND_READ ? OPEN_READ : OPEN_READ | OPEN_WRITE);
  call.command = index;
  call.nowNs = throttleCommandClockNs();
  call.mayBlock = kind == KIND_BLOCKING && canBlock(ctx);
  call.db = api.GetSelectedDb(ctx);
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
