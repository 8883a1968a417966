// Configuration: throttle.top and throttle.zones, through CONFIG where the server offers that to modules
// (Redis 7, Valkey), and as load arguments everywhere.
#include "bridge.h"

#include "_cgo_export.h"

static long long top;

static long long getTop(const char *name, void *data) {
  (void)name, (void)data;
  return top;
}

// The server has checked the range.
static int setTop(const char *name, long long value, void *data, RedisModuleString **error) {
  (void)name, (void)data, (void)error;
  top = value;
  throttleTopResize(value);
  return API_OK;
}

static int setZonesAtLoad(RedisModuleCtx *ctx, const char *path) {
  RedisModuleString *value = api.CreateString(ctx, path, strlen(path));
  int result = throttleSetZones(NULL, value, NULL, NULL);
  api.FreeString(ctx, value);
  return result;
}

int throttleConfigure(RedisModuleCtx *ctx, long long topAtLoad, long long topMax, const char *zonesAtLoad) {
  throttleZonesProblem[0] = 0;
  if (!api.RegisterNumericConfig || !api.RegisterStringConfig || !api.LoadConfigs) {
    setTop(NULL, topAtLoad, NULL, NULL);
    return setZonesAtLoad(ctx, zonesAtLoad);
  }
  // The load arguments are the defaults, so that CONFIG SET and CONFIG REWRITE outlast them.
  if (api.RegisterNumericConfig(ctx, "top", topAtLoad, 0, 0, topMax, getTop, setTop, NULL, NULL) != API_OK) return API_ERR;
  if (api.RegisterStringConfig(ctx, "zones", zonesAtLoad, CONFIG_IMMUTABLE, throttleGetZones, throttleSetZones, NULL, NULL) != API_OK) return API_ERR;
  return api.LoadConfigs(ctx);
}
