// Loading and unloading.
#include "bridge.h"

const char *throttlePrepare(RedisModuleCtx *ctx, const char *moduleName) {
  const char *missing = throttleLoadApi(ctx);
  if (missing) return missing;
  if (api.IsModuleNameBusy(moduleName)) return "a module of this name is already loaded";
  // A denied call opens its key for writing and changes nothing, so WATCH and
  // client-side caches are told where a key is changed, not where it is opened.
  api.SetModuleOptions(ctx, OPTION_NO_IMPLICIT_SIGNAL_MODIFIED);
  throttleMakeStrings();
  throttleWatchListeners(ctx);
  return NULL;
}

// The server calls this on MODULE UNLOAD. The Go runtime stays mapped and serves a
// later MODULE LOAD.
int RedisModule_OnUnload(RedisModuleCtx *ctx) {
  (void)ctx;
  return API_OK;
}

void throttleLog(RedisModuleCtx *ctx, const char *level, const char *text) {
  if (api.Log) api.Log(ctx, level, "%s", text);
}

const char *throttleText(const RedisModuleString *string, size_t *length) { return api.StringPtrLen(string, length); }
