// Configuration: throttle.top, through CONFIG where the server offers that to modules
// (Redis 7, Valkey), and as load argument everywhere.
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

int throttleConfigure(RedisModuleCtx *ctx, long long topAtLoad, long long topMax) {
  if (!api.RegisterNumericConfig || !api.LoadConfigs) return setTop(NULL, topAtLoad, NULL, NULL);
  // The load argument is the default, so that CONFIG SET and CONFIG REWRITE outlast it.
  if (api.RegisterNumericConfig(ctx, "top", topAtLoad, 0, 0, topMax, getTop, setTop, NULL, NULL) != API_OK) return API_ERR;
  return api.LoadConfigs(ctx);
}
