// How a command describes itself to the server (COMMAND DOCS, COMMAND INFO and the
// hints of redis-cli), declared from the documentation of RedisModule_SetCommandInfo.
#ifndef THROTTLE_INFO_H
#define THROTTLE_INFO_H

#include <stddef.h>
#include <stdint.h>

enum { INFO_VERSION = 1 };
enum { ARG_STRING, ARG_INTEGER, ARG_DOUBLE, ARG_KEY, ARG_PATTERN, ARG_UNIX_TIME, ARG_PURE_TOKEN, ARG_ONEOF, ARG_BLOCK };
enum { ARG_OPTIONAL = 1 << 0, ARG_MULTIPLE = 1 << 1 };
enum { KEY_SPEC_INDEX = 2, KEY_SPEC_KEYNUM = 3 };
enum {
  KEY_RO = 1 << 0,
  KEY_RW = 1 << 1,
  KEY_ACCESS = 1 << 4,
  KEY_UPDATE = 1 << 5,
};

typedef struct commandArg {
  const char *name;
  int type;
  int keySpecIndex;
  const char *token;
  const char *summary;
  const char *since;
  int flags;
  const char *deprecatedSince;
  struct commandArg *subargs;
  const char *displayText;
} commandArg;

typedef struct {
  const char *since;
  const char *changes;
} commandHistory;

typedef struct {
  const char *notes;
  uint64_t flags;
  int beginSearchType;
  union {
    struct {
      int position;
    } index;
    struct {
      const char *keyword;
      int startFrom;
    } keyword;
  } begin;
  int findKeysType;
  union {
    struct {
      int lastKey, keyStep, limit;
    } range;
    struct {
      int keyNumIndex, firstKey, keyStep;
    } keyNum;
  } find;
} commandKeySpec;

// The sizes of the structures above, by which a server reads those of another version.
typedef struct {
  int version;
  size_t sizeofHistory;
  size_t sizeofKeySpec;
  size_t sizeofArg;
} commandInfoVersion;

typedef struct {
  const commandInfoVersion *version;
  const char *summary;
  const char *complexity;
  const char *since;
  commandHistory *history;
  const char *tips;
  int arity;
  commandKeySpec *keySpecs;
  commandArg *args;
} commandInfo;

// How the server finds keys: one, which is the first argument, or as many as that says, behind it. What is 0 in a spec
// is left alone: it is all zeros at first, and of one key nothing more needs to be said.
static inline void throttleFindKeys(commandKeySpec *spec, int areCounted) {
  spec->beginSearchType = KEY_SPEC_INDEX;
  spec->begin.index.position = 1;
  if (!areCounted) return;
  spec->findKeysType = KEY_SPEC_KEYNUM;
  spec->find.keyNum.firstKey = 1;
  spec->find.keyNum.keyStep = 1;
}

#endif
