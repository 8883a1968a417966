// Loading the module: commands and configuration.
#ifndef THROTTLE_LOAD_H
#define THROTTLE_LOAD_H

#include "call.h"
#include "info.h"
#include "stats.h"

// load.c. throttlePrepare gets what every call needs: the API and the constant
// strings. It returns NULL, or what keeps the module from running here.
const char *throttlePrepare(RedisModuleCtx *ctx, const char *moduleName);
// throttleSubscribe tells the server which events the module needs. Nothing after it may fail.
void throttleSubscribe(RedisModuleCtx *ctx, const char *moduleName);
// throttleUnknownEffect returns a command that the module replicates its changes as and that the server has renamed, or
// NULL.
const char *throttleUnknownEffect(RedisModuleCtx *ctx);
const char *throttleText(const RedisModuleString *string, size_t *length);

// A command as the server is told of it.
typedef struct {
  const char *name, *flags;
  const char *categories;    // of ACL: a server derives none from the flags of a module's command
  const char *ownCategories; // the same, and category throttle, where there is one
  const commandInfo *info;
  throttleTraits traits;
} throttleCommand;

// commands.c. throttleRegister returns API_ERR when the name is taken. throttleIsOwnCommand tells whether a name is one
// that was registered since throttleForgetCommands.
int throttleMakeCategory(RedisModuleCtx *ctx);
int throttleRegister(RedisModuleCtx *ctx, int index, const throttleCommand *command, int hasCategory);
void throttleForgetCommands(void);
int throttleIsOwnCommand(const char *name, size_t length);

// config.c
typedef struct {
  long long top, topMax;
  long long maxWaiting, maxWaitingMax;
  const char *zones, *aliases;
} throttleOptions; // the load arguments
int throttleConfigure(RedisModuleCtx *ctx, const throttleOptions *atLoad);
enum { MAX_ALIASES_PROBLEM = 512 };
extern char throttleAliasesProblem[MAX_ALIASES_PROBLEM]; // why throttle.aliases was refused

// zones.c
RedisModuleString *throttleGetZones(const char *name, void *data);
int throttleSetZones(const char *name, RedisModuleString *value, void *data, RedisModuleString **error);
extern char throttleZonesProblem[MAX_ZONES_PROBLEM]; // why the file of throttle.zones was refused

#endif
