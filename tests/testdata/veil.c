// A module that loads another one in its own name and shows it an older or a newer module API:
//
//   loadmodule veil.so LIBRARY NAMES [argument ...]
//
// NAMES is a list of functions, separated by commas. Those that the server has are hidden. CachedMicroseconds, where the server has none, is added.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct String String;
typedef int (*lookUp)(const char *name, void *function);
// The server publishes its look-up function as the first word of every context.
typedef struct {
  lookUp find;
} Ctx;

static lookUp server;
static const char *names;

static long long cachedMicroseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static int isNamed(const char *name) {
  char all[1024], one[128];
  snprintf(all, sizeof all, ",%s,", names);
  snprintf(one, sizeof one, ",%s,", name);
  return strstr(all, one) != NULL;
}

static int find(const char *name, void *function) {
  const char prefix[] = "RedisModule_";
  if (strncmp(name, prefix, sizeof prefix - 1) || !isNamed(name + sizeof prefix - 1)) return server(name, function);
  if (server(name, function) == 0 || strcmp(name + sizeof prefix - 1, "CachedMicroseconds")) return 1;
  *(long long (**)(void))function = cachedMicroseconds;
  return 0;
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
  const char *(*text)(const String *, size_t *length);
  server = ctx->find;
  if (argc < 2 || server("RedisModule_StringPtrLen", &text)) return 1;
  names = text(argv[1], NULL);
  void *library = dlopen(text(argv[0], NULL), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*onLoad)(Ctx *, String **, int) = (int (*)(Ctx *, String **, int))dlsym(library, "RedisModule_OnLoad");
  ctx->find = find;
  int result = onLoad(ctx, argv + 2, argc - 2);
  ctx->find = server;
  return result;
}
