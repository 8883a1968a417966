// The path of a command: gather what the call needs into one struct, cross into Go
// once, apply what Go decided. All commands share it.
#include "bridge.h"

#include "_cgo_export.h"

uint64_t throttleRuns;

static int canBlock(RedisModuleCtx *ctx) {
  return !(api.GetContextFlags(ctx) & (CONTEXT_MULTI | CONTEXT_LUA | CONTEXT_DENY_BLOCKING));
}

static int refuseKeysBeingCreated(throttleCall *call, RedisModuleCtx *ctx) {
  for (int i = 0; i < call->keyCount; i++) {
    if (!throttleIsBeingCreated(ctx, call->keys[i].name)) continue;
    stats.errorsArgument++;
    api.ReplyWithError(ctx, "ERR key is being created by the command that this call is nested in");
    return 1;
  }
  return 0;
}

int throttleRun(int index, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  const throttleTraits *traits = &throttleCommands[index];
  if (traits->keys == KEYS_ONE && argc < 2) {
    stats.errorsArity++;
    return api.WrongArity(ctx);
  }
  throttleRuns++;
  throttleSingle single;
  throttleCall *call = throttleBegin(&single, index, traits->keys == KEYS_ONE ? argv[1] : NULL);
  if (refuseKeysBeingCreated(call, ctx)) return API_OK;
  call->nowNs = throttleCommandClockNs();
  call->db = api.GetSelectedDb(ctx);
  if (traits->blocks) call->mayBlock = canBlock(ctx);
  throttleGatherArgs(call, argv, argc, MAX_ARGS);
  throttleOpenKeys(call, ctx, traits->readOnly ? OPEN_READ : OPEN_READ | OPEN_WRITE);

  throttleDecide(call);

  throttleCount(call);
  if (call->panicked) throttleLog(ctx, "warning", call->error);
  throttleApply(call, ctx);
  if (call->reply == REPLY_LATER) {
    throttleWait(call, ctx);
  } else {
    throttleReply(call, ctx);
  }
  return API_OK;
}
