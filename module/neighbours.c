// Other modules, whose code may run in the middle of ours: the server calls them when it notifies of an event.
//
// A server without other modules pays nothing for any of this.
#include "bridge.h"

int throttleHasNeighbours;
uint64_t throttleExpiries;

// What RedisModuleModuleChange shows.
typedef struct {
  uint64_t version;
  const char *name;
  int32_t moduleVersion;
} moduleChange;

enum { MODULE_LOADED = 0 };

static const char *ownName;

static int onExpired(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *name) {
  (void)ctx, (void)type, (void)event, (void)name;
  throttleExpiries++;
  return API_OK;
}

static void noteNeighbour(RedisModuleCtx *ctx) {
  if (throttleHasNeighbours) return;
  throttleHasNeighbours = 1;
  api.SubscribeToKeyspaceEvents(ctx, NOTIFY_EXPIRED, onExpired);
}

// Modules that are parts of the server and listen to no keys.
static int isBuiltIn(const char *name, size_t length) {
  static const char *const builtIn[] = {"lua", "vectorset", NULL};
  for (const char *const *one = builtIn; *one; one++) {
    if (strlen(*one) == length && memcmp(*one, name, length) == 0) return 1;
  }
  return 0;
}

// Valkey 9.1 loads its parts after those that its configuration names.
static void onModuleChange(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)event;
  const moduleChange *change = data;
  if (subevent != MODULE_LOADED || !strcmp(change->name, ownName) || isBuiltIn(change->name, strlen(change->name))) return;
  noteNeighbour(ctx);
}

// Each module is a row of names and values, of which the first is its name. This module is not among them while it is being loaded.
static int isAnyLoaded(RedisModuleCtx *ctx) {
  RedisModuleCallReply *modules = api.Call(ctx, "MODULE", "c", "LIST");
  if (!modules) return 1; // renamed
  size_t others = api.CallReplyLength(modules);
  for (size_t i = api.CallReplyLength(modules); i-- > 0;) {
    size_t length;
    const char *name = api.CallReplyStringPtr(api.CallReplyArrayElement(api.CallReplyArrayElement(modules, i), 1), &length);
    others -= name && isBuiltIn(name, length);
  }
  api.FreeCallReply(modules);
  return others > 0;
}

void throttleWatchNeighbours(RedisModuleCtx *ctx, const char *moduleName) {
  ownName = moduleName;
  throttleHasNeighbours = 0;
  int mayCome = api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_MODULE_CHANGE, 1}, onModuleChange) == API_OK;
  if (!mayCome || isAnyLoaded(ctx)) noteNeighbour(ctx);
}

// The server finds every client by its id that has a connection. It does not find the clients of other modules, except for Valkey 9.1, which
// finds one that runs a command.
static int isFound(uint64_t clientID) { return api.GetClientInfoById(NULL, clientID) == API_OK; }

// The user that runs a command, or NULL for another module that does not ask for one. A master has none either. Some servers crash when they are
// asked for the user of nobody: so nobody asks for that of a master, and those servers do not find other modules.
RedisModuleString *throttleUserOf(RedisModuleCtx *ctx) { return isFound(api.GetClientId(ctx)) ? api.GetCurrentUserName(ctx) : NULL; }

static int hasUser(RedisModuleCtx *ctx) {
  if (!api.GetCurrentUserName) return isFound(api.GetClientId(ctx));
  RedisModuleString *user = throttleUserOf(ctx);
  if (user) api.FreeString(NULL, user);
  return user != NULL;
}

static const uint64_t idOfAppendOnlyFile = UINT64_MAX;

// Whether the command is run by a client, a master or the file that is being loaded, rather than by a script or another module. The clients of
// those two may not block, unless a module asks for that. A client that begins with a transaction, in which it may not block either, is
// taken for one of theirs, and another module that may block and has a user for a client. No id is ever 0.
static int isOfAClient(RedisModuleCtx *ctx) {
  static uint64_t known[256];
  uint64_t id = api.GetClientId(ctx), *seen = &known[(uint8_t)id];
  if (*seen == id) return 1;
  int flags = api.GetContextFlags(ctx);
  if (id != idOfAppendOnlyFile && !(flags & CONTEXT_REPLICATED) && (flags & CONTEXT_DENY_BLOCKING || !hasUser(ctx))) return 0;
  *seen = id;
  return 1;
}

// A key has no expiry yet when the server sends event "new".
int throttleMayBeUnfinished(const throttleCall *call, RedisModuleCtx *ctx, RedisModuleKey *key) {
  if (call->origin == BY_EVENT_LOOP || (call->origin == BY_COMMAND && isOfAClient(ctx))) return 0;
  return api.GetAbsExpire(key) < 0;
}
