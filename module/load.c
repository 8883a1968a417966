// Loading.
#include <errno.h>

#include "line.h"
#include "load.h"
#include "run.h"
#include "server.h"

const char *throttlePrepare(RedisModuleCtx *ctx, const char *moduleName) {
  const char *missing = throttleLoadApi(ctx);
  if (missing) return missing;
  // Ends the server's start. A second load that did nothing and said OK would not help: the
  // server writes a line for it at the next CONFIG REWRITE, and one more each time.
  if (api.IsModuleNameBusy(moduleName)) {
    return "it is already loaded. If this keeps the server from starting: leave the loadmodule line in the main configuration "
           "file, where CONFIG REWRITE puts it, and remove the one from an included file or the command line";
  }
  // A denied call opens its key for writing and changes nothing, so WATCH and
  // client-side caches are told where a key is changed, not where it is opened. And the
  // module keeps nothing beside the keys that a slot that moves or a replica that loads
  // would have to take along.
  api.SetModuleOptions(ctx, OPTION_NO_IMPLICIT_SIGNAL_MODIFIED | OPTION_HANDLE_REPL_ASYNC_LOAD |
                                OPTION_HANDLE_ATOMIC_SLOT_MIGRATION);
  throttleMakeStrings();
  throttleForgetCommands();
  return NULL;
}

// When a load fails, Redis 7.0 frees the module and keeps what it subscribed to. So this comes after everything that
// can fail.
void throttleSubscribe(RedisModuleCtx *ctx, const char *moduleName) {
  throttleForgetLines();
  throttleSetTurn(throttleTurn);
  throttleHearEvents(ctx);
  throttleMakeCarriers(ctx);
  throttleWatchNeighbours(ctx, moduleName);
}

// What calls change reaches replicas and the append-only file as these commands, and RedisModule_Replicate fails where
// the server does not know one by its name. Called without arguments, they do nothing.
const char *throttleUnknownEffect(RedisModuleCtx *ctx) {
  static const char *const effects[] = {"SET", "DEL", "ZADD", "ZREM", "PEXPIREAT", NULL};
  for (const char *const *effect = effects; *effect; effect++) {
    RedisModuleCallReply *reply = api.Call(ctx, *effect, "");
    if (!reply && errno == ENOENT) return *effect; // beside a reply errno says nothing
    if (reply) api.FreeCallReply(reply);
  }
  return NULL;
}

const char *throttleText(const RedisModuleString *string, size_t *length) { return api.StringPtrLen(string, length); }
