// Lets the threads of the Go runtime sleep.
//
// Go's monitor thread wakes every few dozen microseconds for as long as commands
// arrive, and each time takes the processor from somebody: on two cores that
// doubles the server's tail latency. The kernel may delay a thread's timers by its
// timer slack, which a thread inherits from the one that starts it. So the slack is
// raised before Go's own initialiser, an ordinary constructor, starts the first of
// its threads, and the loading thread gets its own back in throttleRestoreTimerSlack.
// Nothing here waits for a Go timer: there is none.
#include <sys/prctl.h>

#include "server.h"

enum { SLEEPY_NS = 100 * 1000 * 1000 };

static int slackBeforeNs;

__attribute__((constructor(101))) static void beforeGo(void) {
  slackBeforeNs = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  prctl(PR_SET_TIMERSLACK, SLEEPY_NS, 0, 0, 0);
  throttlePrepareForCrash();
}

void throttleRestoreTimerSlack(void) {
  if (slackBeforeNs > 0) prctl(PR_SET_TIMERSLACK, slackBeforeNs, 0, 0, 0);
}
