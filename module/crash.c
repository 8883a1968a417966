// Keeps the Go runtime out of the way of the server's crash report, which is written
// in the handler of the fatal signal and ends with a test of all anonymous memory: every
// word is overwritten and put back.
//
// The server stops its own threads for that, but knows nothing of Go's, whose monitor
// thread may wake in the middle, find nonsense and crash the report. So they are stopped.
//
// And the report is written on the signal stack of the main thread. Go would put one of
// its own there, of 32 KB and in anonymous memory, but the test alone takes 1 MB of stack.
// Go keeps a signal stack that it finds, so it finds a large one that the test passes over.
// Its pages cost nothing until they are used.
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server.h"

enum { SIGNAL_STACK = 4 * 1024 * 1024 };

static const char threads[] = "/proc/self/task";

// Made once and kept over MODULE UNLOAD, like Go's threads themselves.
static struct dirent **before, **goThreads;
static int beforeCount, goCount; // -1 where there is no /proc

static int isNew(const struct dirent *thread) {
  for (int i = 0; i < beforeCount; i++) {
    if (strcmp(thread->d_name, before[i]->d_name) == 0) return 0;
  }
  return 1;
}

// One that is there already may be too small. Shared memory is not taken for anonymous. A
// forked child has use for it only if it crashes as well, at the same time.
static void giveSignalStack(void) {
  void *room = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (room != MAP_FAILED) sigaltstack(&(stack_t){.ss_sp = room, .ss_size = SIGNAL_STACK}, NULL);
}

void throttlePrepareForCrash(void) {
  beforeCount = scandir(threads, &before, NULL, NULL);
  giveSignalStack();
}

void throttleNoteGoThreads(void) {
  if (goCount > 0) return; // the module was loaded before, and Go with it
  goCount = scandir(threads, &goThreads, isNew, NULL);
}

static void stopThread(int signal) {
  (void)signal;
  for (;;) pause();
}

// Called in the handler of a fatal signal: no allocation, no lock.
void throttleStopGoThreads(void) {
  struct sigaction action = {.sa_handler = stopThread, .sa_flags = SA_ONSTACK};
  sigfillset(&action.sa_mask);
  sigaction(SIGPWR, &action, NULL);
  for (int i = 0; i < goCount; i++) syscall(SYS_tgkill, getpid(), atoi(goThreads[i]->d_name), SIGPWR);
}
