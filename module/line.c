// Callers that wait in line. This file blocks and answers them, does in turns of the event loop what there is to do for
// their lines, and passes on what the server tells. Go's package line knows who waits, until when, and what to do next;
// it gives out handles.
//
// A throttleLine lives until its STEP_CLOSE, which only a turn gets to. A throttleCaller lives until it has its answer
// or has left. It may leave whenever other modules run: when a key is opened, when lapsed leases are counted, when the
// server is asked for obstacles, and when a decision is applied. So it is looked up again afterwards.
#include <stdio.h>

#include "open.h"

#include "_cgo_export.h"

struct throttleLine {
  uint64_t id;
  RedisModuleString *name;
  int db;
};

struct throttleCaller {
  RedisModuleBlockedClient *handle;
  uint64_t clientID;       // by which the server is told to answer at once; 0 otherwise
  RedisModuleString *user; // NULL where the server cannot tell
  int command;
  // The answer. With REPLY_LATER it is made of the state of the key when it is sent.
  int32_t reply, count;
  int64_t waitedNs;
  int64_t integers[MAX_FIELDS];
  int64_t (*each)[EACH_FIELDS]; // what each limit says, NULL without
  int32_t eachCount;
  char error[MAX_ERROR_LEN + 1];
  throttleCaller *next; // in answered

  int argc; // of a caller in turn, whose call is decided again
  RedisModuleString *argv[];
};

// In a cluster the server looks once a second whether the slots of blocked clients are still its own, and so do the
// lines.
#define LOOK_EACH_NS 1000000000LL
// While writes are paused, and while the server refuses them (no memory, too few replicas, a disk that is full).
enum { RETRY_PAUSED_MS = 20, RETRY_REFUSED_MS = 100 };
static const char hasMoved[] = "TRYAGAIN The slot of this key has moved to another node while the caller waited";
static const char isReplica[] = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
static const char unblocked[] = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
static const char noPermission[] = "NOPERM The user may no longer run this command on this key";

static const throttleCaller *beingAnswered; // it has left its line, and its answer is being applied
static throttleCaller *answered, **lastAnswered = &answered; // they have their answers, and are unblocked before the event loop sleeps
static int isWatching; // the server tells of changes by others
static int isWatchingSleep, tellsOfSleep; // the server was asked to tell when the event loop is about to sleep, and does
static int64_t retryNs; // when all lines that are held up are looked at, on the monotonic clock; 0 for never

void throttleForgetLines(void) { isWatching = isWatchingSleep = 0; }

void throttleLookAtLines(RedisModuleCtx *ctx) { throttleTurnIn(ctx, 0); }

// Tells all lines, or those of a database, what has happened.
static void tellLines(RedisModuleCtx *ctx, int event, int db) {
  if (throttleAllLines && throttleTellLines(event, db, throttleClockNs(), throttleMonotonicNs())) throttleLookAtLines(ctx);
}

static throttleLine *newLine(uint64_t id, const throttleCall *call) {
  throttleLine *line = api.Alloc(sizeof *line);
  *line = (throttleLine){.id = id, .db = call->db, .name = api.CreateStringFromString(NULL, call->keys->name)};
  size_t length;
  const char *bytes = api.StringPtrLen(line->name, &length);
  throttleOwnLine(id, line, (char *)bytes, length);
  throttleCountLine(line->db, line->name, 1);
  return line;
}

static void closeLine(throttleLine *line) {
  throttleCountLine(line->db, line->name, -1);
  api.FreeString(NULL, line->name);
  api.Free(line);
}

static int onSortedSet(const throttleCaller *w) { return throttleCommands[w->command].onSortedSet; }

static uint64_t *waitingOf(const throttleCaller *w) { return onSortedSet(w) ? &stats.leasesWaiting : &stats.waiting; }

// A caller of CL.WAIT leaves its line, with or without its units. Those of leases are counted by what they are told.
static void countEnd(const throttleCaller *w, int hasUnits) {
  if (onSortedSet(w)) return;
  if (hasUnits) stats.waited++; else stats.waitLeft++;
}

static void freeCaller(throttleCaller *w) {
  for (int i = 0; i < w->argc; i++) api.FreeString(NULL, w->argv[i]);
  if (w->user) api.FreeString(NULL, w->user);
  if (w->each) api.Free(w->each);
  api.Free(w);
}

static void onFree(RedisModuleCtx *ctx, void *data) {
  (void)ctx;
  freeCaller(data);
}

// The server answers the caller in the middle of its own CLIENT UNBLOCK (replyEarly). A server that finds out now that
// a pause is over first goes on with those that were answered before.
static void answerAtOnce(RedisModuleCtx *ctx, const throttleCaller *w) {
  throttleIsPaused();
  beingAnswered = w;
  RedisModuleCallReply *reply = api.Call(ctx, "CLIENT", "cl", "UNBLOCK", (long long)w->clientID);
  if (reply) api.FreeCallReply(reply);
  beingAnswered = NULL;
}

// The caller has left its line, and gets its answer. Between a turn and the answers to those that were unblocked in it,
// the server may run commands (of clients that I/O threads have read). Before Redis 7.4 a caller that CLIENT UNBLOCK
// names then gets no answer at all, and Redis 7.2 crashes. So on Redis 7.0 callers stay blocked until nothing comes in
// between, and on 7.2 they are answered at once.
static void unblock(RedisModuleCtx *ctx, throttleCaller *w) {
  --*waitingOf(w);
  if (tellsOfSleep) {
    w->next = NULL;
    *lastAnswered = w;
    lastAnswered = &w->next;
    return;
  }
  if (w->clientID) answerAtOnce(ctx, w);
  api.UnblockClient(w->handle, w);
}

static void onEventLoop(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)ctx, (void)event, (void)data;
  if (subevent != BEFORE_SLEEP) return;
  for (throttleCaller *w = answered, *next; w; w = next) {
    next = w->next;
    api.UnblockClient(w->handle, w);
  }
  answered = NULL;
  lastAnswered = &answered;
}

// Later servers tell when they have answered those that were unblocked, and so too late. Redis 6.2 does not tell.
static int forgetsAnswers(int sinceRedis72) { return throttleForgetsAnswers && sinceRedis72 == (api.CachedMicroseconds != NULL); }

static void watchSleep(RedisModuleCtx *ctx) {
  if (isWatchingSleep) return;
  isWatchingSleep = 1;
  tellsOfSleep = forgetsAnswers(0) && api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_EVENTLOOP, 1}, onEventLoop) == API_OK;
}

static void sendAway(RedisModuleCtx *ctx, throttleCaller *w, const char *error) {
  countEnd(w, 0);
  w->reply = REPLY_ERROR;
  snprintf(w->error, sizeof w->error, "%s", error);
  unblock(ctx, w);
}

// The server has no more use for the handle.
static void leave(RedisModuleCtx *ctx, RedisModuleBlockedClient *handle) {
  int isWoken = 0;
  throttleCaller *w = throttleLeave((uintptr_t)handle, &isWoken);
  if (!w) return;
  --*waitingOf(w);
  countEnd(w, 0);
  api.UnblockClient(handle, NULL);
  freeCaller(w);
  if (isWoken) throttleLookAtLines(ctx);
}

// The clock, but never before the server's reading of when it called the module. Most servers judge expiry by that: a
// lease from before it, since the clock was set back meanwhile, may expire at once, and the slot would go to the next
// caller, too. Redis 7.0 judges by the clock as it is when a key is opened, so what is decided on a key goes by a later
// reading: what has expired for the server has expired for the module.
static int64_t lineClockNs(void) {
  int64_t serversNs = throttleServersClockNs(), nowNs = throttleClockNs();
  return nowNs > serversNs ? nowNs : serversNs;
}

// Begins what a line does to its key. Other modules may run when the key is opened.
static throttleCall *beginStep(throttleSingle *single, RedisModuleCtx *ctx, const throttleStep *step, int command, int mode) {
  throttleCall *call = throttleBeginSingle(single, command, 1, &step->line->name);
  call->origin = mode & OPEN_QUIETLY ? BY_UNBLOCKING : BY_EVENT_LOOP;
  call->db = step->line->db;
  openKeys(call, ctx, mode);
  call->nowNs = lineClockNs();
  return call;
}

// A caller that is unblocked while its key may be unfinished is told what the server tells one that it unblocks with
// ERROR.
static void refuseUnread(throttleCall *call) {
  if (call->unfinished && call->keys->kind == KEY_OTHER) throttleRefuse(call, unblocked);
}

// Decides the call of a caller again, up to the point where it is to be applied. It returns NULL if the caller has
// left, or should be the first and is not any more.
static throttleCall *decideAgain(throttleSingle *single, RedisModuleCtx *ctx, const throttleStep *step, int turn, int mode) {
  throttleCaller *w = step->caller;
  throttleCall *call = beginStep(single, ctx, step, w->command, mode);
  if (throttleCommands[call->command].onSortedSet) throttleGatherSets(call, ctx);
  // Other modules may have made the caller leave, or let in a call of a higher priority to the front of the line.
  if (turn == TURN_AT_FRONT ? !throttleIsFirst(step->entry) : !throttleStands(step->entry)) {
    if (call->keys->handle) api.CloseKey(call->keys->handle);
    if (call->seesMembers) throttleFreeMembers(call);
    return NULL;
  }
  call->mayBlock = turn == TURN_AT_FRONT;
  call->isFull = 0;
  call->turn = turn;
  call->waitedNs = step->ns;
  call->keys->lineSlots = step->slots;
  gatherArgs(call, w->argv, w->argc, MAX_ARGS);
  if (call->seesMembers) throttleGatherNames(call, w->argv);
  throttleDecide(call, ctx, w->argv);
  refuseUnread(call);
  if (call->panicked) throttleLog(ctx, "warning", call->error);
  return call;
}

static void applyAndFree(throttleCall *call, RedisModuleCtx *ctx) {
  throttleApply(call, ctx);
  if (call->seesMembers) throttleFreeMembers(call);
}

static void answerWith(throttleCaller *w, const throttleCall *call) {
  w->reply = call->reply;
  w->count = call->count;
  memcpy(w->integers, call->integersRoom, sizeof w->integers);
  if (call->reply == REPLY_INTEGERS_EACH || call->reply == REPLY_FIELDS_EACH) {
    w->eachCount = call->eachCount;
    w->each = api.Alloc((size_t)w->eachCount * sizeof *w->each);
    memcpy(w->each, throttleEachOf(call), (size_t)w->eachCount * sizeof *w->each);
  }
  if (call->reply == REPLY_ERROR) memcpy(w->error, call->error, sizeof w->error);
}

// Whether the user of a caller may still make its call, as the server asks before it serves a client that was blocked.
static int isPermitted(const throttleCaller *w) {
  if (!w->user) return 1;
  RedisModuleUser *user = api.GetModuleUserFromUserName(w->user);
  int isGranted = user && api.ACLCheckCommandPermissions(user, (RedisModuleString **)w->argv, w->argc) == API_OK;
  if (user) api.FreeModuleUser(user);
  return isGranted;
}

// Decides the first in turn, and lets it in if it is time. Asking the server about obstacles may have run other
// modules, as opening the key does.
static void decideFirst(RedisModuleCtx *ctx, const throttleStep *step) {
  throttleCaller *w = step->caller;
  if (!throttleIsFirst(step->entry)) return;
  if (!isPermitted(w)) {
    throttleDismiss(step->entry);
    sendAway(ctx, w, noPermission);
    return;
  }
  throttleSingle single;
  throttleCall *call = decideAgain(&single, ctx, step, TURN_AT_FRONT, OPEN_READ | OPEN_WRITE);
  if (!call) return;
  if (call->reply == REPLY_IN_TURN) {
    throttleWaitsOn(step->entry, call->lookNs, throttleClockNs());
    applyAndFree(call, ctx); // what other modules change then is noted by the line
    return;
  }
  if (call->tally == TALLY_ALLOWED) throttleLetIn(step->entry); else throttleDismiss(step->entry);
  countDecision(call);
  countEnd(w, call->tally == TALLY_ALLOWED);
  answerWith(w, call);
  beingAnswered = w;
  applyAndFree(call, ctx);
  beingAnswered = NULL;
  unblock(ctx, w);
}

// Decides what a caller is told that has to go. It returns NULL if other modules have made it leave, which was counted
// then.
static throttleCall *decideLeaving(throttleSingle *single, RedisModuleCtx *ctx, const throttleStep *step, int mode) {
  throttleCall *call = decideAgain(single, ctx, step, TURN_LEAVING, mode);
  if (!call) return NULL;
  applyAndFree(call, ctx);
  if (!throttleStands(step->entry)) return NULL;
  countDecision(call);
  return call;
}

// The time of a caller is over. The server's own timeouts are not used: one that comes when the caller was just let in
// takes it out of the server's hands, without an answer, and with its lease.
static void sendOff(RedisModuleCtx *ctx, const throttleStep *step) {
  throttleSingle single;
  throttleCall *call = decideLeaving(&single, ctx, step, OPEN_READ);
  if (!call) return;
  throttleDismiss(step->entry);
  countEnd(step->caller, 0);
  answerWith(step->caller, call);
  unblock(ctx, step->caller);
}

// Looks again later at all lines that are held up, which is for the same reason.
static void retryLater(int obstacle) {
  if (!retryNs) retryNs = throttleMonotonicNs() + (obstacle == IS_PAUSED ? RETRY_PAUSED_MS : RETRY_REFUSED_MS) * (int64_t)MS_NS;
}

static void retryIfDue(RedisModuleCtx *ctx) {
  if (!retryNs || throttleMonotonicNs() < retryNs) return;
  retryNs = 0;
  throttleLine *line = throttleHeldLine();
  if (!line) return;
  api.SelectDb(ctx, line->db);
  int obstacle = throttleObstacle(ctx, line->name);
  if (obstacle == IS_PAUSED || obstacle == IS_REFUSED) {
    retryLater(obstacle);
    return;
  }
  tellLines(ctx, LINES_RELEASED, ALL_DBS);
}

static void decideIfPossible(RedisModuleCtx *ctx, const throttleStep *step) {
  stats.looks++;
  int obstacle = throttleObstacle(ctx, step->line->name);
  if (obstacle == MAY_WRITE) {
    decideFirst(ctx, step);
  } else if (obstacle == HAS_MOVED) {
    throttleHasMoved(step->line->id);
  } else {
    throttleHoldUp(step->line->id);
    retryLater(obstacle);
  }
}

static int waitCommand; // the index of a command by which somebody has reserved

// Writes the line's key as it is without those that have left. On a replica the key is its master's, and over maxmemory
// it must not get longer: the slots lapse then.
static void giveBack(RedisModuleCtx *ctx, const throttleStep *step) {
  int flags = api.GetContextFlags(ctx), isMaster = flags & CONTEXT_MASTER;
  if (isMaster && throttleIsPaused()) {
    throttleHoldUp(step->line->id);
    retryLater(IS_PAUSED);
    return;
  }
  throttleSingle single;
  throttleCall *call = beginStep(&single, ctx, step, waitCommand, isMaster ? OPEN_READ | OPEN_WRITE : OPEN_READ);
  throttleGiveBack(step->line->id, call);
  if (!isMaster || (flags & CONTEXT_OOM && throttleGrows(call))) call->keys->effect = EFFECT_KEEP;
  throttleApply(call, ctx);
}

// The slot of a caller has come.
static void answerReserved(RedisModuleCtx *ctx, const throttleStep *step) {
  throttleCaller *w = step->caller;
  w->reply = REPLY_LATER;
  w->waitedNs = step->ns;
  // Counted here: a client may be gone before its answer is written.
  countEnd(w, 1);
  stats.tallies[TALLY_ALLOWED]++;
  unblock(ctx, w);
}

// A caller in turn that was unblocked was limited. Other modules hear of it in a turn, since the server goes on with
// the client that it unblocks.
typedef struct throttleTelling {
  struct throttleTelling *next;
  RedisModuleString *name;
  int db;
} throttleTelling;

static throttleTelling *tellings, **lastTelling = &tellings;

static void tellLimitedLater(RedisModuleCtx *ctx, const throttleLine *line) {
  throttleTelling *telling = api.Alloc(sizeof *telling);
  *telling = (throttleTelling){.name = api.CreateStringFromString(NULL, line->name), .db = line->db};
  *lastTelling = telling;
  lastTelling = &telling->next;
  throttleTurnIn(ctx, 0);
}

static void tellLimited(RedisModuleCtx *ctx) {
  throttleTelling *telling = tellings, *next;
  tellings = NULL; // other modules may have further callers unblocked
  lastTelling = &tellings;
  for (; telling; telling = next) {
    next = telling->next;
    api.SelectDb(ctx, telling->db);
    notify(ctx, NOTIFY_MODULE, "limited", telling->name);
    api.FreeString(NULL, telling->name);
    api.Free(telling);
  }
}

static void takeStep(RedisModuleCtx *ctx, const throttleStep *step) {
  api.SelectDb(ctx, step->line->db);
  switch (step->kind) {
  case STEP_ANSWER:
    answerReserved(ctx, step);
    break;
  case STEP_SEND_AWAY:
    sendAway(ctx, step->caller, isReplica);
    break;
  case STEP_MOVED:
    sendAway(ctx, step->caller, hasMoved);
    break;
  case STEP_GIVE_BACK:
    giveBack(ctx, step);
    break;
  case STEP_DECIDE:
    decideIfPossible(ctx, step);
    break;
  case STEP_TIME_OUT:
    sendOff(ctx, step);
    break;
  case STEP_CLOSE:
    closeLine(step->line);
  }
}

int64_t throttleTurn(RedisModuleCtx *ctx) {
  tellLimited(ctx);
  retryIfDue(ctx);
  throttleStep step;
  for (int begins = 1;; begins = 0) {
    if (throttleIsSetBack()) return 0;
    throttleNextStep(begins, lineClockNs(), throttleMonotonicNs(), &step);
    if (step.kind == STEP_SLEEP) break;
    takeStep(ctx, &step);
  }
  if (tellings) return 0;
  int64_t untilRetryNs = retryNs ? retryNs - throttleMonotonicNs() : INT64_MAX;
  return step.ns < untilRetryNs ? step.ns : untilRetryNs;
}

// How a key is opened for a reply to a client that was blocked. The server goes on with the client afterwards, so no
// other module may run: it could cut the client off. No server sends a notification when a missing key is opened for
// writing.
enum { OPEN_FOR_REPLY = OPEN_READ | OPEN_WRITE | OPEN_QUIETLY };

// The reply to a caller that had reserved a slot.
static int replyReserved(RedisModuleCtx *ctx, int command, RedisModuleString **argv, int argc, int granted, int64_t waitedNs) {
  throttleSingle single;
  throttleCall *call = throttleBeginSingle(&single, command, 1, argv + 1);
  call->origin = granted ? BY_EVENT_LOOP : BY_UNBLOCKING;
  call->db = api.GetSelectedDb(ctx);
  gatherArgs(call, argv, argc, MAX_ARGS);
  openKeys(call, ctx, OPEN_FOR_REPLY);
  call->nowNs = lineClockNs();
  throttleAnswer(call, granted, waitedNs);
  refuseUnread(call);
  throttleApply(call, ctx);
  throttleReply(call, ctx);
  return API_OK;
}

static int replyToCaller(RedisModuleCtx *ctx, const throttleCaller *w, RedisModuleString **argv, int argc) {
  if (w->reply == REPLY_LATER) return replyReserved(ctx, w->command, argv, argc, 1, w->waitedNs);
  throttleSingle single;
  throttleCall *call = throttleBeginSingle(&single, w->command, 0, NULL);
  call->reply = w->reply;
  call->count = w->count;
  call->integers = memcpy(call->integersRoom, w->integers, sizeof w->integers);
  if (w->each) {
    call->eachCount = w->eachCount;
    memcpy(single.each, w->each, (size_t)w->eachCount * sizeof *w->each);
  }
  memcpy(call->error, w->error, sizeof w->error);
  throttleReply(call, ctx);
  return API_OK;
}

static int onUnblocked(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  return replyToCaller(ctx, api.GetBlockedClientPrivateData(ctx), argv, argc);
}

static const throttleCaller *findAnswered(const RedisModuleBlockedClient *handle) {
  if (beingAnswered && beingAnswered->handle == handle) return beingAnswered;
  for (const throttleCaller *w = answered; w; w = w->next) {
    if (w->handle == handle) return w;
  }
  return NULL;
}

// A caller is unblocked that has left its line with an answer: before Redis 7.4 the server takes it out of our hands
// then, so it gets its answer here.
static int replyEarly(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  const throttleCaller *w = api.GetBlockedClientPrivateData(ctx);
  if (!w) w = findAnswered(api.GetBlockedClientHandle(ctx));
  return w ? replyToCaller(ctx, w, argv, argc) : API_OK;
}

// CLIENT UNBLOCK.
static int onTimeout(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  RedisModuleBlockedClient *handle = api.GetBlockedClientHandle(ctx);
  throttleStep step;
  if (!throttleFindCaller((uintptr_t)handle, throttleMonotonicNs(), &step)) return replyEarly(ctx, argv, argc);
  if (step.caller->argc) {
    throttleSingle single;
    throttleCall *call = decideLeaving(&single, ctx, &step, OPEN_FOR_REPLY);
    if (call) {
      if (call->tally == TALLY_LIMITED) tellLimitedLater(ctx, step.line);
      throttleReply(call, ctx);
    }
  } else {
    replyReserved(ctx, step.caller->command, argv, argc, 0, 0);
  }
  leave(ctx, handle);
  return API_OK;
}

static int onChange(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *name) {
  (void)type, (void)event;
  int db = api.GetSelectedDb(ctx);
  if (!throttleMayHaveLine(db, name)) return API_OK;
  size_t length;
  const char *bytes = api.StringPtrLen(name, &length);
  if (throttleChanged(db, (char *)bytes, length)) throttleLookAtLines(ctx);
  return API_OK;
}

static void onFlush(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)event;
  if (subevent == FLUSH_END) tellLines(ctx, LINES_CHANGED, ((const flushInfo *)data)->db);
}

static void onSwap(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)event, (void)subevent;
  const swapInfo *info = data;
  tellLines(ctx, LINES_CHANGED, info->db);
  tellLines(ctx, LINES_CHANGED, info->otherDb);
}

// A replica loads the data set of its master beside its own, and has put it in its place.
static void onAsyncLoad(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)event, (void)data;
  if (subevent == ASYNC_LOAD_COMPLETED) tellLines(ctx, LINES_CHANGED, ALL_DBS);
}

enum { CHANGES = NOTIFY_GENERIC | NOTIFY_STRING | NOTIFY_LIST | NOTIFY_SET | NOTIFY_HASH | NOTIFY_ZSET | NOTIFY_EXPIRED | NOTIFY_EVICTED | NOTIFY_STREAM };

// Any change of a key may free slots. A server on which nobody ever waits in turn is not asked to tell.
static void watch(RedisModuleCtx *ctx) {
  if (isWatching) return;
  isWatching = 1;
  api.SubscribeToKeyspaceEvents(ctx, CHANGES, onChange);
  api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_FLUSHDB, 1}, onFlush);
  api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_SWAPDB, 1}, onSwap);
  api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_ASYNC_LOAD, 1}, onAsyncLoad);
}

// Slots and looks go by the wall clock, and turns by the monotonic one. When they part, every line is looked at anew.
static void noteSteps(RedisModuleCtx *ctx) {
  if (throttleNoteSteps(ctx, throttleAllLines > 0)) tellLines(ctx, LINES_STEPPED, ALL_DBS);
}

void throttleWatchClocks(RedisModuleCtx *ctx) {
  noteSteps(ctx);
  throttleKeepTime(ctx);
}

// A server that becomes a replica unblocks its clients. Valkey 9 leaves alone those of modules that follow redirects,
// and unblocks others late when it hands over (FAILOVER). All get the same error.
void throttleLeaveToMaster(RedisModuleCtx *ctx) {
  tellLines(ctx, LINES_SENT_AWAY, ALL_DBS);
}

static int isBlocked(uint64_t id) {
  clientInfo info = {.version = 1};
  return api.GetClientInfoById(&info, id) == API_OK && info.flags & CLIENT_BLOCKED;
}

// A module may call under the id of somebody else. So an id is the caller's only if its client was not blocked before.
static void block(RedisModuleCtx *ctx, throttleCaller *w) {
  uint64_t id = forgetsAnswers(1) ? api.GetClientId(ctx) : 0;
  int mayBeIts = id && !isBlocked(id);
  w->handle = api.BlockClient(ctx, onUnblocked, onTimeout, onFree, 0);
  w->clientID = mayBeIts && isBlocked(id) ? id : 0;
  api.SetDisconnectCallback(w->handle, leave);
}

static throttleCaller *newCaller(RedisModuleCtx *ctx, int command, RedisModuleString **argv, int argc) {
  throttleCaller *w = api.Alloc(sizeof *w + (size_t)argc * sizeof *argv);
  *w = (throttleCaller){.command = command, .argc = argc};
  for (int i = 0; i < argc; i++) {
    w->argv[i] = argv[i];
    api.RetainString(NULL, argv[i]);
  }
  int canAsk = argc && api.GetCurrentUserName && api.GetModuleUserFromUserName && api.ACLCheckCommandPermissions;
  if (canAsk) w->user = throttleUserOf(ctx);
  block(ctx, w);
  ++*waitingOf(w);
  return w;
}

void throttleWait(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  int inTurn = call->reply == REPLY_IN_TURN;
  watchSleep(ctx);
  if (inTurn) watch(ctx); else waitCommand = call->command;
  throttleCaller *w = newCaller(ctx, call->command, argv, inTurn ? argc : 0);
  throttleStep step;
  noteSteps(ctx); // the slot of this caller agrees with the clock as it is
  int64_t lookEachNs = api.GetContextFlags(ctx) & CONTEXT_CLUSTER ? LOOK_EACH_NS : 0;
  throttleEnter(call, (uintptr_t)w->handle, w, throttleClockNs(), throttleMonotonicNs(), lookEachNs, &step);
  if (!step.line) step.line = newLine(step.lineID, call);
  if (step.ns >= 0) throttleTurnIn(ctx, step.ns);
}
