// The one timer of the server that the module uses. Everything that has to be done later is done in a turn of
// throttleTurn, which says when the next one is due.
//
// The server sets its timers by the wall clock, and sleeps by the monotonic one until the first of them, whichever
// module's it is. It leaves that alarm as it is when a timer is set that is not the first. So after a step of the wall
// clock it oversleeps, or holds a timer back. Here the alarm is due by the monotonic clock. When it is late, the cron
// does the turn in its place.
#include "line.h"
#include "server.h"

// The event loop keeps the time until the next timer as an int of milliseconds, and up to Redis 7.0 multiplies it by
// 1000 in 32 bits. From 35.8 minutes (24.8 days on later servers) it spins, or sleeps past the timer. So no timer is
// set for longer than this.
enum { LONGEST_TIMER_MS = 5 * 60 * 1000 };
// The cron may come before a timer that is due in the same turn of the event loop.
enum { LATE_MS = 20 };

static struct {
  RedisModuleTimerID timer; // 0 for none
  int64_t wallNs, monotonicNs; // when it is due, on both clocks
} alarm;

static int64_t (*turn)(RedisModuleCtx *ctx); // throttleTurn
static int isInTurn;
static int isLeftToCron; // the alarm has fired too early

void throttleSetTurn(int64_t (*of)(RedisModuleCtx *ctx)) { turn = of; }

static void stopTimer(RedisModuleCtx *ctx) {
  if (alarm.timer) api.StopTimer(ctx, alarm.timer, NULL);
  alarm.timer = 0;
}

// Whether the clock is before an instant that the server has seen pass: it was set back. The server fires all timers
// that are due by one reading of the clock. If it is set back meanwhile, a timer that is set then fires at once, and so
// does the next, for as long as the clock went back. So the cron is left to set it. Some servers count on from a
// reading for up to a millisecond.
int throttleIsSetBack(void) {
  if (throttleClockNs() >= alarm.wallNs - MS_NS) return 0;
  isLeftToCron = 1;
  return 1;
}

static void takeTurn(RedisModuleCtx *ctx) {
  stats.turns++;
  isInTurn = 1;
  int64_t ns = turn(ctx);
  isInTurn = 0;
  if (ns != INT64_MAX && !isLeftToCron) throttleTurnIn(ctx, ns);
}

static void onAlarm(RedisModuleCtx *ctx, void *data) {
  (void)data;
  alarm.timer = 0;
  if (!throttleIsSetBack()) takeTurn(ctx);
}

void throttleTurnIn(RedisModuleCtx *ctx, int64_t ns) {
  if (isInTurn) return; // which says at its end when the next one is due
  int64_t longestNs = LONGEST_TIMER_MS * (int64_t)MS_NS, delayMs = throttleMsAfter(ns < longestNs ? ns : longestNs);
  int64_t dueNs = throttleMonotonicNs() + delayMs * MS_NS;
  if (alarm.timer && alarm.monotonicNs <= dueNs) return;
  stopTimer(ctx);
  alarm.wallNs = throttleClockNs() + delayMs * MS_NS;
  alarm.monotonicNs = dueNs;
  alarm.timer = api.CreateTimer(ctx, delayMs, onAlarm, NULL);
}

int throttleNoteSteps(RedisModuleCtx *ctx, int isWatched) {
  if (!throttleHasStepped(isWatched) && !isLeftToCron) return 0;
  if (!isInTurn) isLeftToCron = 0;
  stopTimer(ctx); // it is right by neither clock
  throttleTurnIn(ctx, 0);
  return 1;
}

void throttleKeepTime(RedisModuleCtx *ctx) {
  if (!alarm.timer || throttleMonotonicNs() < alarm.monotonicNs + LATE_MS * (int64_t)MS_NS) return;
  stopTimer(ctx);
  alarm.wallNs = 0; // no timer of ours is being fired
  takeTurn(ctx);
}
