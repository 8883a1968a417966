// Loads MODULE as a server does that lacks FUNCTIONS, names of the module API, each between spaces.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*Get)(const char *name, void *function);

static Get servers; // the context of a load begins with it

static int get(const char *name, void *function) {
  char word[128];
  snprintf(word, sizeof word, " %s ", name + strlen("RedisModule_"));
  return strstr(FUNCTIONS, word) ? 1 : servers(name, function);
}

int RedisModule_OnLoad(Get *ctx, void **argv, int argc) {
  void *module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
  int (*load)(Get *, void **, int) = module ? (int (*)(Get *, void **, int))dlsym(module, "RedisModule_OnLoad") : NULL;
  if (!load) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  servers = *ctx;
  *ctx = get;
  int result = load(ctx, argv, argc);
  *ctx = servers;
  return result;
}
