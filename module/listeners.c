// Whether anybody listens to what the module replicates.
//
// RedisModule_Replicate takes a quarter of an allowed call, most of it for looking SET
// up, and the server throws the result away when it has no AOF, no replica and no
// backlog. RedisModule_ReplicateVerbatim counts the change for the save points just as
// well and costs nothing then, so a write of which nobody hears takes that way.
//
// Why nobody is missed: whoever begins to listen begins from a snapshot (a replica's
// full sync, an AOF that is switched on, a slot that moves to another node) or goes on from the
// backlog. A snapshot is a fork, which the server tells of before it runs another
// command; what was written before is in it. A backlog is a listener itself. So it is
// enough to believe in listeners from a fork, a change of role or a replica's arrival on,
// until the server's own INFO says that there are none; it is asked once a second.
//
// Tests hold it on Redis 7.0 and 8.0 and on Valkey 8.0, 8.1 and 9.1; for other versions
// up to the major ones below it is taken to hold. On any later one everybody is always
// taken to be listening, as in a cluster, where slots move.
#include <stdlib.h>

#include "bridge.h"

enum { NEWEST_REDIS = 8, NEWEST_VALKEY = 9 };
enum { CRONS_PER_LOOK = 10 }; // a second, at the server's usual hz

int throttleListened = 1;

static int mayBeUnheard; // this server is none of the later ones

static unsigned long long field(RedisModuleServerInfoData *info, const char *name, unsigned long long otherwise) {
  int failed = 0;
  unsigned long long value = api.ServerInfoGetFieldUnsigned(info, name, &failed);
  return failed ? otherwise : value;
}

static int anybodyListens(RedisModuleCtx *ctx) {
  int flags = api.GetContextFlags(ctx);
  if (!(flags & CONTEXT_MASTER) || flags & (CONTEXT_AOF | CONTEXT_CLUSTER)) return 1;
  RedisModuleServerInfoData *info = api.GetServerInfo(ctx, "replication");
  int listens = field(info, "connected_slaves", 1) || field(info, "repl_backlog_active", 1);
  api.FreeServerInfo(ctx, info);
  return listens;
}

static void onCron(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)event, (void)subevent, (void)data;
  static int crons;
  if (!mayBeUnheard || ++crons % CRONS_PER_LOOK) return;
  int listens = anybodyListens(ctx);
  if (listens && !throttleListened) {
    mayBeUnheard = 0;
    throttleLog(ctx, "warning", "somebody listens who did not begin with a fork; replicating every write from here on");
  }
  throttleListened = listens;
}

static void onPossibleListener(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)ctx, (void)event, (void)subevent, (void)data;
  throttleListened = 1;
}

static int majorVersion(RedisModuleServerInfoData *info, const char *name) {
  const char *version = api.ServerInfoGetFieldC(info, name);
  return version ? atoi(version) : 0;
}

void throttleWatchListeners(RedisModuleCtx *ctx) {
  RedisModuleServerInfoData *info = api.GetServerInfo(ctx, "server");
  int redis = majorVersion(info, "redis_version"), valkey = majorVersion(info, "valkey_version");
  api.FreeServerInfo(ctx, info);
  mayBeUnheard = redis > 0 && redis <= NEWEST_REDIS && valkey <= NEWEST_VALKEY;

  static const uint64_t possible[] = {EVENT_ROLE_CHANGED, EVENT_REPLICA_CHANGE, EVENT_FORK_CHILD};
  for (size_t i = 0; i < sizeof possible / sizeof *possible; i++) {
    if (api.SubscribeToServerEvent(ctx, (RedisModuleEvent){possible[i], 1}, onPossibleListener) != API_OK) mayBeUnheard = 0;
  }
  if (api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_CRON_LOOP, 1}, onCron) != API_OK) mayBeUnheard = 0;
  throttleListened = 1;
}
