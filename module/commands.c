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

#define CATEGORIES(standard) standard, standard " throttle"

static const struct {
  const char *name;
  RedisModuleCmdFunc function;
  const char *flags;
  int firstKey;
  const char *categories;    // of ACL: a server derives none from the flags of a module's command
  const char *ownCategories; // the same, and category throttle, where there is one
  const commandInfo *info;
} commands[] = {
    {"cl.throttle", runThrottle, "write fast deny-oom", 1, CATEGORIES("write fast"), &infoThrottle},
    {"cl.limit", runLimit, "write fast deny-oom", 1, CATEGORIES("write fast"), &infoLimit},
    {"cl.peek", runPeek, "readonly fast", 1, CATEGORIES("read fast"), &infoPeek},
    {"cl.refund", runRefund, "write fast", 1, CATEGORIES("write fast"), &infoRefund},
    {"cl.wait", runWait, "write deny-oom", 1, CATEGORIES("write slow blocking"), &infoWait},
    // Not in category throttle: it tells names of keys that a user may have no access to.
    {"cl.top", throttleTop, "readonly admin", 0, "read slow admin dangerous", "read slow admin dangerous", &infoTop},
};

// Makes category throttle and reports whether it is there: Redis 7.2 puts commands into the
// server's categories only. One from an earlier load of the module is as good.
static int makeCategory(RedisModuleCtx *ctx) {
  if (!api.AddACLCategory) return 0;
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
    if (api.SetCommandACLCategories) {
      api.SetCommandACLCategories(command, hasCategory ? commands[i].ownCategories : commands[i].categories);
    }
  }
  return NULL;
}
