// Callers of CL.WAIT that wait: blocked by the server, woken by its timers, one timer
// for each key. Who waits for what, and until when, is Go's (package queue).
#include "bridge.h"

#include "_cgo_export.h"

// What the bridge keeps of a line, while somebody is in it.
typedef struct {
  RedisModuleString *name;
  RedisModuleTimerID timer; // 0 when none is set
  int db;
} waitLine;

// The server's event loop takes the time until the next timer as an int of milliseconds,
// and up to Redis 7.0 multiplies it by 1000 in 32 bits: from 35.8 minutes (24.8 days on later
// servers) it spins, or sleeps past the timer. So no timer is set for longer than this;
// a caller that is not due by then is looked at again.
enum { LONGEST_TIMER_MS = 5 * 60 * 1000 };

enum { RETRY_PAUSED_MS = 20 };

static int waitCommand; // the index of CL.WAIT, once somebody has waited

static waitLine *lineAt(int index) { return (waitLine *)throttleOwner(index); }

static void wake(RedisModuleCtx *ctx, void *data);

static void stopTimer(RedisModuleCtx *ctx, waitLine *line) {
  if (line->timer) api.StopTimer(ctx, line->timer, NULL);
}

static void startTimer(RedisModuleCtx *ctx, int index, int64_t delayMs) {
  if (delayMs > LONGEST_TIMER_MS) delayMs = LONGEST_TIMER_MS;
  lineAt(index)->timer = api.CreateTimer(ctx, delayMs, wake, (void *)(intptr_t)index);
}

// Sets the timer for the next caller in line, or for slots that are to be given back, as
// early as earliestMs from now. Clears away a line that is empty.
static void setNextTimer(RedisModuleCtx *ctx, int index, int64_t earliestMs) {
  waitLine *line = lineAt(index);
  stopTimer(ctx, line);
  int64_t nextNs = throttleNext(index);
  if (nextNs >= 0) {
    int64_t delayMs = throttleMsAfter(nextNs - throttleClockNs());
    if (delayMs > earliestMs && throttleSomebodyLeft(index)) delayMs = earliestMs;
    startTimer(ctx, index, delayMs);
    return;
  }
  api.FreeString(NULL, line->name);
  api.Free(line);
}

static throttleCall *beginOutside(throttleSingle *single, RedisModuleCtx *ctx, RedisModuleString *name) {
  throttleCall *call = throttleBeginSingle(single, waitCommand, 1, &name);
  call->isOutside = 1;
  call->nowNs = throttleClockNs();
  call->db = api.GetSelectedDb(ctx);
  return call;
}

// Writes the line's key as it is without those who left. On a replica the key is its
// master's, and the slots lapse. It returns in how many milliseconds to try again what
// could not be written now.
static int64_t giveBack(RedisModuleCtx *ctx, int index) {
  if (!throttleSomebodyLeft(index)) return 0;
  waitLine *line = lineAt(index);
  int isMaster = api.GetContextFlags(ctx) & CONTEXT_MASTER;
  if (isMaster && api.AvoidReplicaTraffic && api.AvoidReplicaTraffic()) return RETRY_PAUSED_MS;
  int db = api.GetSelectedDb(ctx);
  api.SelectDb(ctx, line->db);
  throttleSingle single;
  throttleCall *call = beginOutside(&single, ctx, line->name);
  throttleOpenKeys(call, ctx, isMaster ? OPEN_READ | OPEN_WRITE : OPEN_READ);
  throttleGiveBack(index, call);
  if (!isMaster) call->keys->effect = EFFECT_KEEP;
  throttleApply(call, ctx);
  api.SelectDb(ctx, db);
  return call->panicked ? LONGEST_TIMER_MS : 0;
}

// Slots that cannot be given back now are so later; callers who are due are answered all
// the same.
static void wake(RedisModuleCtx *ctx, void *data) {
  int index = (int)(intptr_t)data;
  lineAt(index)->timer = 0;
  int64_t againMs = giveBack(ctx, index);
  int64_t nowNs = throttleClockNs(), waitedNs;
  uintptr_t caller;
  while ((caller = throttleDue(index, nowNs, &waitedNs))) {
    // Counted here: a client may be gone before its answer is written.
    stats.waiting--;
    stats.waited++;
    stats.allowed++;
    api.UnblockClient((RedisModuleBlockedClient *)caller, (void *)(uintptr_t)waitedNs);
  }
  setNextTimer(ctx, index, againMs);
}

// The reply of one who is no longer blocked.
static int answer(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, int granted, int64_t waitedNs) {
  throttleSingle single;
  throttleCall *call = beginOutside(&single, ctx, argv[1]);
  throttleGatherArgs(call, argv, argc, MAX_ARGS);
  throttleOpenKeys(call, ctx, OPEN_READ);
  throttleAnswer(call, granted, waitedNs);
  throttleApply(call, ctx);
  throttleReply(call, ctx);
  return API_OK;
}

static int onUnblocked(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  int64_t waitedNs = (int64_t)(uintptr_t)api.GetBlockedClientPrivateData(ctx);
  return answer(ctx, argv, argc, 1, waitedNs);
}

// The server has no more use for the handle: let it go, and have the slot given back
// at the next turn of the event loop, once for all who leave in this one.
static void leave(RedisModuleCtx *ctx, RedisModuleBlockedClient *caller) {
  int index = throttleLeave((uintptr_t)caller);
  if (index < 0) return;
  stats.waiting--;
  stats.waitLeft++;
  api.UnblockClient(caller, NULL);
  stopTimer(ctx, lineAt(index));
  startTimer(ctx, index, 0);
}

// CLIENT UNBLOCK. (The server's own timeout is not used: TIMEOUT is looked at when the
// call begins.)
static int onTimeout(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  answer(ctx, argv, argc, 0, 0);
  leave(ctx, api.GetBlockedClientHandle(ctx));
  return API_OK;
}

void throttleWait(throttleCall *call, RedisModuleCtx *ctx) {
  waitCommand = call->command;
  RedisModuleBlockedClient *caller = api.BlockClient(ctx, onUnblocked, onTimeout, NULL, 0);
  api.SetDisconnectCallback(caller, leave);
  throttleBlocked(call, (uintptr_t)caller);
  stats.waiting++;
  if (lineAt(call->line)) return; // those ahead have set the timer
  waitLine *line = api.Alloc(sizeof *line);
  *line = (waitLine){.name = api.CreateStringFromString(NULL, call->keys->name), .db = call->db};
  throttleSetOwner(call->line, (uintptr_t)line);
  setNextTimer(ctx, call->line, 0);
}
