// The reply to a call.
#include <math.h>

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

// How many leases are held, how many callers wait, and the leases that lapse next. Nothing has run since the
// decision, so the set is what it was.
static void replyLeases(throttleCall *call, RedisModuleCtx *ctx) {
  const throttleView *names = throttleCommands[call->command].fields;
  double nowMs = (double)(call->nowNs / 1000000);
  throttleReplyMap(ctx, 3);
  for (int i = 0; i < 2; i++) {
    throttleReplyName(ctx, &names[i]);
    api.ReplyWithLongLong(ctx, call->integers[i]);
  }
  throttleReplyName(ctx, &names[2]);
  api.ReplyWithArray(ctx, POSTPONED_LENGTH);
  long count = 0;
  RedisModuleKey *handle = api.OpenKey(ctx, call->keys->name, OPEN_READ);
  if (handle) {
    api.ZsetFirstInScoreRange(handle, nowMs, INFINITY, 1, 0);
    for (; count < call->integers[2] && !api.ZsetRangeEndReached(handle); count++, api.ZsetRangeNext(handle)) {
      double score;
      RedisModuleString *id = api.ZsetRangeCurrentElement(handle, &score);
      throttleReplyMap(ctx, 2);
      throttleReplyName(ctx, &names[3]);
      api.ReplyWithString(ctx, id);
      throttleReplyName(ctx, &names[4]);
      api.ReplyWithLongLong(ctx, ((int64_t)score * 1000000 - call->nowNs) / 1000000);
      api.FreeString(NULL, id);
    }
    api.ZsetRangeStop(handle);
  }
  api.ReplySetArrayLength(ctx, count);
  if (handle) api.CloseKey(handle);
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
    replyLeases(call, ctx);
    break;
  case REPLY_WRONG_ARITY:
    api.WrongArity(ctx);
    break;
  default:
    api.ReplyWithError(ctx, call->error);
  }
}
