// Forked children, which have none of the threads of the Go runtime but the one that forked. If another held Go's only
// processor at that moment, a call into Go would wait for it for ever. So no code of a child enters Go.
#include <pthread.h>

#include "line.h"
#include "run.h"
#include "server.h"

int throttleIsForked;

// Every command looks at throttleCreating, and every event at throttleAllLines.
static void leaveGoAlone(void) {
  static const throttleCall none;
  throttleIsForked = 1;
  throttleCreating = &none;
  throttleAllLines = 0;
}

__attribute__((constructor)) static void watchForks(void) { pthread_atfork(NULL, NULL, leaveGoAlone); }
