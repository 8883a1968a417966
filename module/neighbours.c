// Other modules, whose code may run in the middle of ours: the server calls them when it notifies of an event.
//
// A server without other modules pays nothing for any of this.
#include <errno.h>
#include <stdio.h>

#include "server.h"

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

// Which calls are nested in nothing, as most are. The server runs command filters before each command of a client and
// before each call of a script or module, and then reads the clock, but only for a command that is nested in none. So a
// call that sees another reading than its filter did is nested in nothing. An equal reading says nothing: two commands
// may begin in one microsecond. Commands of a file run without a reading of their own, so calls that are nested in them
// get one: while a file is loaded, readings say nothing.
//
// From then on the stack tells, too. What is nested in a command runs deeper than the filter did for that command. So a
// filter that runs as deep as it did for a call that was nested in nothing, with none higher since, runs for a command
// that is nested in nothing.
int throttleIsOutermost;

static struct {
  uintptr_t depth; // an address, so less is deeper
  const RedisModuleString *word;
  uint64_t client;
  int64_t ns;
} latest; // filter run for a command that is not known to be outermost

static uintptr_t outermostDepth; // 0 when it is not known

static int isFiltering, isLoading, tellsOfLoading;

static void onCommand(void *filter) {
  uintptr_t depth = (uintptr_t)__builtin_frame_address(0);
  throttleIsOutermost = depth == outermostDepth;
  if (throttleIsOutermost) return;
  if (depth > outermostDepth) outermostDepth = 0;
  latest.depth = depth;
  latest.word = api.CommandFilterArgGet(filter, 1);
  latest.client = api.CommandFilterGetClientId(filter);
  latest.ns = api.CachedMicroseconds() * US_NS;
}

// A command that was queued or held back ran its filter some time ago, and others have run since. Another module may
// call with the same word, and under the id of the client, but hardly both.
static int isOwnRun(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  return argc > 1 && latest.word == argv[1] && latest.client == api.GetClientId(ctx);
}

void throttleLookIfOutermost(const throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  if (!isFiltering || isLoading || call->nowNs == latest.ns) return;
  throttleIsOutermost = 1;
  if (isOwnRun(ctx, argv, argc)) outermostDepth = latest.depth;
}

static void forgetOutermost(void) {
  throttleIsOutermost = 0;
  outermostDepth = 0;
}

static void onLoading(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)ctx, (void)event, (void)data;
  isLoading = subevent < LOADING_ENDED;
  forgetOutermost();
}

static int addFilter(RedisModuleCtx *ctx) {
  if (!tellsOfLoading || !api.CachedMicroseconds || !api.CommandFilterGetClientId) return 0;
  latest.ns = api.CachedMicroseconds() * US_NS;
  return api.RegisterCommandFilter(ctx, onCommand, 0) != NULL;
}

static void noteNeighbour(RedisModuleCtx *ctx) {
  if (throttleHasNeighbours) return;
  throttleHasNeighbours = 1;
  isFiltering = addFilter(ctx);
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

// Each module is a row of names and values, of which the first is its name. This module is not among them while it is
// being loaded.
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

// Whether GetCurrentUserName returns NULL where there is no user. Redis before 8.0 and Valkey before 8.1 crash. A
// server that was built from a branch says that it has version 255.255.255, and may be older than that.
static int checksForNobody;

enum { FROM_A_BRANCH = 255 };

static int isFrom(RedisModuleServerInfoData *info, const char *field, int major, int minor) {
  const char *version = api.ServerInfoGetFieldC(info, field);
  int is[2] = {0, 0};
  if (!version || sscanf(version, "%d.%d", &is[0], &is[1]) != 2 || is[0] == FROM_A_BRANCH) return 0;
  return is[0] > major || (is[0] == major && is[1] >= minor);
}

static void lookForChecks(RedisModuleCtx *ctx) {
  RedisModuleServerInfoData *info = api.GetServerInfo(ctx, "server");
  checksForNobody = api.GetCurrentUserName && (isFrom(info, "redis_version", 8, 0) || isFrom(info, "valkey_version", 8, 1));
  api.FreeServerInfo(ctx, info);
}

void throttleWatchNeighbours(RedisModuleCtx *ctx, const char *moduleName) {
  ownName = moduleName;
  throttleHasNeighbours = isFiltering = isLoading = 0;
  forgetOutermost();
  lookForChecks(ctx);
  tellsOfLoading = api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_LOADING, 1}, onLoading) == API_OK;
  int mayCome = api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_MODULE_CHANGE, 1}, onModuleChange) == API_OK;
  if (!mayCome || isAnyLoaded(ctx)) noteNeighbour(ctx);
}

// Whether a user runs the command. This asks for a call as that user in a format that no server knows: it is refused
// for that, before anything runs, or first because there is no user.
static int mayCallAsUser(RedisModuleCtx *ctx) {
  int before = errno; // of whatever calls this one
  RedisModuleCallReply *reply = api.Call(ctx, "PING", "C?");
  int isRefusedForFormat = !reply && errno == EBADF;
  if (reply) api.FreeCallReply(reply);
  errno = before;
  return isRefusedForFormat;
}

RedisModuleString *throttleUserOf(RedisModuleCtx *ctx) {
  return checksForNobody || mayCallAsUser(ctx) ? api.GetCurrentUserName(ctx) : NULL;
}

static int hasUser(RedisModuleCtx *ctx) {
  if (!checksForNobody) return mayCallAsUser(ctx);
  RedisModuleString *user = api.GetCurrentUserName(ctx);
  if (user) api.FreeString(NULL, user);
  return user != NULL;
}

// Whether a connection has the id of this client. That of another module may have it, too, since the server lends the
// id of a client that was blocked to one of its own, and keeps it there. So a call without such an id comes from no
// client, and that is all it shows. Before Redis 7.0 it is not kept. By GetClientInfoById, Valkey 9.1 also finds the
// client that runs the command, of whatever kind.
static int isIdOfAConnection(RedisModuleCtx *ctx) {
  uint64_t id = api.GetClientId(ctx);
  if (throttleValkeyMajor < 9 || !api.GetClientUserNameById) return api.GetClientInfoById(NULL, id) == API_OK;
  RedisModuleString *user = api.GetClientUserNameById(ctx, id);
  if (user) api.FreeString(ctx, user);
  return user != NULL;
}

static int isInDb(uint64_t id, int db) {
  clientInfo info = {.version = 1};
  return api.GetClientInfoById(&info, id) == API_OK && info.db == db;
}

// Whether the call is that of the connection with its id, which follows it into another database then. Nothing shows it
// where there is only one, nor on Valkey 9.1, which crashes when it is asked about a client of a module.
static int isByItsConnection(RedisModuleCtx *ctx) {
  uint64_t id = api.GetClientId(ctx);
  int db = api.GetSelectedDb(ctx), other = !db;
  if (throttleValkeyMajor >= 9 || api.SelectDb(ctx, other) != API_OK) return 1;
  int follows = isInDb(id, other);
  api.SelectDb(ctx, db);
  return follows && isInDb(id, db);
}

static const uint64_t idOfAppendOnlyFile = UINT64_MAX;

static int isOfAppendOnlyFile(RedisModuleCtx *ctx, int flags) { return flags & CONTEXT_LOADING && api.GetClientId(ctx) == idOfAppendOnlyFile; }

// Whether a call of another module may block, which it has to ask for (K).
static int mayModulesBlock(void) { return api.CallReplyPromiseSetUnblockHandler != NULL; }

// Whether the command is run by a client, a master or the file that is being loaded, rather than by a script or another
// module. The clients of those two may not block, unless a module asks for that, nor may a client in a transaction. A
// call that is nested in nothing counts as a client's. A module that then calls as a user, under an id that a
// connection has, is taken for a client where isByItsConnection does not show it. Nothing is remembered of ids, which
// say too little.
static int isOfAClient(RedisModuleCtx *ctx) {
  if (throttleIsOutermost) return 1;
  int flags = api.GetContextFlags(ctx);
  if (flags & CONTEXT_REPLICATED) return 1;
  if (!(flags & CONTEXT_DENY_BLOCKING) && !mayModulesBlock()) return 1;
  if (flags & CONTEXT_LUA) return 0;
  if (isOfAppendOnlyFile(ctx, flags)) return 1;
  if ((flags & (CONTEXT_DENY_BLOCKING | CONTEXT_MULTI)) == CONTEXT_DENY_BLOCKING) return 0;
  return (!api.GetCurrentUserName || hasUser(ctx)) && isIdOfAConnection(ctx) && isByItsConnection(ctx);
}

int throttleMayBeNested(const throttleCall *call, RedisModuleCtx *ctx) {
  return call->origin == BY_UNBLOCKING || (call->origin == BY_COMMAND && !isOfAClient(ctx));
}

// A key has no expiry yet when the server sends event "new".
int throttleMayBeUnfinished(RedisModuleKey *key) { return api.GetAbsExpire(key) < 0; }
