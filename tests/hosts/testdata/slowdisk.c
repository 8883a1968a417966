// Makes fsync and fdatasync take longer in the program it is preloaded into. The file that THROTTLE_TEST_SLOWDISK names
// holds for how many nanoseconds, 8 bytes for each host; THROTTLE_TEST_SLOWDISK_HOST is this one's number.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

static const int64_t *slowness;

// Ends a program whose disk would never be slow, since its test would check nothing.
__attribute__((constructor)) static void mapSlowness(void) {
  const char *path = getenv("THROTTLE_TEST_SLOWDISK"), *host = getenv("THROTTLE_TEST_SLOWDISK_HOST");
  struct stat file;
  int fd = path && host ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *at = fd < 0 || fstat(fd, &file) ? MAP_FAILED : mmap(NULL, file.st_size, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    perror("the file that THROTTLE_TEST_SLOWDISK names");
    _exit(1);
  }
  close(fd);
  slowness = (const int64_t *)at + atoi(host);
}

static void linger(void) {
  int64_t ns = slowness ? __atomic_load_n(slowness, __ATOMIC_ACQUIRE) : 0;
  struct timespec left = {ns / NS_PER_S, ns % NS_PER_S};
  if (ns > 0) nanosleep(&left, NULL);
}

#define SLOW(name)                                          \
  int name(int fd) {                                        \
    static int (*next)(int);                                \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name);   \
    linger();                                               \
    return next(fd);                                        \
  }
SLOW(fsync)
SLOW(fdatasync)
