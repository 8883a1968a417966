// The least that a module can do for each kind of call: what the server's API forces on
// it, and nothing else. The benchmark compiles this and sets the commands beside it. As
// part of a Go library (floor.go) each call also goes into Go and back.
#include <stddef.h>
#include <string.h>

typedef struct Ctx Ctx;
typedef struct Key Key;
typedef struct String String;
typedef int Command(Ctx *ctx, String **argv, int argc);

enum { READ = 1, WRITE = 2 };

static int (*SetModuleAttribs)(Ctx *, const char *name, int version, int apiVersion);
static int (*CreateCommand)(Ctx *, const char *name, Command *, const char *flags, int firstKey, int lastKey, int step);
static Key *(*OpenKey)(Ctx *, String *name, int mode);
static void (*CloseKey)(Key *);
static char *(*StringDMA)(Key *, size_t *length, int mode);
static int (*ReplicateVerbatim)(Ctx *);
static int (*ReplyWithArray)(Ctx *, long length);
static int (*ReplyWithMap)(Ctx *, long pairs);
static int (*ReplyWithStringBuffer)(Ctx *, const char *, size_t length);
static int (*ReplyWithLongLong)(Ctx *, long long);

enum { INTEGERS = 5, FIELDS = 10 };
static const char *const names[FIELDS] = {
    "limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms", "shadow",
};

// Commands read the value that the benchmark has SET; one that allows writes it again, as
// long as it was, where it lies. What was written is counted, for the save points.
#ifdef FLOOR_IN_GO
extern void floorCross(void);
#else
static void floorCross(void) {}
#endif

static int call(Ctx *ctx, String *name, int limited, int fields) {
  Key *key = OpenKey(ctx, name, limited ? READ : READ | WRITE);
  if (!key) return ReplyWithLongLong(ctx, -1);
  size_t length;
  char value[64], *bytes = StringDMA(key, &length, READ);
  if (length > sizeof value) length = sizeof value;
  memcpy(value, bytes, length);
  floorCross();
  if (!limited) {
    memcpy(StringDMA(key, &length, WRITE), value, length);
    ReplicateVerbatim(ctx);
  }
  CloseKey(key);
  if (!fields) ReplyWithArray(ctx, INTEGERS);
  else if (ReplyWithMap) ReplyWithMap(ctx, FIELDS);
  else ReplyWithArray(ctx, 2 * FIELDS);
  for (int i = 0; i < (fields ? FIELDS : INTEGERS); i++) {
    if (fields) ReplyWithStringBuffer(ctx, names[i], strlen(names[i]));
    ReplyWithLongLong(ctx, i ? value[i] : limited);
  }
  return 0;
}

// The arrays of EACH for three limits, behind a denial. Their numbers are those of RATE 1000/m RATE 100000/h RATE
// 1000000/d.
static int each(Ctx *ctx, String **argv, int argc) {
  (void)argc;
  Key *key = OpenKey(ctx, argv[1], READ);
  if (!key) return ReplyWithLongLong(ctx, -1);
  size_t length;
  StringDMA(key, &length, READ);
  CloseKey(key);
  static const long long arrays[3][INTEGERS] = {{0, 1000, 999, -1, 60}, {0, 100000, 99999, -1, 36}, {0, 1000000, 999999, -1, 87}};
  ReplyWithArray(ctx, INTEGERS + 3);
  for (int i = 0; i < INTEGERS; i++) ReplyWithLongLong(ctx, i ? (long long)length : 1);
  for (int limit = 0; limit < 3; limit++) {
    ReplyWithArray(ctx, INTEGERS);
    for (int i = 0; i < INTEGERS; i++) ReplyWithLongLong(ctx, arrays[limit][i]);
  }
  return 0;
}

static int allowed(Ctx *ctx, String **argv, int argc) { return (void)argc, call(ctx, argv[1], 0, 0); }
static int denied(Ctx *ctx, String **argv, int argc) { return (void)argc, call(ctx, argv[1], 1, 0); }
static int allowedFields(Ctx *ctx, String **argv, int argc) { return (void)argc, call(ctx, argv[1], 0, 1); }
static int deniedFields(Ctx *ctx, String **argv, int argc) { return (void)argc, call(ctx, argv[1], 1, 1); }

int RedisModule_OnLoad(Ctx *ctx) {
  int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx; // the first word of every context
#define GET(name) get("RedisModule_" #name, (void *)&name)
  if (GET(SetModuleAttribs) | GET(CreateCommand) | GET(OpenKey) | GET(CloseKey) | GET(StringDMA) |
      GET(ReplicateVerbatim) | GET(ReplyWithArray) | GET(ReplyWithStringBuffer) | GET(ReplyWithLongLong)) return 1;
  GET(ReplyWithMap); // since Redis 7.0
  return SetModuleAttribs(ctx, "floor", 1, 1) | CreateCommand(ctx, "floor.allowed", allowed, "write fast", 1, 1, 1) |
         CreateCommand(ctx, "floor.denied", denied, "write fast", 1, 1, 1) | CreateCommand(ctx, "floor.allowed.fields", allowedFields, "write fast", 1, 1, 1) |
         CreateCommand(ctx, "floor.denied.fields", deniedFields, "write fast", 1, 1, 1) |
         CreateCommand(ctx, "floor.each", each, "write fast", 1, 1, 1);
}
