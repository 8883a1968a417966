// Unloading, after which the server frees what it keeps of the module's commands.
//
// Servers remember the last command of each connection, and those that are queued in a transaction, and do not forget
// one that goes with its module. CLIENT LIST and EXEC then read freed memory, and Redis 8.0 runs a command from there
// that a connection repeats. So those connections are closed first.
//
// Servers also remember the rules of users. Redis 8.0, Valkey 8.0 and 8.1 apply all of them again when a module goes,
// and abort at one that names a command that is gone. So the module stays while there is such a rule.
#define _GNU_SOURCE // memmem
#include <stdio.h>
#include <stdlib.h>

#include "load.h"

// Returns the value behind name, such as " cmd=", in a line of CLIENT LIST, or NULL. No value has a space in it.
static const char *clientField(const char *line, const char *end, const char *name) {
  const char *at = memmem(line, end - line, name, strlen(name));
  return at ? at + strlen(name) : NULL;
}

// Whether the server would use a command of this module again for the connection, or may: which ones are queued is not
// told.
static int mayUseACommand(const char *line, const char *end) {
  const char *command = clientField(line, end, " cmd="), *queued = clientField(line, end, " multi=");
  return (command && throttleIsOwnCommand(command, strcspn(command, " \n"))) || (queued && atoi(queued) > 0);
}

static void disconnect(RedisModuleCtx *ctx, const char *line, const char *end) {
  const char *id = clientField(line, end, "id=");
  if (!id) return;
  RedisModuleCallReply *reply = api.Call(ctx, "CLIENT", THROTTLE_FORMAT("ccb"), "KILL", "ID", id, strcspn(id, " "));
  if (reply) api.FreeCallReply(reply);
}

static void disconnectCallers(RedisModuleCtx *ctx) {
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
}

// Finds a rule that allows or forbids a command of this module, such as "+cl.limit" or "-cl.limit|first", in a line of
// ACL LIST: "user NAME RULE RULE (RULE RULE)". It returns NULL if there is none.
static const char *ruleOfACommand(const char *line, const char *end, size_t *length) {
  for (const char *at = line, *next; at < end; at = next) {
    while (at < end && strchr(" ()", *at)) at++;
    for (next = at; next < end && !strchr(" ()", *next); next++) {}
    if (at == end || (*at != '+' && *at != '-')) continue;
    const char *bar = memchr(at, '|', next - at);
    *length = next - at;
    if (throttleIsOwnCommand(at + 1, (bar ? bar : next) - at - 1)) return at;
  }
  return NULL;
}

// Returns where the rules begin, behind "user NAME": the name of a user may look like a rule.
static const char *rulesOf(const char *line, const char *end) {
  const char *space = memchr(line, ' ', end - line);
  space = space ? memchr(space + 1, ' ', end - space - 1) : NULL;
  return space ? space : end;
}

static void logRule(RedisModuleCtx *ctx, const char *rule, size_t length, const char *line, const char *rules) {
  char text[512];
  int name = rules - line > 5 ? (int)(rules - line - 5) : 0;
  snprintf(text, sizeof text, "MODULE UNLOAD is refused: the rule %.*s of user %.*s names a command of the module, and the server may abort without it. "
           "Remove the rule first (ACL SETUSER, ACL LOAD)", (int)length, rule, name < 100 ? name : 100, line + 5);
  throttleLog(ctx, "warning", text);
}

static int isNamedByAUser(RedisModuleCtx *ctx) {
  RedisModuleCallReply *users = api.Call(ctx, "ACL", "c", "LIST");
  if (!users) {
    throttleLog(ctx, "warning", "MODULE UNLOAD is refused: ACL LIST is refused or renamed, so rules that name commands of the module cannot be seen. Restart the server without the module");
    return 1;
  }
  int isNamed = 0;
  for (size_t i = 0; i < api.CallReplyLength(users) && !isNamed; i++) {
    size_t length = 0, ruleLength;
    const char *line = api.CallReplyStringPtr(api.CallReplyArrayElement(users, i), &length);
    if (!line) continue;
    const char *rules = rulesOf(line, line + length), *rule = ruleOfACommand(rules, line + length, &ruleLength);
    if (rule) logRule(ctx, rule, ruleLength, line, rules);
    isNamed = rule != NULL;
  }
  api.FreeCallReply(users);
  return isNamed;
}

// The server calls this on MODULE UNLOAD. The Go runtime stays mapped and serves a later MODULE LOAD.
int RedisModule_OnUnload(RedisModuleCtx *ctx) {
  if (api.GetContextFlags(ctx) & CONTEXT_MULTI) {
    throttleLog(ctx, "warning", "MODULE UNLOAD is refused in a transaction: commands of the module that are queued behind it would crash the server");
    return API_ERR;
  }
  if (isNamedByAUser(ctx)) return API_ERR;
  disconnectCallers(ctx);
  return API_OK;
}
