// How many lines there are, and how many callers may wait in them: throttle.max-waiting. For each the server keeps two
// clients with buffers, which it counts as data: it evicts keys for them, or refuses writes. There is no other way to
// block a client.
#include <stdio.h>

#include "line.h"
#include "server.h"

// What a caller takes at most beside its connection, in bytes (Redis 7.0; see docs/operating.md), and which part of
// maxmemory all of them may take.
enum { CALLER_BYTES = 57000, PART_OF_MAXMEMORY = 4 };
enum { LEAST_BY_MEMORY = 100, WITHOUT_MAXMEMORY = 10000 };
enum { LOG_EACH_MS = 60 * 1000 };

uint64_t throttleMaxWaiting = WITHOUT_MAXMEMORY;

// How many lines there are of keys with a hash, so that what happens to any other key costs no call into Go.
enum { COUNTS = 1024 };
static uint32_t lineCounts[COUNTS];
uint32_t throttleAllLines;

static uint32_t *countOf(int db, const RedisModuleString *name) {
  size_t length;
  const char *bytes = api.StringPtrLen(name, &length);
  uint32_t hash = (uint32_t)db + (uint32_t)length;
  for (size_t i = length > 16 ? length - 16 : 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
  return &lineCounts[(hash ^ hash >> 16) % COUNTS];
}

int throttleMayHaveLine(int db, const RedisModuleString *name) { return throttleAllLines && *countOf(db, name); }

void throttleCountLine(int db, const RedisModuleString *name, int more) {
  throttleAllLines += (uint32_t)more;
  *countOf(db, name) += (uint32_t)more;
}

static int isByMemory; // throttle.max-waiting says so

static uint64_t maxmemory(void) {
  int failed = 0;
  RedisModuleServerInfoData *info = api.GetServerInfo(NULL, "memory");
  unsigned long long bytes = api.ServerInfoGetFieldUnsigned(info, "maxmemory", &failed);
  api.FreeServerInfo(NULL, info);
  return failed ? 0 : bytes;
}

static uint64_t fitInto(uint64_t bytes) {
  uint64_t callers = bytes / PART_OF_MAXMEMORY / CALLER_BYTES;
  if (!bytes) return WITHOUT_MAXMEMORY;
  return callers < LEAST_BY_MEMORY ? LEAST_BY_MEMORY : callers;
}

void throttleLookAtMaxmemory(void) {
  if (isByMemory) throttleMaxWaiting = fitInto(maxmemory());
}

void throttleSetMaxWaiting(long long callers) {
  isByMemory = callers == MAX_WAITING_BY_MEMORY;
  throttleMaxWaiting = callers ? (uint64_t)callers : UINT64_MAX;
  throttleLookAtMaxmemory();
}

void throttleTurnAway(RedisModuleCtx *ctx) {
  static int64_t logNs; // when it may be logged again
  stats.turnedAway++;
  int64_t nowNs = throttleMonotonicNs();
  if (nowNs < logNs) return;
  logNs = nowNs + LOG_EACH_MS * (int64_t)MS_NS;
  char text[256];
  snprintf(text, sizeof text, "throttle.max-waiting: %llu callers wait in line, so others that would wait are limited at once, %llu so far",
           (unsigned long long)throttleMaxWaiting, (unsigned long long)stats.turnedAway);
  throttleLog(ctx, "warning", text);
}
