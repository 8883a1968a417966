// Sorted sets: what a call sees of one, and what it does to it. A command on sorted sets may name members. One with
// several keys names one member, the same in all sets, and some of its keys may be strings.
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "open.h"

#include "_cgo_export.h"

// Finds the members that the call names. A place that is counted from the end lies in front of a short call.
static void findNames(const throttleCall *call, throttleMembers *members) {
  int most = throttleCommands[call->command].maxMembers, at = members->namesAt;
  members->namedCount = 0;
  if (at <= 0 || at >= call->viewCount) return;
  members->namedCount = call->viewCount - at < most ? call->viewCount - at : most;
  members->names = members->argv + 1 + at;
}

// Whether there is a free slot for the member that the call names even if it holds none yet. Then it need not be looked
// up: in a small set the server compares it with one member after the other. Go makes sure.
static int hasFreeSlot(const throttleCall *call, const throttleMembers *members) {
  long long slots;
  if (call->keys->hasLine || !members->slotsAt || members->slotsAt >= call->viewCount) return 0;
  if (call->turn != TURN_ARRIVING || members->namedCount != 1 || members->lowestCount) return 0;
  return api.StringToLongLong(members->argv[1 + members->slotsAt], &slots) == API_OK && slots > members->count;
}

static void freeLowest(throttleMembers *members) {
  for (int i = 0; i < members->lowestCount; i++) api.FreeString(NULL, members->lowestNames[i]);
}

void throttleFreeMembers(throttleCall *call) {
  for (int i = 0; i < call->keyCount; i++) freeLowest(call->keys[i].members);
}

static double scoreAt(RedisModuleKey *handle) {
  double score = NAN;
  if (!api.ZsetRangeEndReached(handle)) api.FreeString(NULL, api.ZsetRangeCurrentElement(handle, &score));
  api.ZsetRangeStop(handle);
  return score;
}

// How many members have a score up to nowMs, or -1 if the server's command for it was renamed away. The module API does
// not tell a member's rank. The command does, in logarithmic time. Other modules may run in the middle, so no key is
// open.
static int64_t countUpTo(RedisModuleCtx *ctx, RedisModuleString *name, double nowMs) {
  char most[32];
  snprintf(most, sizeof most, "%.0f", nowMs);
  RedisModuleCallReply *reply = api.Call(ctx, "ZCOUNT", THROTTLE_FORMAT("scc"), name, "-inf", most);
  int64_t count = reply && api.CallReplyType(reply) == CALL_REPLY_INTEGER ? api.CallReplyInteger(reply) : -1;
  if (reply) api.FreeCallReply(reply);
  return count;
}

static int64_t countOneByOne(RedisModuleKey *handle, double nowMs) {
  int64_t count = 0;
  for (api.ZsetFirstInScoreRange(handle, -INFINITY, nowMs, 0, 0); !api.ZsetRangeEndReached(handle); count++) api.ZsetRangeNext(handle);
  api.ZsetRangeStop(handle);
  return count;
}

// Whether the change of a call with several keys can tell whether the member that it names is there, in place of a
// look-up before: throttleTry. There must be one set only, in which nothing has lapsed. A change that deletes the set
// tells nothing.
static int canTry(const throttleCall *call, const throttleKey *key) {
  const throttleMembers *members = key->members;
  if (call->looksUp || call->unfinished || key->hasLine) return 0;
  if (members->namedCount != 1 || members->lowestCount || members->count < 2) return 0;
  for (int i = 0; i < call->keyCount; i++) {
    if (call->keys[i].kind == KEY_SORTED_SET && &call->keys[i] != key) return 0;
  }
  return 1;
}

// Looks up the scores of the members that the call names, unless none is needed. That of a member that is not there is
// NaN.
static void gatherNamed(const throttleCall *call, throttleKey *key) {
  throttleMembers *members = key->members;
  findNames(call, members);
  for (int i = 0; i < members->namedCount; i++) members->scores[i] = NAN;
  int isMany = throttleCommands[call->command].keys == KEYS_COUNTED;
  members->isDone = 0;
  members->isUnread = key->kind == KEY_SORTED_SET && (isMany ? canTry(call, key) : hasFreeSlot(call, members));
  if (members->isUnread || key->kind != KEY_SORTED_SET) return;
  for (int i = 0; i < members->namedCount; i++) api.ZsetScore(key->handle, members->names[i], &members->scores[i]);
}

// The score of the current member of a range or, if that is the score of the member that is named, of the one behind
// it.
static double otherScore(RedisModuleKey *handle, double named, int (*move)(RedisModuleKey *)) {
  double score = NAN;
  if (!api.ZsetRangeEndReached(handle)) api.FreeString(NULL, api.ZsetRangeCurrentElement(handle, &score));
  if (score == named) {
    score = NAN;
    if (move(handle)) api.FreeString(NULL, api.ZsetRangeCurrentElement(handle, &score));
  }
  api.ZsetRangeStop(handle);
  return score;
}

// Looks up the first to lapse, and the last, of the members that are not named. A member that was not looked up is one
// of them: it is not there, or the call is decided again.
static void gatherOthers(throttleKey *key) {
  throttleMembers *members = key->members;
  if (key->kind != KEY_SORTED_SET) return;
  members->nextOther = members->next;
  double named = members->namedCount ? members->scores[0] : NAN;
  if (named == members->next) {
    api.ZsetFirstInScoreRange(key->handle, named, INFINITY, 0, 0);
    members->nextOther = otherScore(key->handle, named, api.ZsetRangeNext);
  }
  api.ZsetLastInScoreRange(key->handle, -INFINITY, INFINITY, 0, 0);
  members->lastOther = otherScore(key->handle, named, api.ZsetRangePrev);
}

// Looks up what depends on where the call names members.
static void gatherNames(throttleCall *call) {
  int isMany = throttleCommands[call->command].keys == KEYS_COUNTED;
  for (int i = 0; i < call->keyCount; i++) {
    gatherNamed(call, &call->keys[i]);
    if (isMany) gatherOthers(&call->keys[i]);
  }
}

// Whether a score is above another. At both ends of a set the server tells at once.
static int isAnyAbove(RedisModuleKey *handle, double score) {
  api.ZsetFirstInScoreRange(handle, score, INFINITY, 1, 0);
  int isAny = !api.ZsetRangeEndReached(handle);
  api.ZsetRangeStop(handle);
  return isAny;
}

// From the lowest score on, up to the first that has not lapsed.
static void gatherLowest(throttleKey *key, throttleMembers *members, double nowMs) {
  for (api.ZsetFirstInScoreRange(key->handle, -INFINITY, INFINITY, 0, 0); !api.ZsetRangeEndReached(key->handle); api.ZsetRangeNext(key->handle)) {
    double score;
    RedisModuleString *name = api.ZsetRangeCurrentElement(key->handle, &score);
    if (score <= nowMs && members->lowestCount < MAX_LOWEST) {
      int i = members->lowestCount++;
      members->lowestNames[i] = name;
      members->lowestScores[i] = score;
      continue;
    }
    api.FreeString(NULL, name);
    members->hasLapsedMore = score <= nowMs;
    if (!members->hasLapsedMore) members->next = score;
    break;
  }
  api.ZsetRangeStop(key->handle);
  members->lapsed = members->lowestCount;
}

static double msOf(const throttleCall *call) { return (double)(call->nowNs / 1000000); }

static void gatherSet(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key) {
  throttleMembers *members = key->members;
  members->count = members->lapsed = members->lowestCount = 0;
  members->isBeyond = members->hasLapsedMore = 0;
  members->next = NAN;
  if (!isOfType(key, KEYTYPE_ZSET)) return;

  key->kind = KEY_SORTED_SET;
  if (throttleHasNeighbours && throttleMayBeUnfinished(key->handle) && throttleMayBeNested(call, ctx)) call->unfinished = call->isGuarded = 1;
  members->count = (int64_t)api.ValueLength(key->handle);
  gatherLowest(key, members, msOf(call));
  members->isBeyond = isAnyAbove(key->handle, msOf(call) + FURTHEST_MS);
}

// Asks the server how many members of those sets have lapsed that have more of them than were gathered; -1 where it
// does not tell. All keys are closed meanwhile, and then opened and gathered anew: whatever other modules have changed,
// the call is decided by what there is afterwards.
static void askForLapsed(throttleCall *call, RedisModuleCtx *ctx, int64_t *counts) {
  uint64_t expiries = throttleExpiries;
  throttleCloseKeys(call);
  throttleFreeMembers(call);
  for (int i = 0; i < call->keyCount; i++) {
    counts[i] = call->keys[i].members->hasLapsedMore ? countUpTo(ctx, call->keys[i].name, msOf(call)) : -1;
  }
  openKeys(call, ctx, call->openMode);
  for (int i = 0; i < call->keyCount; i++) {
    gatherSet(call, ctx, &call->keys[i]);
    if (throttleExpiries != expiries || call->unfinished) counts[i] = -1;
  }
}

// Counts the lapsed members of sets that have more of them than were gathered. The server is not asked where no other
// module may run.
__attribute__((noinline, cold)) static void countLapsed(throttleCall *call, RedisModuleCtx *ctx) {
  int64_t counts[MAX_KEYS];
  memset(counts, -1, sizeof counts); // each is -1
  if (!(call->openMode & OPEN_QUIETLY)) askForLapsed(call, ctx, counts);
  for (int i = 0; i < call->keyCount; i++) {
    throttleKey *key = &call->keys[i];
    throttleMembers *members = key->members;
    if (!members->hasLapsedMore) continue;
    members->lapsed = counts[i] >= 0 ? counts[i] : countOneByOne(key->handle, msOf(call));
    api.ZsetFirstInScoreRange(key->handle, msOf(call), INFINITY, 1, 0);
    members->next = scoreAt(key->handle);
  }
}

// With several keys a place is counted from the end, as calls that differ in their keys and limits mostly end alike.
static int endOf(const throttleCall *call) { return throttleCommands[call->command].keys == KEYS_COUNTED ? call->argCount : 0; }

// A call with several keys, none of which is a set or has a line, rarely names a member: most have limits only. Go says
// if it does.
int throttleMayNameMembers(const throttleCall *call) {
  if (throttleCommands[call->command].keys != KEYS_COUNTED) return 1;
  for (int i = 0; i < call->keyCount; i++) {
    if (call->keys[i].kind == KEY_OTHER || call->keys[i].hasLine) return 1;
  }
  return 0;
}

void throttleGatherSets(throttleCall *call, RedisModuleCtx *ctx) {
  int hasLapsedMore = 0;
  call->seesMembers = 1;
  for (int i = 0; i < call->keyCount; i++) {
    gatherSet(call, ctx, &call->keys[i]);
    hasLapsedMore |= call->keys[i].members->hasLapsedMore;
  }
  if (hasLapsedMore) countLapsed(call, ctx);
}

void throttleGatherNames(throttleCall *call, RedisModuleString **argv) {
  const throttleTraits *traits = &throttleCommands[call->command];
  call->looksUp = traits->looksUp;
  for (int i = 0; i < call->keyCount; i++) {
    throttleMembers *members = call->keys[i].members;
    members->argv = argv;
    members->namesAt = traits->namesAt + endOf(call);
    members->slotsAt = traits->slotsAt;
  }
  gatherNames(call);
}

void throttleGatherMembers(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv) {
  throttleGatherSets(call, ctx);
  throttleGatherNames(call, argv);
}

// Only Go reads words, and they may stand in any order. So C looks where they stood in the latest call of the command.
// If they stand elsewhere in this one, Go says where, and is asked again: once when a client begins to use another
// order. It is also asked again when it has to know whether a member is there that was not looked up. The next calls of
// the command then look it up at once, until one would have done without.
void throttleDecide(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv) {
  throttleCross(call);
  if (call->reply != REPLY_ELSEWHERE) return;
  if (!call->seesMembers) { // no key is a set, so it does not matter where the member stands
    throttleGatherMembers(call, ctx, argv);
    throttleCross(call);
    return;
  }
  throttleTraits *traits = &throttleCommands[call->command];
  throttleMembers *members = call->keys->members;
  traits->namesAt = members->namesAt - endOf(call);
  traits->slotsAt = members->slotsAt;
  traits->looksUp = call->looksUp = 1;
  gatherNames(call);
  throttleCross(call);
}

// The member that is added. Where there was no set to look it up in, only Go may know where the call names it.
static RedisModuleString *added(const throttleMembers *members) { return members->argv[1 + members->namesAt]; }

static int tryToChange(throttleKey *key) {
  throttleMembers *members = key->members;
  int is = 0;
  if (members->add) {
    int flags = ZADD_NX;
    api.ZsetAdd(key->handle, members->addScore, added(members), &flags);
    is = flags & ZADD_ADDED;
  } else {
    api.ZsetRem(key->handle, members->names[0], &is);
  }
  members->isDone = is != 0;
  return members->isDone;
}

// Looks up the member that throttleTry would do without. It returns whether there is one, so that the call has to be
// decided again.
int throttleLookUp(throttleCall *call) {
  if (!call->seesMembers) return 0;
  int isAny = 0;
  for (int i = 0; i < call->keyCount; i++) isAny |= call->keys[i].members->isUnread;
  if (!isAny) return 0;
  call->looksUp = 1;
  gatherNames(call);
  return 1;
}

// Adds the member that a call with several keys was decided to add as a new one, or removes the one that it was decided
// to remove, where that was not looked up. If it is otherwise, nothing has changed, and the call has to be decided
// again.
int throttleTry(throttleCall *call) {
  throttleTraits *traits = &throttleCommands[call->command];
  for (int i = 0; i < call->keyCount; i++) {
    throttleKey *key = &call->keys[i];
    if (key->effect != EFFECT_MEMBERS) continue;
    traits->looksUp = 0;
    if (!key->members->isUnread || tryToChange(key)) continue;
    throttleLookUp(call);
    return 0;
  }
  return 1;
}

static int removeMember(throttleKey *key, RedisModuleString *name, RedisModuleString **removed, int count) {
  int was = key->members->isDone;
  if (!was) api.ZsetRem(key->handle, name, &was);
  if (was) removed[count] = name;
  return count + was;
}

static void tellAdd(RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  throttleMembers *members = key->members;
  if (isHeard) api.Replicate(ctx, "ZADD", "sls", key->name, (long long)members->addScore, added(members));
}

static void expireAt(RedisModuleCtx *ctx, throttleKey *key, double highest, int isHeard) {
  key->expireAtMs = (int64_t)highest;
  if (isHeard) api.Replicate(ctx, "PEXPIREAT", "sl", key->name, (long long)key->expireAtMs);
  key->expiryChanges = 1;
}

// Adds the first member that is named, or moves it. The server says whether the id was new, which
// picks the reply if it was not looked up.
static void add(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  throttleMembers *members = key->members;
  int flags = 0;
  tellAdd(ctx, key, isHeard);
  if (members->isDone) return;
  api.ZsetAdd(key->handle, members->addScore, added(members), &flags);
  if (!members->isUnread || flags & ZADD_ADDED) return;
  members->event = members->eventIfThere;
  call->integers[members->fieldIfThere] = members->integerIfThere;
}

static double highestScore(throttleKey *key) {
  throttleMembers *members = key->members;
  if (members->add && !isAnyAbove(key->handle, members->addScore)) return members->addScore;
  api.ZsetLastInScoreRange(key->handle, -INFINITY, INFINITY, 0, 0);
  return scoreAt(key->handle);
}

// A set that is there is added to first, so that it is never empty in between.
static void changeSet(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  throttleMembers *members = key->members;
  RedisModuleString *removed[MAX_LOWEST + MAX_ARGS];
  int count = 0;
  if (members->add) add(call, ctx, key, isHeard);
  for (int i = 0; i < members->removeLowest; i++) {
    if (members->add && members->lowestScores[i] == members->scores[0] && !api.StringCompare(members->lowestNames[i], added(members))) continue;
    count = removeMember(key, members->lowestNames[i], removed, count);
  }
  for (int i = 0; i < members->namedCount; i++) {
    if (members->remove[i]) count = removeMember(key, members->names[i], removed, count);
  }
  members->removeLowest = count; // for the notification
  if (count && isHeard) api.Replicate(ctx, "ZREM", "sv", key->name, removed, (size_t)count);
  if (api.KeyType(key->handle) == KEYTYPE_EMPTY) {
    key->kind = KEY_ABSENT;
    return;
  }
  double highest = highestScore(key);
  if (api.GetAbsExpire(key->handle) == (int64_t)highest) return;
  expireAt(ctx, key, highest, isHeard);
  api.SetAbsExpire(key->handle, key->expireAtMs);
}

// Makes a set that was not there when the call was decided, and tells replicas. A module may have made a set there in
// the meantime, or something else, which is replaced.
void throttleMakeSet(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  throttleMembers *members = key->members;
  key->kind = KEY_SORTED_SET;
  key->expiryChanges = 0;
  if (!isHeard) api.ReplicateVerbatim(ctx);
  if (isOfType(key, KEYTYPE_ZSET)) {
    changeSet(call, ctx, key, isHeard);
    return;
  }
  if (api.KeyType(key->handle) != KEYTYPE_EMPTY) {
    api.DeleteKey(key->handle);
    if (isHeard) api.Replicate(ctx, "DEL", "s", key->name);
  }
  tellAdd(ctx, key, isHeard);
  expireAt(ctx, key, members->addScore, isHeard);
  api.ZsetAdd(key->handle, members->addScore, added(members), NULL);
  api.SetAbsExpire(key->handle, key->expireAtMs);
}

// Changes the set of a key and tells replicas. The server deletes a set that becomes empty. Any other expires
// with its last member. A set that is not there is made by throttleMakeSet, after all keys that are there have been
// changed.
void throttleChangeMembers(throttleCall *call, RedisModuleCtx *ctx, throttleKey *key, int isHeard) {
  key->expiryChanges = 0;
  if (!isHeard) api.ReplicateVerbatim(ctx);
  if (key->kind == KEY_SORTED_SET) changeSet(call, ctx, key, isHeard);
}

void throttleNotifyMembers(RedisModuleCtx *ctx, throttleKey *key) {
  if (key->members->removeLowest) notify(ctx, NOTIFY_ZSET, "zrem", key->name);
  if (key->members->add) notify(ctx, NOTIFY_ZSET, "zadd", key->name);
  if (key->expiryChanges) notify(ctx, NOTIFY_GENERIC, "expire", key->name);
  if (key->kind == KEY_ABSENT) notify(ctx, NOTIFY_GENERIC, "del", key->name);
}

void throttleNotifyLease(RedisModuleCtx *ctx, throttleKey *key) {
  int event = key->members->event;
  if (event == EVENT_LEASED) notify(ctx, NOTIFY_MODULE, "leased", key->name);
  if (event == EVENT_RELEASED) notify(ctx, NOTIFY_MODULE, "released", key->name);
}
