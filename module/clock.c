// The clocks, and steps of the one against the other.
#include "server.h"

// By so much the two clocks may drift apart before that counts as a step.
enum { STEP_MS = 50 };

int64_t throttleMonotonicNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t throttleMsAfter(int64_t ns) { return ns > 0 ? ns / MS_NS + 1 : 0; }

int throttleHasStepped(int isWatched) {
  static int64_t aheadNs; // as of the last step
  // The process may stand still between two readings. So it is only known between which bounds the clock has stepped.
  int64_t beforeNs = throttleMonotonicNs(), wallNs = throttleClockNs(), afterNs = throttleMonotonicNs();
  int64_t mostNs = wallNs - beforeNs - aheadNs, leastNs = wallNs - afterNs - aheadNs;
  if (isWatched && mostNs > -STEP_MS * (int64_t)MS_NS && leastNs < STEP_MS * (int64_t)MS_NS) return 0;
  aheadNs = wallNs - beforeNs;
  return isWatched;
}
