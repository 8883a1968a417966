// Sorted sets: what a call sees of one, and what it does to it. A command on sorted sets has one
// key, and names members at its end, after a word of its own.
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "bridge.h"

// Finds the members that the call names.
static void gatherNamed(throttleCall *call, RedisModuleString **argv, throttleMembers *members) {
  const char *word = throttleCommands[call->command].memberWord;
  members->namedCount = 0;
  for (int i = 1; i < call->viewCount; i++) {
    const throttleView *arg = &call->args[i];
    if (arg->length != strlen(word) || strncasecmp(arg->bytes, word, arg->length) != 0) continue;
    members->namedCount = call->viewCount - i - 1;
    members->names = argv + 1 + i + 1;
    return;
  }
}

void throttleFreeMembers(throttleCall *call) {
  throttleMembers *members = call->keys->members;
  for (int i = 0; i < members->lowestCount; i++) api.FreeString(NULL, members->lowestNames[i]);
}

static double scoreAt(RedisModuleKey *handle) {
  double score = NAN;
  if (!api.ZsetRangeEndReached(handle)) api.FreeString(NULL, api.ZsetRangeCurrentElement(handle, &score));
  api.ZsetRangeStop(handle);
  return score;
}

void throttleGatherMembers(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv) {
  (void)ctx;
  throttleKey *key = call->keys;
  throttleMembers *members = key->members;
  double nowMs = (double)(call->nowNs / 1000000);
  gatherNamed(call, argv, members);
  members->count = members->lowestCount = 0;
  members->next = members->highest = NAN;
  for (int i = 0; i < members->namedCount; i++) members->scores[i] = NAN;
  if (!key->handle || api.KeyType(key->handle) != KEYTYPE_ZSET) return;

  key->kind = KEY_SORTED_SET;
  members->count = (int64_t)api.ValueLength(key->handle);
  for (int i = 0; i < members->namedCount; i++) {
    if (api.ZsetScore(key->handle, members->names[i], &members->scores[i]) != API_OK) members->scores[i] = NAN;
  }
  api.ZsetFirstInScoreRange(key->handle, -INFINITY, nowMs, 0, 0);
  while (members->lowestCount < MAX_LOWEST && !api.ZsetRangeEndReached(key->handle)) {
    int i = members->lowestCount++;
    members->lowestNames[i] = api.ZsetRangeCurrentElement(key->handle, &members->lowestScores[i]);
    members->lowest[i].bytes = api.StringPtrLen(members->lowestNames[i], &members->lowest[i].length);
    members->lowest[i].capacity = members->lowest[i].length;
    api.ZsetRangeNext(key->handle);
  }
  api.ZsetRangeStop(key->handle);
  api.ZsetFirstInScoreRange(key->handle, nowMs, INFINITY, 1, 0);
  members->next = scoreAt(key->handle);
  api.ZsetLastInScoreRange(key->handle, -INFINITY, INFINITY, 0, 0);
  members->highest = scoreAt(key->handle);
}

static int removeMember(throttleKey *key, RedisModuleString *name, RedisModuleString **removed, int count) {
  int was = 0;
  api.ZsetRem(key->handle, name, &was);
  if (was) removed[count] = name;
  return count + was;
}

// Changes the set of a key, removals first, and tells replicas. The server deletes a set that
// becomes empty.
void throttleChangeMembers(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  throttleMembers *members = key->members;
  RedisModuleString *removed[MAX_LOWEST + MAX_ARGS];
  int count = 0;
  for (int i = 0; i < members->removeLowest; i++) count = removeMember(key, members->lowestNames[i], removed, count);
  for (int i = 0; i < members->namedCount; i++) {
    if (members->remove[i]) count = removeMember(key, members->names[i], removed, count);
  }
  members->removeLowest = count; // for the notification
  // Told before the set is added to: when that makes it, another module may write then.
  int adds = members->add;
  key->expiryChanges = key->expireAtMs && (api.KeyType(key->handle) == KEYTYPE_EMPTY || api.GetAbsExpire(key->handle) != key->expireAtMs);
  if (!isHeard) {
    api.ReplicateVerbatim(ctx);
  } else {
    char score[32];
    if (count) api.Replicate(ctx, "ZREM", "sv", key->name, removed, (size_t)count);
    snprintf(score, sizeof score, "%.17g", members->addScore);
    if (adds) api.Replicate(ctx, "ZADD", "scs", key->name, score, members->names[0]);
    if (key->expiryChanges) api.Replicate(ctx, "PEXPIREAT", "sl", key->name, (long long)key->expireAtMs);
  }
  if (adds) api.ZsetAdd(key->handle, members->addScore, members->names[0], NULL);
  if (key->expiryChanges) api.SetAbsExpire(key->handle, key->expireAtMs);
  key->kind = api.KeyType(key->handle) == KEYTYPE_EMPTY ? KEY_ABSENT : KEY_SORTED_SET;
}

void throttleNotifyMembers(RedisModuleCtx *ctx, throttleKey *key) {
  if (key->members->removeLowest) api.NotifyKeyspaceEvent(ctx, NOTIFY_ZSET, "zrem", key->name);
  if (key->members->add) api.NotifyKeyspaceEvent(ctx, NOTIFY_ZSET, "zadd", key->name);
  if (key->expiryChanges) api.NotifyKeyspaceEvent(ctx, NOTIFY_GENERIC, "expire", key->name);
  if (key->kind == KEY_ABSENT) api.NotifyKeyspaceEvent(ctx, NOTIFY_GENERIC, "del", key->name);
}
