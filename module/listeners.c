// Whether anybody may hear of what the module replicates.
//
// RedisModule_Replicate takes a quarter of an allowed call, most of it for looking SET
// up, and the server throws the result away when it has no AOF, no replica and no
// backlog. RedisModule_ReplicateVerbatim counts the change for the save points just as
// well and costs nothing then. So a write takes that way if nobody hears of it.
//
// A backlog is not noticed until the next cron, and may hold such writes as the commands
// they were. docs/internals/design.md ("Replication") says why nobody is ever sent them: only a
// snapshot lets a replica ask for what follows it, and the module hears of every
// snapshot before the next command runs. From then on it replicates effects, until
// the server's own INFO says that there is no listener.
//
// Tests show it on Redis 7.0, 7.2, 8.0 and 8.6 and on Valkey 8.0, 8.1 and 9.1; for other
// versions up to the major ones below it is taken to hold. On any later one everybody is
// always taken to be listening, as in a cluster, where slots move.
#include <stdlib.h>

#include "server.h"

enum { NEWEST_REDIS = 8, NEWEST_VALKEY = 9 };

int throttleValkeyMajor;
int throttleForgetsAnswers;

int throttleIsKnownServer;
static int listened = 1; // by the last look at INFO, or because of an event since

static unsigned long long infoField(RedisModuleServerInfoData *info, const char *name, unsigned long long otherwise) {
  int failed = 0;
  unsigned long long value = api.ServerInfoGetFieldUnsigned(info, name, &failed);
  return failed ? otherwise : value;
}

static int isReplicaOrHasAof(int contextFlags) { return !(contextFlags & CONTEXT_MASTER) || contextFlags & CONTEXT_AOF; }

// A transaction, a script and a command of another module are propagated as a whole when
// they end, and so after a snapshot that is taken within them (FLUSHALL saves one).
enum { PART_OF_A_UNIT = CONTEXT_MULTI | CONTEXT_LUA | CONTEXT_DENY_BLOCKING };

int throttleIsHeard(RedisModuleCtx *ctx) {
  if (listened) return 1;
  int flags = api.GetContextFlags(ctx);
  return isReplicaOrHasAof(flags) || flags & PART_OF_A_UNIT;
}

static int anybodyListens(RedisModuleCtx *ctx) {
  int flags = api.GetContextFlags(ctx);
  if (isReplicaOrHasAof(flags) || flags & CONTEXT_CLUSTER) return 1;
  RedisModuleServerInfoData *info = api.GetServerInfo(ctx, "replication");
  int listens = infoField(info, "connected_slaves", 1) || infoField(info, "repl_backlog_active", 1);
  api.FreeServerInfo(ctx, info);
  return listens;
}

void throttleLookForListeners(RedisModuleCtx *ctx) {
  if (throttleIsKnownServer) listened = anybodyListens(ctx);
}

void throttleNotePossibleListener(void) { listened = 1; }

static const char *version(RedisModuleServerInfoData *info, const char *name) {
  const char *version = api.ServerInfoGetFieldC(info, name);
  return version ? version : "0";
}

void throttleWatchListeners(RedisModuleCtx *ctx) {
  RedisModuleServerInfoData *info = api.GetServerInfo(ctx, "server");
  int redis = atoi(version(info, "redis_version"));
  throttleValkeyMajor = atoi(version(info, "valkey_version"));
  throttleForgetsAnswers = atof(version(info, "redis_version")) < 7.4 && throttleValkeyMajor < 8; // Valkey calls itself Redis 7.2
  api.FreeServerInfo(ctx, info);
  throttleIsKnownServer = redis > 0 && redis <= NEWEST_REDIS && throttleValkeyMajor <= NEWEST_VALKEY;
  listened = 1;
}
