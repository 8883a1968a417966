// How the server is told of the commands. Which there are is package command's to say.
#include <errno.h>
#include <stdio.h>
#include <strings.h>

#include "load.h"
#include "run.h"

// The names that the server knows, aliases among them; empty for an index that was not registered.
static char registered[MAX_COMMANDS][32];

void throttleForgetCommands(void) { memset(registered, 0, sizeof registered); }

int throttleIsOwnCommand(const char *name, size_t length) {
  for (int i = 0; i < MAX_COMMANDS; i++) {
    if (registered[i][0] && strlen(registered[i]) == length && !strncasecmp(registered[i], name, length)) return 1;
  }
  return 0;
}

// The server calls a command by a function of its own and tells nothing else apart (a
// name may have been changed by rename-command), so there is one for each index.
#define EACH_INDEX(f)                                                                                             \
  f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) f(18) f(19)   \
  f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31)
#define DEFINE_RUN(index)                                                                \
  static int run##index(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {       \
    return throttleRun(index, ctx, argv, argc);                                          \
  }
#define NAME_RUN(index) run##index,
EACH_INDEX(DEFINE_RUN)
static const RedisModuleCmdFunc runs[MAX_COMMANDS] = {EACH_INDEX(NAME_RUN)};

// Makes category throttle and reports whether it is there: Redis 7.2 puts commands into the
// server's categories only. One from an earlier load of the module is as good.
int throttleMakeCategory(RedisModuleCtx *ctx) {
  if (!api.AddACLCategory) return 0;
  return api.AddACLCategory(ctx, "throttle") == API_OK || errno == EBUSY;
}

int throttleRegister(RedisModuleCtx *ctx, int index, const throttleCommand *command, int hasCategory) {
  int key = command->traits.keys == KEYS_ONE;
  if (api.CreateCommand(ctx, command->name, runs[index], command->flags, key, key, key) != API_OK) return API_ERR;
  snprintf(registered[index], sizeof *registered, "%s", command->name);
  throttleCommands[index] = command->traits;
  throttleCommandCount = index + 1;
  if (!api.GetCommand || !api.SetCommandInfo) return API_OK;
  RedisModuleCommand *created = api.GetCommand(ctx, command->name);
  api.SetCommandInfo(created, command->info);
  if (api.SetCommandACLCategories) {
    api.SetCommandACLCategories(created, hasCategory ? command->ownCategories : command->categories);
  }
  return API_OK;
}
