// The reply to a call.
#include "bridge.h"

#include "_cgo_export.h"

// A map in RESP3, its pairs one after the other in RESP2.
void throttleReplyMap(RedisModuleCtx *ctx, int pairs) {
  if (api.ReplyWithMap) {
    api.ReplyWithMap(ctx, pairs);
  } else {
    api.ReplyWithArray(ctx, 2 * pairs);
  }
}

void throttleReplyName(RedisModuleCtx *ctx, const throttleView *name) { api.ReplyWithStringBuffer(ctx, name->bytes, name->length); }

static void replyFields(throttleCall *call, RedisModuleCtx *ctx) {
  const throttleView *names = throttleCommands[call->command].fields;
  throttleReplyMap(ctx, call->count);
  for (int i = 0; i < call->count; i++) {
    throttleReplyName(ctx, &names[i]);
    api.ReplyWithLongLong(ctx, call->integers[i]);
  }
}

static void replyRows(throttleCall *call, RedisModuleCtx *ctx) {
  const throttleTraits *traits = &throttleCommands[call->command];
  throttleRow row;
  throttleBlank(&row, sizeof row);
  api.ReplyWithArray(ctx, call->count);
  for (int i = 0; i < call->count; i++) {
    throttleRowAt(i, &row);
    throttleReplyMap(ctx, traits->fieldCount);
    throttleReplyName(ctx, &traits->fields[0]);
    api.ReplyWithStringBuffer(ctx, row.text, (size_t)row.length);
    for (int j = 1; j < traits->fieldCount; j++) {
      throttleReplyName(ctx, &traits->fields[j]);
      api.ReplyWithLongLong(ctx, row.integers[j - 1]);
    }
  }
}

void throttleReply(throttleCall *call, RedisModuleCtx *ctx) {
  switch (call->reply) {
  case REPLY_INTEGER:
    api.ReplyWithLongLong(ctx, call->integers[0]);
    break;
  case REPLY_INTEGERS:
    api.ReplyWithArray(ctx, call->count);
    for (int i = 0; i < call->count; i++) api.ReplyWithLongLong(ctx, call->integers[i]);
    break;
  case REPLY_FIELDS:
    replyFields(call, ctx);
    break;
  case REPLY_ROWS:
    replyRows(call, ctx);
    break;
  case REPLY_LEASES:
    throttleReplyLeases(call, ctx);
    break;
  case REPLY_WRONG_ARITY:
    api.WrongArity(ctx);
    break;
  default:
    api.ReplyWithError(ctx, call->error);
  }
}
