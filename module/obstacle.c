// Whether the server would take a write to a key now. It refuses commands when it has too little memory, too few
// replicas or a disk that is full, and when the key's slot is another node's. The module API tells none of this, but
// the server looks at it for commands that modules call.
#include <errno.h>
#include <stdio.h>

#include "server.h"

// Whether the server can be asked without running a command. Redis 7.2 and later, and Valkey, offer that. Valkey 9.1
// crashes when a filter of another module leaves an errno behind meanwhile: it takes that for an error, of which it has
// no text.
static int offersDryRuns(void) { return !throttleHasNeighbours || throttleValkeyMajor < 9; }

// A command that was run may have failed at what the key holds, and does not say anything else that is wrong. The text
// of an error ends in a line break.
static int isRefusal(RedisModuleCallReply *reply) {
  static const char wrongType[] = "WRONGTYPE";
  return api.CallReplyType(reply) == CALL_REPLY_ERROR && strncmp(api.CallReplyStringPtr(reply, NULL), wrongType, strlen(wrongType)) != 0;
}

// Asks the server whether it would run a command that never changes anything, whatever the key holds. Returns 0, or an
// errno. Only a refusal sets errno: otherwise it is what a filter of another module, or the command, left behind. So a
// refusal has to be a reply (E, and D, which implies it). It is the same in every database.
int throttleAsk(RedisModuleCtx *ctx, RedisModuleString *name) {
  RedisModuleCallReply *reply = NULL;
  if (offersDryRuns()) {
    errno = 0;
    reply = api.Call(ctx, "ZADD", THROTTLE_FORMAT("SMDscccc"), name, "XX", "GT", "-inf", "id");
    if (!reply && errno != EBADF) return 0;
  }
  if (!reply) reply = api.Call(ctx, "ZADD", THROTTLE_FORMAT("SMEscccc"), name, "XX", "GT", "-inf", "id"); // an older server does not know D
  int problem = errno;
  if (reply && !isRefusal(reply)) problem = 0;
  if (reply) api.FreeCallReply(reply);
  return problem;
}

// The server looks at its memory when a client sends a command. Outside of that it goes by what it saw then, except for
// a thread's context.
static int askAboutMemory(RedisModuleCtx *ctx, RedisModuleString *name) {
  if (!api.GetDetachedThreadSafeContext) return ENOSPC;
  RedisModuleCtx *live = api.GetDetachedThreadSafeContext(ctx);
  int problem = throttleAsk(live, name);
  api.FreeThreadSafeContext(live);
  return problem;
}

// Whether the slot of a key comes to this node, so that it takes calls after ASKING: the line of CLUSTER NODES about
// this node then has "[slot-<-node]", and no other line has brackets.
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

int throttleObstacle(RedisModuleCtx *ctx, RedisModuleString *name) {
  if (throttleIsPaused()) return IS_PAUSED;
  int problem = throttleAsk(ctx, name);
  if (problem == ENOSPC) problem = askAboutMemory(ctx, name);
  if (problem == EBADF || problem == ENOENT) { // before Redis 7.0, which cannot be asked, or ZADD was renamed: only the slot
    RedisModuleCallReply *reply = api.Call(ctx, "EXISTS", THROTTLE_FORMAT("s"), name);
    problem = reply ? 0 : errno;
    if (reply) api.FreeCallReply(reply);
    if (problem != EPERM) return MAY_WRITE;
  }
  if (problem == EPERM) return isImporting(ctx, name) ? MAY_WRITE : HAS_MOVED;
  return problem ? IS_REFUSED : MAY_WRITE;
}
