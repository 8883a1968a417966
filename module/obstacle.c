// Whether the server would take a write to a key now. It refuses commands when it has too little memory, too few replicas or a disk that is
// full, and when the key's slot is another node's. The module API tells none of this, but the server looks at it for commands that
// modules call.
#include <errno.h>
#include <stdio.h>

#include "bridge.h"

// Asks the server whether it would run a command, without running it where it offers that (Redis 7.2). Returns 0, or an errno. The
// command never changes anything, whatever the key holds.
int throttleAsk(RedisModuleCtx *ctx, RedisModuleString *name) {
  static int isOld; // no such offer: learnt from the first call
  errno = 0;
  RedisModuleCallReply *reply = api.Call(ctx, "ZADD", isOld ? "SMscccc" : "SMDscccc", name, "XX", "GT", "-inf", "id");
  int problem = errno, isRun = reply != NULL;
  if (reply) api.FreeCallReply(reply);
  if (isOld) return isRun ? 0 : problem; // a command that was run may leave any errno
  if (problem != EBADF) return problem;
  isOld = 1;
  return throttleAsk(ctx, name);
}

// The server looks at its memory when a client sends a command. Outside of that it goes by what it saw then, except for a
// thread's context.
static int askAboutMemory(RedisModuleCtx *ctx, int db, RedisModuleString *name) {
  if (!api.GetDetachedThreadSafeContext) return ENOSPC;
  RedisModuleCtx *live = api.GetDetachedThreadSafeContext(ctx);
  api.SelectDb(live, db);
  int problem = throttleAsk(live, name);
  api.FreeThreadSafeContext(live);
  return problem;
}

// Whether the slot of a key comes to this node, so that it takes calls after ASKING: the line of CLUSTER NODES about this node then
// has "[slot-<-node]", and no other line has brackets.
static int isImporting(RedisModuleCtx *ctx, RedisModuleString *name) {
  char mark[32];
  RedisModuleCallReply *slot = api.Call(ctx, "CLUSTER", "cs", "KEYSLOT", name);
  RedisModuleCallReply *nodes = api.Call(ctx, "CLUSTER", "c", "NODES");
  size_t length = 0, marked = 0;
  const char *text = nodes ? api.CallReplyStringPtr(nodes, &length) : NULL;
  if (slot && text) marked = (size_t)snprintf(mark, sizeof mark, "[%lld-<-", api.CallReplyInteger(slot));
  int isMarked = 0;
  for (size_t i = 0; marked && i + marked <= length && !isMarked; i++) isMarked = !memcmp(text + i, mark, marked);
  if (slot) api.FreeCallReply(slot);
  if (nodes) api.FreeCallReply(nodes);
  return isMarked;
}

int throttleIsPaused(void) { return api.AvoidReplicaTraffic && api.AvoidReplicaTraffic(); }

int throttleObstacle(RedisModuleCtx *ctx, int db, RedisModuleString *name) {
  if (throttleIsPaused()) return IS_PAUSED;
  int problem = throttleAsk(ctx, name);
  if (problem == ENOSPC) problem = askAboutMemory(ctx, db, name);
  if (problem == EBADF || problem == ENOENT) { // before Redis 7.0, which cannot be asked, or ZADD was renamed: only the slot
    errno = 0;
    RedisModuleCallReply *reply = api.Call(ctx, "EXISTS", "s", name);
    problem = reply ? 0 : errno;
    if (reply) api.FreeCallReply(reply);
    if (problem != EPERM) return MAY_WRITE;
  }
  if (problem == EPERM) return isImporting(ctx, name) ? MAY_WRITE : HAS_MOVED;
  return problem ? IS_REFUSED : MAY_WRITE;
}
