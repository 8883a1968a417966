// Looks up the server's module API.
#include "api.h"

throttleApi api;

// The server publishes its lookup function as the first word of every context.
typedef int (*getApiFunc)(const char *name, void *function);

const char *throttleLoadApi(RedisModuleCtx *ctx) {
  getApiFunc getApi = *(getApiFunc *)ctx;
#define THROTTLE_REQUIRED(name, result, parameters)      \
  if (getApi("RedisModule_" #name, &api.name) != API_OK) \
    return "this server has no RedisModule_" #name ". Use Redis 6.2.2 or later, or Valkey";
#define THROTTLE_OPTIONAL(name, result, parameters) \
  if (getApi("RedisModule_" #name, &api.name) != API_OK) api.name = NULL;
  THROTTLE_API(THROTTLE_REQUIRED, THROTTLE_OPTIONAL)
#undef THROTTLE_REQUIRED
#undef THROTTLE_OPTIONAL
  return NULL;
}
