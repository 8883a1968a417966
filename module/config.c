// Configuration: throttle.top, throttle.max-waiting, throttle.zones and throttle.aliases, through CONFIG where the
// server offers that to modules (Redis 7, Valkey), and as load arguments everywhere.
#include <stdio.h>
#include <stdlib.h>

#include "load.h"
#include "line.h"

#include "_cgo_export.h"

char throttleAliasesProblem[MAX_ALIASES_PROBLEM];

static long long top, maxWaiting;
static RedisModuleString *aliases; // kept over MODULE UNLOAD

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

static long long getMaxWaiting(const char *name, void *data) {
  (void)name, (void)data;
  return maxWaiting;
}

static int setMaxWaiting(const char *name, long long value, void *data, RedisModuleString **error) {
  (void)name, (void)data, (void)error;
  maxWaiting = value;
  throttleSetMaxWaiting(value);
  return API_OK;
}

static RedisModuleString *getAliases(const char *name, void *data) {
  (void)name, (void)data;
  return aliases;
}

static int setAliases(const char *name, RedisModuleString *value, void *data, RedisModuleString **error) {
  (void)name, (void)data;
  size_t length;
  const char *text = api.StringPtrLen(value, &length);
  char *problem = throttleUseAliases((char *)text, length);
  if (problem) {
    snprintf(throttleAliasesProblem, sizeof throttleAliasesProblem, "%s", problem);
    if (error) *error = api.CreateString(NULL, throttleAliasesProblem, strlen(throttleAliasesProblem));
    free(problem);
    return API_ERR;
  }
  if (aliases) api.FreeString(NULL, aliases);
  aliases = api.CreateString(NULL, text, length);
  return API_OK;
}

static int setAtLoad(RedisModuleCtx *ctx, int (*set)(const char *, RedisModuleString *, void *, RedisModuleString **), const char *text) {
  RedisModuleString *value = api.CreateString(ctx, text, strlen(text));
  int result = set(NULL, value, NULL, NULL);
  api.FreeString(ctx, value);
  return result;
}

static int configureWithoutServer(RedisModuleCtx *ctx, const throttleOptions *atLoad) {
  if (setAtLoad(ctx, setAliases, atLoad->aliases) != API_OK) return API_ERR;
  return setAtLoad(ctx, throttleSetZones, atLoad->zones);
}

// The load arguments are the defaults, so that CONFIG SET and CONFIG REWRITE outlast them.
int throttleConfigure(RedisModuleCtx *ctx, const throttleOptions *atLoad) {
  throttleZonesProblem[0] = throttleAliasesProblem[0] = 0;
  // The server sets no value that it has been told: from the start, what is told is in force.
  setTop(NULL, atLoad->top, NULL, NULL);
  setMaxWaiting(NULL, atLoad->maxWaiting, NULL, NULL);
  if (!api.RegisterNumericConfig || !api.RegisterStringConfig || !api.LoadConfigs) return configureWithoutServer(ctx, atLoad);
  const throttleOptions *o = atLoad;
  if (api.RegisterNumericConfig(ctx, "top", o->top, 0, 0, o->topMax, getTop, setTop, NULL, NULL) != API_OK) return API_ERR;
  if (api.RegisterNumericConfig(ctx, "max-waiting", o->maxWaiting, 0, MAX_WAITING_BY_MEMORY, o->maxWaitingMax, getMaxWaiting, setMaxWaiting, NULL,
      NULL) != API_OK) return API_ERR;
  if (api.RegisterStringConfig(ctx, "zones", o->zones, CONFIG_IMMUTABLE, throttleGetZones, throttleSetZones, NULL, NULL) != API_OK) return API_ERR;
  if (api.RegisterStringConfig(ctx, "aliases", o->aliases, CONFIG_IMMUTABLE, getAliases, setAliases, NULL, NULL) != API_OK) return API_ERR;
  return api.LoadConfigs(ctx);
}
