// What INFO throttle shows. The counters live in C: the server also asks for them in
// the crash report, from a signal handler, where Go must not run.
#include "line.h"
#include "server.h"
#include "stats.h"

#include <stdio.h>
#include <time.h>

throttleStats stats;

void throttleCountLease(const throttleMembers *members) {
  stats.leased += members->event == EVENT_LEASED;
  stats.renewed += members->event == EVENT_RENEWED;
  stats.notLeased += members->event == EVENT_NOT_LEASED;
  stats.released += (uint64_t)members->released;
  stats.lapsed += (uint64_t)members->found;
}

// Shows how often each command that has keys was called. Another name of a command counts as that.
static void infoCalls(RedisModuleInfoCtx *ctx) {
  uint64_t calls[MAX_COMMANDS] = {0}, total = 0;
  for (int i = 0; i < throttleCommandCount; i++) {
    if (throttleCommands[i].keys == KEYS_NONE) continue;
    calls[throttleCommands[i].countsAs] += stats.calls[i];
    total += stats.calls[i];
  }
  api.InfoAddFieldULongLong(ctx, "calls", total);
  for (int i = 0; i < throttleCommandCount; i++) {
    const throttleTraits *traits = &throttleCommands[i];
    if (traits->keys != KEYS_NONE && traits->countsAs == i) api.InfoAddFieldULongLong(ctx, traits->counter, calls[i]);
  }
}

static void info(RedisModuleInfoCtx *ctx, int forCrashReport) {
  if (forCrashReport) throttleStopGoThreads();
  api.InfoAddSection(ctx, "");
  api.InfoAddFieldCString(ctx, "version", stats.version);
  api.InfoAddFieldCString(ctx, "zone_data", stats.zoneData);
  api.InfoAddFieldCString(ctx, "zone_data_source", stats.zoneSource);
  api.InfoAddFieldULongLong(ctx, "zone_data_unix_time", stats.zoneTime);
  api.InfoAddFieldULongLong(ctx, "zone_data_checksum", stats.zoneChecksum);
  api.InfoAddFieldULongLong(ctx, "since_unix_time", stats.sinceUnixTime);
  infoCalls(ctx);
  api.InfoAddFieldULongLong(ctx, "allowed", stats.tallies[TALLY_ALLOWED]);
  api.InfoAddFieldULongLong(ctx, "limited", stats.tallies[TALLY_LIMITED]);
  api.InfoAddFieldULongLong(ctx, "shadowed", stats.shadowed);
  api.InfoAddFieldULongLong(ctx, "refunded_units", stats.refundedUnits);
  api.InfoAddFieldULongLong(ctx, "waiting", stats.waiting);
  api.InfoAddFieldULongLong(ctx, "waited", stats.waited);
  api.InfoAddFieldULongLong(ctx, "wait_left", stats.waitLeft);
  api.InfoAddFieldULongLong(ctx, "leases_granted", stats.leased);
  api.InfoAddFieldULongLong(ctx, "leases_renewed", stats.renewed);
  api.InfoAddFieldULongLong(ctx, "leases_limited", stats.notLeased);
  api.InfoAddFieldULongLong(ctx, "leases_released", stats.released);
  api.InfoAddFieldULongLong(ctx, "leases_lapsed", stats.lapsed);
  api.InfoAddFieldULongLong(ctx, "leases_waiting", stats.leasesWaiting);
  api.InfoAddFieldULongLong(ctx, "max_waiting", throttleMaxWaiting == UINT64_MAX ? 0 : throttleMaxWaiting);
  api.InfoAddFieldULongLong(ctx, "turned_away", stats.turnedAway);
  api.InfoAddFieldULongLong(ctx, "settled", stats.tallies[TALLY_SETTLED]);
  api.InfoAddFieldULongLong(ctx, "not_settled", stats.tallies[TALLY_NOT_SETTLED]);
#ifdef THROTTLE_CHECK
  api.InfoAddFieldULongLong(ctx, "looks", stats.looks);
  api.InfoAddFieldULongLong(ctx, "turns", stats.turns);
  api.InfoAddFieldULongLong(ctx, "carriers", stats.carriers);
#endif
  api.InfoAddFieldULongLong(ctx, "errors_arity", stats.errorsArity);
  api.InfoAddFieldULongLong(ctx, "errors_argument", stats.errorsArgument);
  api.InfoAddFieldULongLong(ctx, "errors_wrongtype", stats.errorsWrongType);
  api.InfoAddFieldULongLong(ctx, "errors_internal", stats.errorsInternal);
}

void throttleShowZones(const char *version, const char *source, uint64_t unixTime, uint64_t checksum) {
  snprintf(stats.zoneData, sizeof stats.zoneData, "%s", version);
  snprintf(stats.zoneSource, sizeof stats.zoneSource, "%s", source);
  stats.zoneTime = unixTime;
  stats.zoneChecksum = checksum;
}

int throttleRegisterInfo(RedisModuleCtx *ctx, const char *version) {
  stats = (throttleStats){.sinceUnixTime = (uint64_t)time(NULL)};
  snprintf(stats.version, sizeof stats.version, "%s", version);
  return api.RegisterInfoFunc(ctx, info);
}
