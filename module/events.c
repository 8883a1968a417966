// The server's events, and which part of the module each is passed on to. A module has one callback for each event.
#include "line.h"
#include "server.h"

static void onCron(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)event, (void)subevent, (void)data;
  throttleLookForListeners(ctx);
  throttleWatchClocks(ctx);
}

static void onPossibleListener(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)ctx, (void)event, (void)subevent, (void)data;
  throttleNotePossibleListener();
}

static void onRoleChange(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)event, (void)data;
  throttleNotePossibleListener();
  if (subevent == NOW_REPLICA) throttleLeaveToMaster(ctx);
}

static void onConfig(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)ctx, (void)event, (void)subevent, (void)data;
  throttleLookAtMaxmemory();
}

void throttleHearEvents(RedisModuleCtx *ctx) {
  static const struct {
    uint64_t id;
    RedisModuleEventCallback callback;
  } events[] = {
      {EVENT_CRON_LOOP, onCron},
      {EVENT_ROLE_CHANGED, onRoleChange},
      {EVENT_PERSISTENCE, onPossibleListener},
      {EVENT_REPLICA_CHANGE, onPossibleListener},
      {EVENT_FORK_CHILD, onPossibleListener},
      {EVENT_CONFIG, onConfig}, // Redis 7, Valkey
  };
  for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
    api.SubscribeToServerEvent(ctx, (RedisModuleEvent){events[i].id, 1}, events[i].callback);
  }
  throttleWatchListeners(ctx);
}
