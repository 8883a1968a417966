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

#include "bridge.h"

enum { MAX_THREADS = 64, SIGNAL_STACK = 4 * 1024 * 1024 };

static pid_t before[MAX_THREADS], goThreads[MAX_THREADS];
static int beforeCount, goCount;

static int listThreads(pid_t *threads) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) return 0;
  for (struct dirent *task; count < MAX_THREADS && (task = readdir(tasks));) {
    pid_t thread = atoi(task->d_name);
    if (thread > 0) threads[count++] = thread;
  }
  closedir(tasks);
  return count;
}

static void giveSignalStack(void) {
  stack_t stack;
  if (sigaltstack(NULL, &stack) != 0 || !(stack.ss_flags & SS_DISABLE)) return;
  // Shared memory is not taken for anonymous. A forked child has use for it only if it
  // crashes as well, at the same time.
  stack.ss_sp = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (stack.ss_sp == MAP_FAILED) return;
  stack.ss_size = SIGNAL_STACK;
  stack.ss_flags = 0;
  sigaltstack(&stack, NULL);
}

void throttlePrepareForCrash(void) {
  beforeCount = listThreads(before);
  giveSignalStack();
}

void throttleNoteGoThreads(void) {
  if (goCount > 0) return; // the module was loaded before, and Go with it
  pid_t now[MAX_THREADS];
  int nowCount = listThreads(now);
  for (int i = 0; i < nowCount; i++) {
    int known = 0;
    for (int j = 0; j < beforeCount; j++) known |= now[i] == before[j];
    if (!known) goThreads[goCount++] = now[i];
  }
}

static void stop(int signal) {
  (void)signal;
  for (;;) pause();
}

// Called in the handler of a fatal signal: no allocation, no lock.
void throttleStopGoThreads(void) {
  struct sigaction action = {.sa_handler = stop, .sa_flags = SA_ONSTACK};
  sigfillset(&action.sa_mask);
  sigaction(SIGPWR, &action, NULL);
  for (int i = 0; i < goCount; i++) syscall(SYS_tgkill, getpid(), goThreads[i], SIGPWR);
}
