// Loading and unloading.
#include "bridge.h"

const char *throttlePrepare(RedisModuleCtx *ctx, const char *moduleName) {
  const char *missing = throttleLoadApi(ctx);
  if (missing) return missing;
  if (api.IsModuleNameBusy(moduleName)) return "a module of this name is already loaded";
  // A denied call opens its key for writing and changes nothing, so WATCH and
  // client-side caches are told where a key is changed, not where it is opened. And the
  // module keeps nothing beside the keys that a slot that moves or a replica that loads
  // would have to take along.
  api.SetModuleOptions(ctx, OPTION_NO_IMPLICIT_SIGNAL_MODIFIED | OPTION_HANDLE_REPL_ASYNC_LOAD |
                                OPTION_HANDLE_ATOMIC_SLOT_MIGRATION);
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
