// The server's log.
#include "stats.h"

// go-rm's pointer to the server's log, fetched again at every load. Weak, since cgo links each
// package by itself before it links them all.
extern void (*RedisModule_Log)(RedisModuleCtx *ctx, const char *level, const char *format, ...) __attribute__((weak));

static void logNothing(RedisModuleCtx *ctx, const char *level, const char *format, ...) {
  (void)ctx, (void)level, (void)format;
}

void throttleSilenceGoRm(void) { RedisModule_Log = logNothing; }

void throttleLog(RedisModuleCtx *ctx, const char *level, const char *text) {
  if (api.Log) api.Log(ctx, level, "%s", text);
}
