// The reply to a call.
#include <math.h>

#include "run.h"
#include "send.h"

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

// Integers of an array, which has length elements.
static void replyIntegers(RedisModuleCtx *ctx, int64_t length, const int64_t *integers, int64_t count) {
  throttleSentText text;
  if (throttleSend(ctx, &text, throttlePutIntegers(throttlePutArray(text.text, length), integers, count))) return;
  api.ReplyWithArray(ctx, (long)length);
  for (int64_t i = 0; i < count; i++) api.ReplyWithLongLong(ctx, integers[i]);
}

// The names of a call's integers, each in front of its own.
static void replyNamed(throttleCall *call, RedisModuleCtx *ctx) {
  const throttleTraits *traits = &throttleCommands[call->command];
  throttleSentText text;
  char *end = text.text;
  for (int i = 0; i < call->count; i++) {
    const throttleSentName *name = &traits->sentNames[i];
    memcpy(end, name->text, sizeof name->text);
    end = throttlePutInteger(end + name->length, call->integers[i]);
  }
  if (throttleSend(ctx, &text, end)) return;
  for (int i = 0; i < call->count; i++) {
    throttleReplyName(ctx, &traits->fields[i]);
    api.ReplyWithLongLong(ctx, call->integers[i]);
  }
}

static void replyPairs(RedisModuleCtx *ctx, const throttleView *names, int count, const throttleRow *row) {
  throttleReplyName(ctx, &names[0]);
  api.ReplyWithStringBuffer(ctx, row->text, (size_t)row->length);
  for (int i = 1; i < count; i++) {
    throttleReplyName(ctx, &names[i]);
    api.ReplyWithLongLong(ctx, row->integers[i - 1]);
  }
}

static void replyRow(RedisModuleCtx *ctx, const throttleView *names, int count, const throttleRow *row) {
  throttleReplyMap(ctx, count);
  replyPairs(ctx, names, count, row);
}

static void replyFields(throttleCall *call, RedisModuleCtx *ctx) {
  throttleReplyMap(ctx, call->count);
  replyNamed(call, ctx);
}

const int64_t (*throttleEachOf(const throttleCall *call))[EACH_FIELDS] {
  if (throttleCommands[call->command].keys == KEYS_COUNTED) return ((const throttleMany *)call)->each;
  return ((const throttleSingle *)call)->each;
}

static void replyEach(throttleCall *call, RedisModuleCtx *ctx) {
  const int64_t (*each)[EACH_FIELDS] = throttleEachOf(call);
  for (int i = 0; i < call->eachCount; i++) replyIntegers(ctx, EACH_FIELDS, each[i], EACH_FIELDS);
}

static void replyFieldsEach(throttleCall *call, RedisModuleCtx *ctx) {
  throttleReplyMap(ctx, call->count + 1);
  replyNamed(call, ctx);
  api.ReplyWithStringBuffer(ctx, "each", 4);
  api.ReplyWithArray(ctx, call->eachCount);
  replyEach(call, ctx);
}

static void replyRows(throttleCall *call, RedisModuleCtx *ctx) {
  const throttleTraits *traits = &throttleCommands[call->command];
  throttleRow row;
  throttleBlank(&row, sizeof row);
  api.ReplyWithArray(ctx, call->rowCount);
  for (int i = 0; i < call->rowCount; i++) {
    throttleRowAt(i, &row);
    replyRow(ctx, traits->fields, traits->fieldCount, &row);
  }
}

// A row with the names in front of nestedAt, then the others with those behind it, as an array.
static void replyNested(throttleCall *call, RedisModuleCtx *ctx) {
  const throttleTraits *traits = &throttleCommands[call->command];
  const throttleView *nested = &traits->fields[traits->nestedAt];
  throttleRow row;
  throttleBlank(&row, sizeof row);
  throttleRowAt(0, &row);
  throttleReplyMap(ctx, traits->nestedAt + 1);
  replyPairs(ctx, traits->fields, traits->nestedAt, &row);
  throttleReplyName(ctx, nested);
  api.ReplyWithArray(ctx, call->rowCount - 1);
  for (int i = 1; i < call->rowCount; i++) {
    throttleRowAt(i, &row);
    replyRow(ctx, nested + 1, traits->fieldCount - traits->nestedAt - 1, &row);
  }
}

// The groups of callers that wait, as many as are to be listed.
static void replyGroups(throttleCall *call, RedisModuleCtx *ctx, const throttleView *names) {
  throttleRow row;
  throttleReplyName(ctx, &names[0]);
  api.ReplyWithLongLong(ctx, call->integers[3]);
  throttleReplyName(ctx, &names[1]);
  long count = (long)(call->integers[2] < call->integers[3] ? call->integers[2] : call->integers[3]);
  api.ReplyWithArray(ctx, count);
  throttleBlank(&row, sizeof row);
  for (int i = 0; i < count; i++) {
    throttleRowAt(i, &row);
    replyRow(ctx, &names[2], 4, &row);
  }
}

// How many leases are held, how many callers wait, the leases that lapse next, and the first groups in line. The key
// has been open since before the decision: opening it now might expire it, and another module would call ours in the
// middle. So nothing has run since, and the set, the line and what Go remembers of the call are what they were.
static void replyLeases(throttleCall *call, RedisModuleCtx *ctx) {
  const throttleView *names = throttleCommands[call->command].fields;
  double nowMs = (double)(call->nowNs / 1000000);
  throttleReplyMap(ctx, 5);
  for (int i = 0; i < 2; i++) {
    throttleReplyName(ctx, &names[i]);
    api.ReplyWithLongLong(ctx, call->integers[i]);
  }
  throttleReplyName(ctx, &names[2]);
  api.ReplyWithArray(ctx, POSTPONED_LENGTH);
  long count = 0;
  RedisModuleKey *handle = call->keys->handle;
  if (call->keys->kind == KEY_SORTED_SET) {
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
  replyGroups(call, ctx, &names[5]);
}

void throttleReply(throttleCall *call, RedisModuleCtx *ctx) {
  switch (call->reply) {
  case REPLY_INTEGER:
    api.ReplyWithLongLong(ctx, call->integers[0]);
    break;
  case REPLY_INTEGERS:
    replyIntegers(ctx, call->count, call->integers, call->count);
    break;
  case REPLY_FIELDS:
    replyFields(call, ctx);
    break;
  case REPLY_INTEGERS_EACH:
    replyIntegers(ctx, call->count + call->eachCount, call->integers, call->count);
    replyEach(call, ctx);
    break;
  case REPLY_FIELDS_EACH:
    replyFieldsEach(call, ctx);
    break;
  case REPLY_ROWS:
    replyRows(call, ctx);
    break;
  case REPLY_LEASES:
    replyLeases(call, ctx);
    break;
  case REPLY_NESTED:
    replyNested(call, ctx);
    break;
  case REPLY_WRONG_ARITY:
    api.WrongArity(ctx);
    break;
  default:
    api.ReplyWithError(ctx, call->error);
  }
}
