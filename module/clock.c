// The clocks, and steps of the one against the other.
#include "bridge.h"

// By so much the two clocks may drift apart before that counts as a step.
enum { STEP_MS = 50 };

int64_t throttleMonotonicNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t throttleMsAfter(int64_t ns) { return ns > 0 ? ns / MS_NS + 1 : 0; }

// By how much the wall clock is ahead of the monotonic one. Where the machine does something else between the two readings for as long as
// a step, it looks like one, and like one back at the next look: each line is looked at without need, which changes nothing.
static int64_t aheadOfMonotonicNs(void) { return throttleClockNs() - throttleMonotonicNs(); }

int throttleHasStepped(int isWatched) {
  static int64_t aheadNs; // as of the last step
  int64_t nowNs = aheadOfMonotonicNs(), stepNs = nowNs - aheadNs;
  if (isWatched && stepNs > -STEP_MS * (int64_t)MS_NS && stepNs < STEP_MS * (int64_t)MS_NS) return 0;
  aheadNs = nowNs;
  return isWatched;
}
