// Loads a module as a server would that lacks some functions of the module API:
//
//   loadmodule older.so MODULE NAME[,NAME ...] [argument ...]
//
// CachedMicroseconds is there instead, if the server has none.
//
// A server may free a module whose load failed and keep what it subscribed to (Redis 7.0 does). So what a load that
// fails has subscribed to and not given up again ends the server here.
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef int (*GetApi)(const char *name, void *function);

static GetApi get;
static const char *lacking;

static int lacks(const char *name) {
  const char *at = strstr(name, "_");
  size_t length = at ? strlen(++at) : 0;
  for (const char *word = lacking; at && word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
    if (strncmp(word, at, length) == 0 && (word[length] == 0 || word[length] == ',')) return 1;
  }
  return 0;
}

static long long cachedMicroseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

typedef struct {
  unsigned long long id, dataVersion;
} Event;
typedef void (*OnEvent)(Ctx *, Event, unsigned long long, void *);
typedef int (*OnNotification)(Ctx *, int, const char *, String *);

static int (*subscribeToEvent)(Ctx *, Event, OnEvent);
static int (*subscribeToNotifications)(Ctx *, int, OnNotification);
static int subscriptions;

static int countEvent(Ctx *ctx, Event event, OnEvent f) {
  int result = subscribeToEvent(ctx, event, f);
  if (result == 0) subscriptions += f ? 1 : -1;
  return result;
}

static int countNotifications(Ctx *ctx, int types, OnNotification f) {
  subscriptions++;
  return subscribeToNotifications(ctx, types, f);
}

static int getWhatIsThere(const char *name, void *function) {
  void *there;
  if (!lacks(name)) {
    if (strcmp(name, "RedisModule_SubscribeToServerEvent") == 0) {
      *(void **)function = (void *)countEvent;
      return get(name, &subscribeToEvent);
    }
    if (strcmp(name, "RedisModule_SubscribeToKeyspaceEvents") == 0) {
      *(void **)function = (void *)countNotifications;
      return get(name, &subscribeToNotifications);
    }
    return get(name, function);
  }
  if (get(name, &there) == 0 || strcmp(name, "RedisModule_CachedMicroseconds")) return 1;
  *(long long (**)(void))function = cachedMicroseconds;
  return 0;
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
  GetApi *api = (GetApi *)ctx;
  const char *(*text)(const String *, size_t *length) = NULL;
  get = *api;
  if (get("RedisModule_StringPtrLen", &text) != 0 || argc < 2) return 1;
  void *library = dlopen(text(argv[0], NULL), RTLD_NOW | RTLD_LOCAL);
  int (*load)(Ctx *, String **, int) = NULL;
  if (library) *(void **)&load = dlsym(library, "RedisModule_OnLoad");
  if (!load) {
    fprintf(stderr, "older: %s\n", dlerror());
    return 1;
  }
  lacking = text(argv[1], NULL);
  *api = getWhatIsThere;
  subscriptions = 0;
  int result = load(ctx, argv + 2, argc - 2);
  *api = get;
  if (result && subscriptions) {
    fprintf(stderr, "older: a load that failed leaves %d subscriptions behind\n", subscriptions);
    abort();
  }
  return result;
}
