// Unloading, after which the server frees what it keeps of the module's commands.
//
// Servers remember the last command of each connection, and those that are queued in a transaction, and do not forget one that goes with
// its module. CLIENT LIST and EXEC then read freed memory, and Redis 8.0 runs a command from there that a connection repeats. So those
// connections are closed first.
#define _GNU_SOURCE // memmem
#include <stdlib.h>
#include <strings.h>

#include "bridge.h"

// Returns the value behind name, such as " cmd=", in a line of CLIENT LIST, or NULL. No value has a space in it.
static const char *clientField(const char *line, const char *end, const char *name) {
  const char *at = memmem(line, end - line, name, strlen(name));
  return at ? at + strlen(name) : NULL;
}

// Whether the server would use a command of this module again for the connection, or may: which ones are queued is not told.
static int mayUseACommand(const char *line, const char *end) {
  static const char prefix[] = "cl."; // of the names of all commands
  const char *command = clientField(line, end, " cmd="), *queued = clientField(line, end, " multi=");
  return (command && !strncasecmp(command, prefix, sizeof prefix - 1)) || (queued && atoi(queued) > 0);
}

static void disconnect(RedisModuleCtx *ctx, const char *line, const char *end) {
  const char *id = clientField(line, end, "id=");
  if (!id) return;
  RedisModuleCallReply *reply = api.Call(ctx, "CLIENT", THROTTLE_FORMAT("ccb"), "KILL", "ID", id, strcspn(id, " "));
  if (reply) api.FreeCallReply(reply);
}

// The server calls this on MODULE UNLOAD. The Go runtime stays mapped and serves a later MODULE LOAD.
int RedisModule_OnUnload(RedisModuleCtx *ctx) {
  if (api.GetContextFlags(ctx) & CONTEXT_MULTI) {
    throttleLog(ctx, "warning", "MODULE UNLOAD is refused in a transaction: commands of the module that are queued behind it would crash the server");
    return API_ERR;
  }
  RedisModuleCallReply *clients = api.Call(ctx, "CLIENT", "c", "LIST");
  size_t length = 0;
  const char *line = clients ? api.CallReplyStringPtr(clients, &length) : NULL;
  if (!line) {
    throttleLog(ctx, "warning", "CLIENT LIST is refused or renamed: disconnect all clients that have sent a command of the module");
  }
  for (const char *all = line, *end; line && (end = memchr(line, '\n', all + length - line)); line = end + 1) {
    if (mayUseACommand(line, end)) disconnect(ctx, line, end);
  }
  if (clients) api.FreeCallReply(clients);
  return API_OK;
}
