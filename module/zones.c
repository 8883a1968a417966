// throttle.zones: the file with the time zones, which is read when the module is loaded and never again. C reads it, so
// that Go opens no file in the server: its runtime would add threads and descriptors for that.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load.h"

#include "_cgo_export.h"

char throttleZonesProblem[MAX_ZONES_PROBLEM];

// The path, which loading the module sets. Kept over MODULE UNLOAD.
static RedisModuleString *zones;

RedisModuleString *throttleGetZones(const char *name, void *data) {
  (void)name, (void)data;
  return zones;
}

// readAll reads a file into memory that the caller frees, whether or not it fails. It returns NULL, or what is wrong. A
// pipe or a device would never end, or not even open.
static const char *readAll(const char *path, size_t max, char **content, size_t *length) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return strerror(errno);
  struct stat status = {0};
  const char *problem = NULL;
  ssize_t n = 0;
  fstat(file, &status); // does not fail, because the file is open
  if (S_ISDIR(status.st_mode)) {
    problem = "it is a folder. Pack what is in it into a zip file";
  } else if (!S_ISREG(status.st_mode)) {
    problem = "it is no regular file";
  } else if ((uint64_t)status.st_size > max) {
    problem = "it is larger than 4 MB";
  } else {
    *content = malloc((size_t)status.st_size + 1);
    // Signals do not interrupt the reading of a regular file. What is read only in part, because somebody has just made
    // the file shorter, is no zip file.
    n = *content ? read(file, *content, (size_t)status.st_size) : -1;
    if (n < 0) problem = strerror(errno);
  }
  *length = (size_t)n;
  close(file);
  return problem;
}

static int refuse(const char *path, const char *problem, RedisModuleString **error) {
  snprintf(throttleZonesProblem, sizeof throttleZonesProblem,
           "throttle.zones: the file %s cannot be used: %s. It must be a zip file of the folder zoneinfo of a system; "
           "without throttle.zones, the time zones of the module are used",
           path, problem);
  if (error) *error = api.CreateString(NULL, throttleZonesProblem, strlen(throttleZonesProblem));
  return API_ERR;
}

int throttleSetZones(const char *name, RedisModuleString *value, void *data, RedisModuleString **error) {
  (void)name, (void)data;
  size_t pathLength, length = 0;
  const char *path = api.StringPtrLen(value, &pathLength);
  char *content = NULL;
  if (pathLength > 0) {
    if (path[0] != '/') return refuse(path, "the path must be an absolute one", error);
    if (pathLength > MAX_ZONES_PATH || strlen(path) != pathLength || strpbrk(path, "\r\n")) {
      return refuse("that it names", "the path is too long, or no text", error);
    }
  }
  const char *problem = pathLength > 0 ? readAll(path, throttleMaxZonesFile(), &content, &length) : NULL;
  char *unusable = problem ? NULL : throttleUseZones((char *)path, content, length);
  if (unusable) problem = unusable;
  int result = problem ? refuse(path, problem, error) : API_OK;
  free(content);
  free(unusable);
  if (result != API_OK) return result;
  if (zones) api.FreeString(NULL, zones);
  zones = api.CreateString(NULL, path, pathLength);
  return API_OK;
}
