// Sorted sets: what a call sees of one, and what it does to it. A command on sorted sets has one
// key, and may name members, after a word of its own.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "bridge.h"

// Finds the members that the call names.
static void gatherNamed(throttleCall *call, RedisModuleString **argv, throttleMembers *members) {
  const throttleTraits *traits = &throttleCommands[call->command];
  const char *word = traits->memberWord;
  members->namedCount = 0;
  if (!word[0]) return;
  for (int i = 1; i < call->viewCount; i++) {
    const throttleView *arg = &call->args[i];
    if (arg->length != strlen(word) || strncasecmp(arg->bytes, word, arg->length) != 0) continue;
    members->namedCount = call->viewCount - i - 1;
    if (members->namedCount > traits->maxMembers) members->namedCount = traits->maxMembers;
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

// How many members have a score up to nowMs. The module API does not tell a member's rank. The server's own
// command does, in logarithmic time; where it was renamed away, they are counted one by one.
static int64_t countUpTo(RedisModuleCtx *ctx, throttleKey *key, double nowMs) {
  char most[32];
  snprintf(most, sizeof most, "%.0f", nowMs);
  RedisModuleCallReply *reply = api.Call(ctx, "ZCOUNT", "scc", key->name, "-inf", most);
  int64_t count = 0;
  if (reply && api.CallReplyType(reply) == CALL_REPLY_INTEGER) {
    count = api.CallReplyInteger(reply);
  } else {
    for (api.ZsetFirstInScoreRange(key->handle, -INFINITY, nowMs, 0, 0); !api.ZsetRangeEndReached(key->handle); count++) {
      api.ZsetRangeNext(key->handle);
    }
    api.ZsetRangeStop(key->handle);
  }
  if (reply) api.FreeCallReply(reply);
  return count;
}

void throttleGatherMembers(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv) {
  throttleKey *key = call->keys;
  throttleMembers *members = key->members;
  double nowMs = (double)(call->nowNs / 1000000);
  gatherNamed(call, argv, members);
  members->count = members->lapsed = members->lowestCount = 0;
  members->next = members->highest = NAN;
  for (int i = 0; i < members->namedCount; i++) members->scores[i] = NAN;
  if (!key->handle || api.KeyType(key->handle) != KEYTYPE_ZSET) return;

  key->kind = KEY_SORTED_SET;
  members->count = (int64_t)api.ValueLength(key->handle);
  for (int i = 0; i < members->namedCount; i++) {
    if (api.ZsetScore(key->handle, members->names[i], &members->scores[i]) != API_OK) members->scores[i] = NAN;
  }
  // From the lowest score on, up to the first that has not lapsed.
  int isMore = 0;
  for (api.ZsetFirstInScoreRange(key->handle, -INFINITY, INFINITY, 0, 0); !api.ZsetRangeEndReached(key->handle); api.ZsetRangeNext(key->handle)) {
    double score;
    RedisModuleString *name = api.ZsetRangeCurrentElement(key->handle, &score);
    if (score <= nowMs && members->lowestCount < MAX_LOWEST) {
      int i = members->lowestCount++;
      members->lowestNames[i] = name;
      members->lowestScores[i] = score;
      members->lowest[i].bytes = api.StringPtrLen(name, &members->lowest[i].length);
      members->lowest[i].capacity = members->lowest[i].length;
      continue;
    }
    api.FreeString(NULL, name);
    isMore = score <= nowMs;
    if (!isMore) members->next = score;
    break;
  }
  api.ZsetRangeStop(key->handle);
  members->lapsed = members->lowestCount;
  if (isMore) {
    members->lapsed = countUpTo(ctx, key, nowMs);
    api.ZsetFirstInScoreRange(key->handle, nowMs, INFINITY, 1, 0);
    members->next = scoreAt(key->handle);
  }
  api.ZsetLastInScoreRange(key->handle, -INFINITY, INFINITY, 0, 0);
  members->highest = scoreAt(key->handle);
}

static int removeMember(throttleKey *key, RedisModuleString *name, RedisModuleString **removed, int count) {
  int was = 0;
  api.ZsetRem(key->handle, name, &was);
  if (was) removed[count] = name;
  return count + was;
}

static void add(RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  throttleMembers *members = key->members;
  char score[32];
  snprintf(score, sizeof score, "%.17g", members->addScore);
  if (isHeard) api.Replicate(ctx, "ZADD", "scs", key->name, score, members->names[0]);
}

static void expireAt(RedisModuleCtx *ctx, throttleKey *key, double highest, int isHeard) {
  key->expireAtMs = (int64_t)highest;
  if (isHeard) api.Replicate(ctx, "PEXPIREAT", "sl", key->name, (long long)key->expireAtMs);
  key->expiryChanges = 1;
}

// A set that is not there. Replicas are told before it is made: another module may write then.
static void makeSet(RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  throttleMembers *members = key->members;
  if (!members->add) return;
  add(ctx, key, isHeard);
  expireAt(ctx, key, members->addScore, isHeard);
  api.ZsetAdd(key->handle, members->addScore, members->names[0], NULL);
  api.SetAbsExpire(key->handle, key->expireAtMs);
  key->kind = KEY_SORTED_SET;
}

// A set that is there is added to first, so that it is never empty in between. The highest score is
// looked up anew only where the member that had it was moved or removed.
static void changeSet(RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  throttleMembers *members = key->members;
  RedisModuleString *removed[MAX_LOWEST + MAX_ARGS];
  int count = 0;
  double highest = members->highest;
  int isStale = members->add && members->scores[0] == highest;
  if (members->add) {
    add(ctx, key, isHeard);
    api.ZsetAdd(key->handle, members->addScore, members->names[0], NULL);
  }
  for (int i = 0; i < members->removeLowest; i++) {
    if (members->add && members->lowestScores[i] == members->scores[0] && !api.StringCompare(members->lowestNames[i], members->names[0])) continue;
    isStale |= members->lowestScores[i] == highest;
    count = removeMember(key, members->lowestNames[i], removed, count);
  }
  for (int i = 0; i < members->namedCount; i++) {
    if (!members->remove[i]) continue;
    isStale |= members->scores[i] == highest;
    count = removeMember(key, members->names[i], removed, count);
  }
  members->removeLowest = count; // for the notification
  if (count && isHeard) api.Replicate(ctx, "ZREM", "sv", key->name, removed, (size_t)count);
  if (api.KeyType(key->handle) == KEYTYPE_EMPTY) {
    key->kind = KEY_ABSENT;
    return;
  }
  if (members->add && members->addScore >= highest) {
    highest = members->addScore;
  } else if (isStale) {
    api.ZsetLastInScoreRange(key->handle, -INFINITY, INFINITY, 0, 0);
    highest = scoreAt(key->handle);
  }
  if (api.GetAbsExpire(key->handle) == (int64_t)highest) return;
  expireAt(ctx, key, highest, isHeard);
  api.SetAbsExpire(key->handle, key->expireAtMs);
}

// Changes the set of a key and tells replicas. The server deletes a set that becomes empty. Any other expires
// with its last member.
void throttleChangeMembers(RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  key->expiryChanges = 0;
  if (!isHeard) api.ReplicateVerbatim(ctx);
  if (key->kind == KEY_SORTED_SET) {
    changeSet(ctx, key, isHeard);
  } else {
    makeSet(ctx, key, isHeard);
  }
}

void throttleNotifyMembers(RedisModuleCtx *ctx, throttleKey *key) {
  if (key->members->removeLowest) api.NotifyKeyspaceEvent(ctx, NOTIFY_ZSET, "zrem", key->name);
  if (key->members->add) api.NotifyKeyspaceEvent(ctx, NOTIFY_ZSET, "zadd", key->name);
  if (key->expiryChanges) api.NotifyKeyspaceEvent(ctx, NOTIFY_GENERIC, "expire", key->name);
  if (key->kind == KEY_ABSENT) api.NotifyKeyspaceEvent(ctx, NOTIFY_GENERIC, "del", key->name);
}

void throttleNotifyLease(RedisModuleCtx *ctx, throttleKey *key) {
  int event = key->members->event;
  if (event == EVENT_LEASED) api.NotifyKeyspaceEvent(ctx, NOTIFY_MODULE, "leased", key->name);
  if (event == EVENT_RELEASED) api.NotifyKeyspaceEvent(ctx, NOTIFY_MODULE, "released", key->name);
}

// How many leases are held, how many callers wait, and the leases that lapse next. Nothing has run since the
// decision, so the set is what it was.
void throttleReplyLeases(throttleCall *call, RedisModuleCtx *ctx) {
  const throttleView *names = throttleCommands[call->command].fields;
  double nowMs = (double)(call->nowNs / 1000000);
  throttleReplyMap(ctx, 3);
  for (int i = 0; i < 2; i++) {
    throttleReplyName(ctx, &names[i]);
    api.ReplyWithLongLong(ctx, call->integers[i]);
  }
  throttleReplyName(ctx, &names[2]);
  api.ReplyWithArray(ctx, POSTPONED_LENGTH);
  long count = 0;
  RedisModuleKey *handle = api.OpenKey(ctx, call->keys->name, OPEN_READ);
  if (handle && api.KeyType(handle) == KEYTYPE_ZSET) {
    api.ZsetFirstInScoreRange(handle, nowMs, INFINITY, 1, 0);
    for (; count < call->integers[2] && !api.ZsetRangeEndReached(handle); count++, api.ZsetRangeNext(handle)) {
      double score;
      RedisModuleString *id = api.ZsetRangeCurrentElement(handle, &score);
      throttleReplyMap(ctx, 2);
      throttleReplyName(ctx, &names[3]);
      api.ReplyWithString(ctx, id);
      throttleReplyName(ctx, &names[4]);
      api.ReplyWithLongLong(ctx, ((int64_t)score * 1000000 - call->nowNs) / 1000000);
      api.FreeString(NULL, id);
    }
    api.ZsetRangeStop(handle);
  }
  api.ReplySetArrayLength(ctx, count);
  if (handle) api.CloseKey(handle);
}
