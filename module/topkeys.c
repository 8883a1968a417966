// CL.TOP [count]
//
// Replies with the keys that were limited most often lately, the most often first: of
// each its name, database, number of times, and by how much that may be too high. The
// only command without a key, it does not take the common path.
#include "bridge.h"

#include "_cgo_export.h"

int throttleTop(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  if (argc > 2) return api.WrongArity(ctx);
  throttleView word = {NULL, 0};
  if (argc == 2) word.bytes = api.StringPtrLen(argv[1], &word.length);
  const char *error = NULL;
  int count = throttleTopList(word, throttleClockNs(), (char **)&error);
  if (error) return api.ReplyWithError(ctx, error);
  api.ReplyWithArray(ctx, count);
  for (int i = 0; i < count; i++) {
    throttleTopKey key;
    throttleTopAt(i, &key);
    throttleReplyMap(ctx, 4);
    throttleReplyName(ctx, "key");
    api.ReplyWithStringBuffer(ctx, key.name, key.nameLength);
    throttleReplyName(ctx, "db");
    api.ReplyWithLongLong(ctx, key.db);
    throttleReplyName(ctx, "limited");
    api.ReplyWithLongLong(ctx, key.count);
    throttleReplyName(ctx, "error");
    api.ReplyWithLongLong(ctx, key.error);
  }
  return API_OK;
}
