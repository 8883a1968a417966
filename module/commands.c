// The module's commands, and how the server is told of them.
#include <errno.h>

#include "bridge.h"
#include "info.h"

// The server calls a command by a function of its own and tells nothing else apart (a
// name may have been changed by rename-command). The key comes first in all of them.
#define DECISION(function, index, kind)                                              \
  static int function(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {     \
    return throttleRun(index, kind, ctx, argv, argc);                                \
  }
DECISION(runThrottle, COMMAND_THROTTLE, KIND_WRITE)
DECISION(runLimit, COMMAND_LIMIT, KIND_WRITE)
DECISION(runPeek, COMMAND_PEEK, KIND_READ)
DECISION(runRefund, COMMAND_REFUND, KIND_WRITE)
DECISION(runWait, COMMAND_WAIT, KIND_BLOCKING)

static const struct {
  const char *name;
  RedisModuleCmdFunc function;
  const char *flags;
  int firstKey;
  const char *categories; // of ACL: a server derives none from the flags of a module's command
  const commandInfo *info;
} commands[] = {
    {"cl.throttle", runThrottle, "write fast deny-oom", 1, "write fast throttle", &infoThrottle},
    {"cl.limit", runLimit, "write fast deny-oom", 1, "write fast throttle", &infoLimit},
    {"cl.peek", runPeek, "readonly fast", 1, "read fast throttle", &infoPeek},
    {"cl.refund", runRefund, "write fast", 1, "write fast throttle", &infoRefund},
    {"cl.wait", runWait, "write deny-oom", 1, "write slow blocking throttle", &infoWait},
    // Not in category throttle: it tells names of keys that a user may have no access to.
    {"cl.top", throttleTop, "readonly admin", 0, "read slow admin dangerous", &infoTop},
};

// Makes category throttle and reports whether commands can be put into categories. One that
// is there from an earlier load of the module is as good.
static int makeCategory(RedisModuleCtx *ctx) {
  if (!api.AddACLCategory || !api.SetCommandACLCategories) return 0;
  errno = 0;
  return api.AddACLCategory(ctx, "throttle") == API_OK || errno == EBUSY;
}

const char *throttleRegisterCommands(RedisModuleCtx *ctx) {
  int hasCategory = makeCategory(ctx);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    int key = commands[i].firstKey;
    if (api.CreateCommand(ctx, commands[i].name, commands[i].function, commands[i].flags, key, key, key) != API_OK) {
      return commands[i].name;
    }
    if (!api.GetCommand || !api.SetCommandInfo) continue;
    RedisModuleCommand *command = api.GetCommand(ctx, commands[i].name);
    api.SetCommandInfo(command, commands[i].info);
    if (hasCategory) api.SetCommandACLCategories(command, commands[i].categories);
  }
  return NULL;
}
