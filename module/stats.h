// What is counted and logged.
#ifndef THROTTLE_STATS_H
#define THROTTLE_STATS_H

#include "call.h"

enum { MAX_ZONES_PATH = 1023, MAX_ZONES_PROBLEM = 2048 };

typedef struct {
  char version[64];
  char zoneData[40]; // the version of the time zones
  char zoneSource[MAX_ZONES_PATH + 1];
  uint64_t zoneTime, zoneChecksum;
  uint64_t sinceUnixTime;
  uint64_t calls[MAX_COMMANDS];
  uint64_t tallies[TALLIES], shadowed, refundedUnits;
  uint64_t waiting, waited, waitLeft, turnedAway;
  uint64_t looks, turns; // whether the first in turn may be let in, and turns of the lines; in INFO of the test build
  uint64_t carriers;     // of replies in one piece; in INFO of the test build
  uint64_t leased, renewed, notLeased, released, lapsed, leasesWaiting;
  uint64_t errorsArity, errorsArgument, errorsWrongType, errorsInternal;
} throttleStats;

// stats.c
extern throttleStats stats;
int throttleRegisterInfo(RedisModuleCtx *ctx, const char *version);
void throttleShowZones(const char *version, const char *source, uint64_t unixTime, uint64_t checksum);
void throttleCountLease(const throttleMembers *members);
static inline void throttleNoLease(throttleMembers *members) {
  members->event = EVENT_NONE;
  members->released = members->found = 0;
}

// log.c
void throttleLog(RedisModuleCtx *ctx, const char *level, const char *text);
// throttleSilenceGoRm keeps go-rm from logging anything until the next load.
void throttleSilenceGoRm(void);

#endif
