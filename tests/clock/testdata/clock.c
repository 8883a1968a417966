// Gives the program it is preloaded into the wall clock that a test has set. The file that
// THROTTLE_TEST_CLOCK names holds it: nanoseconds since the epoch, 8 bytes, mapped by both; 0 is the kernel's clock,
// which runs. Behind it stand, for each host, the nanoseconds by which its clock is ahead; THROTTLE_TEST_CLOCK_HOST is
// its number. Then come how long the process stands still, in nanoseconds, whenever it has read the clock, and how many
// readings are left before the clock of whoever reads steps, and by how many nanoseconds.
//
// Every other clock stays the kernel's: the event loop and its timers go by the monotonic one,
// and so neither hang nor spin while the wall clock stands still.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

enum { HOSTS = 16, SIZE = (1 + HOSTS + 3) * sizeof(int64_t) };
static const int64_t *mapped, *standstill, *stepBy;
static int64_t *ahead, *untilStep;

// Ends a program that would go by the kernel's clock, since its test would check nothing.
__attribute__((constructor)) static void mapClock(void) {
  const char *path = getenv("THROTTLE_TEST_CLOCK");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  void *at = fd < 0 ? MAP_FAILED : mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    perror("the clock that THROTTLE_TEST_CLOCK names");
    _exit(1);
  }
  close(fd);
  const char *host = getenv("THROTTLE_TEST_CLOCK_HOST");
  mapped = at;
  ahead = (int64_t *)at + 1 + (host ? atoi(host) % HOSTS : 0);
  standstill = mapped + 1 + HOSTS;
  untilStep = (int64_t *)at + 1 + HOSTS + 1;
  stepBy = mapped + 1 + HOSTS + 2;
}

static int64_t load(const int64_t *number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }

static int64_t kernelsClock(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

// The process may stand still between any two instructions: both numbers are of one instant only
// when the clock has not moved meanwhile.
static int64_t hostsClock(void) {
  for (;;) {
    int64_t now = load(mapped), by = load(ahead);
    if (load(mapped) == now) return (now ? now : kernelsClock()) + by;
  }
}

static void countReading(void) {
  if (load(untilStep) > 0 && __atomic_sub_fetch(untilStep, 1, __ATOMIC_SEQ_CST) == 0) __atomic_add_fetch(ahead, load(stepBy), __ATOMIC_SEQ_CST);
}

static int isWall(clockid_t id) { return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE; }

int clock_gettime(clockid_t id, struct timespec *out) {
  if (!mapped || !isWall(id)) return (int)syscall(SYS_clock_gettime, id, out);
  int64_t now = hostsClock();
  countReading();
  out->tv_sec = now / NS_PER_S;
  out->tv_nsec = now % NS_PER_S;
  int64_t ns = load(standstill);
  if (ns) nanosleep(&(struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S}, NULL);
  return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

// Some servers read the wall clock once in a millisecond and add what a counter of the processor has
// moved since. They learn from this file whether the counter can be trusted, and ask every time when they
// cannot read it.
#define HIDE_CPUINFO(name)                                                     \
  FILE *name(const char *restrict path, const char *restrict mode) {           \
    static FILE *(*next)(const char *restrict, const char *restrict);          \
    if (strcmp(path, "/proc/cpuinfo") == 0) return NULL;                       \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name);                      \
    return next(path, mode);                                                   \
  }
HIDE_CPUINFO(fopen)
HIDE_CPUINFO(fopen64)

// Some servers bind a module to the C library before anything that was preloaded (Valkey 8.1 and later). The module
// would then go by another clock than its server.
void *dlopen(const char *path, int flags) {
  static void *(*next)(const char *, int);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
  return next(path, flags & ~RTLD_DEEPBIND);
}
