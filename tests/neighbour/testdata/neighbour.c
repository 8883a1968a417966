// A module that runs a command whenever the server notifies of anything:
//
//   NEIGHBOUR.DO command [argument ...]   from now on; without a command, nothing any more
//   NEIGHBOUR.ON event key command [argument ...]   the same, of one event of one key only
//   NEIGHBOUR.BEFORE name command [argument ...]   the same, before each command of this name that
//                                         a module calls or a client sends
//   NEIGHBOUR.SKIP times                  so many times nothing runs yet
//   NEIGHBOUR.EXPIRED key times           adds a key that has expired already, and again whenever it is
//                                         removed for that: so many times in all
//   NEIGHBOUR.ERRNO name number           before each command and at each event of this name, errno is
//                                         set; what runs stays the same
//   NEIGHBOUR.FORMAT format               how commands are called, of which the server knows the letters: !v at first
//   NEIGHBOUR.USER name                   as whom they are called, if the format has a C
//   NEIGHBOUR.CALL command [argument ...]   runs it once, at no event
//   NEIGHBOUR.THREAD                      blocks its client until a thread has answered it: the server
//                                         then keeps the client's id for later calls
//   NEIGHBOUR.PROPAGATE command [argument ...]   to replicas and to the append-only file, and
//                                         nothing runs here: redis-cell sends its calls so
//   NEIGHBOUR.SEEN                        how often it ran, and its last error, if any
//
// What it runs may send notifications of its own; those run nothing. Nor does anything run
// while writes are paused: a read notifies of a key that is not there (keymiss), and a server
// that is made to write then ends itself.
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Reply Reply;
typedef struct Filter Filter;
typedef struct Key Key;
typedef struct Blocked Blocked;
typedef struct User User;

static void (*setModuleAttribs)(Ctx *, const char *name, int version, int apiVersion);
static int (*createCommand)(Ctx *, const char *, int (*)(Ctx *, String **, int), const char *flags, int, int, int);
static int (*subscribe)(Ctx *, int types, int (*)(Ctx *, int type, const char *event, String *key));
static Reply *(*call)(Ctx *, const char *command, const char *format, ...);
static void (*freeReply)(Reply *);
static int (*replyType)(Reply *);
static const char *(*replyText)(Reply *, size_t *length);
static const char *(*text)(const String *, size_t *length);
static String *(*keep)(Ctx *, const String *);
static void (*drop)(Ctx *, String *);
static int (*avoidReplicaTraffic)(void);
static Ctx *(*getDetachedContext)(Ctx *);
static void *(*registerFilter)(Ctx *, void (*)(Filter *), int flags);
static const String *(*filterWord)(Filter *, int index);
static Key *(*openKey)(Ctx *, String *, int mode);
static int (*setString)(Key *, String *);
static int (*setAbsExpire)(Key *, long long ms);
static void (*closeKey)(Key *);
static int (*replicate)(Ctx *, const char *command, const char *format, ...);
static Blocked *(*blockClient)(Ctx *, int (*reply)(Ctx *, String **, int), int (*timeout)(Ctx *, String **, int), void (*freeData)(Ctx *, void *),
    long long timeoutMs);
static int (*unblockClient)(Blocked *, void *);
static Ctx *(*getThreadContext)(Blocked *);
static void (*freeThreadContext)(Ctx *);
static void (*lock)(Ctx *);
static void (*unlock)(Ctx *);
static User *(*getUser)(String *name);
static void (*setUser)(Ctx *, const User *);
static int (*replyArray)(Ctx *, long);
static int (*replyInteger)(Ctx *, long long);
static int (*replyWord)(Ctx *, const char *);

static const struct {
  const char *name;
  void *function;
} functions[] = {
    {"SetModuleAttribs", &setModuleAttribs},
    {"CreateCommand", &createCommand},
    {"SubscribeToKeyspaceEvents", &subscribe},
    {"Call", &call},
    {"FreeCallReply", &freeReply},
    {"CallReplyType", &replyType},
    {"CallReplyStringPtr", &replyText},
    {"StringPtrLen", &text},
    {"HoldString", &keep},
    {"FreeString", &drop},
    {"AvoidReplicaTraffic", &avoidReplicaTraffic},
    {"GetDetachedThreadSafeContext", &getDetachedContext},
    {"RegisterCommandFilter", &registerFilter},
    {"CommandFilterArgGet", &filterWord},
    {"OpenKey", &openKey},
    {"StringSet", &setString},
    {"SetAbsExpire", &setAbsExpire},
    {"CloseKey", &closeKey},
    {"Replicate", &replicate},
    {"BlockClient", &blockClient},
    {"UnblockClient", &unblockClient},
    {"GetThreadSafeContext", &getThreadContext},
    {"FreeThreadSafeContext", &freeThreadContext},
    {"ThreadSafeContextLock", &lock},
    {"ThreadSafeContextUnlock", &unlock},
    {"ReplyWithArray", &replyArray},
    {"ReplyWithLongLong", &replyInteger},
    {"ReplyWithSimpleString", &replyWord},
};

// Since Redis 7.0.
static const struct {
  const char *name;
  void *function;
} newer[] = {
    {"GetModuleUserFromUserName", &getUser},
    {"SetContextUser", &setUser},
};

enum { OK = 0, ERR = 1, REPLY_ERROR = 1, MAX_WORDS = 64, READ_AND_WRITE = 3, ANY_EVENT = 0x7ffc };

static String *words[MAX_WORDS];
static int wordCount, nested, skipped;
static String *onlyEvent, *onlyKey; // NULL for any
static String *before;              // the name of the command before which to run, in place of events
static String *spoils;              // the name of the command or event at which to set errno
static int spoilt;                  // the errno
static String *expiring;            // the key that is to be added again whenever it expires
static int expiriesLeft;            // how often
static Ctx *own;                    // for a filter, which has none
static char format[8] = "!v";
static User *user;                  // NULL for none
static long long seen;
static char lastError[256];

static void run(Ctx *ctx) {
  if (skipped > 0) {
    skipped--;
    return;
  }
  nested = 1;
  seen++;
  if (user) setUser(ctx, user);
  Reply *reply = call(ctx, text(words[0], NULL), format, words + 1, (size_t)(wordCount - 1));
  if (!reply) {
    snprintf(lastError, sizeof lastError, "the server refuses the call");
  } else if (replyType(reply) == REPLY_ERROR) {
    size_t length;
    const char *error = replyText(reply, &length);
    snprintf(lastError, sizeof lastError, "%.*s", (int)length, error);
  }
  if (reply) freeReply(reply);
  if (user) setUser(ctx, NULL);
  nested = 0;
}

// Some servers delete a key instead when a command gives it an expiry that has passed; this leaves it to the next one
// that opens the key.
static void addExpired(Ctx *ctx, String *name) {
  Key *key = openKey(ctx, name, READ_AND_WRITE);
  setString(key, name);
  setAbsExpire(key, 1);
  closeKey(key);
  expiriesLeft--;
}

static int onEvent(Ctx *ctx, int type, const char *event, String *key) {
  (void)type;
  if (expiriesLeft && !strcmp(event, "expired") && !strcmp(text(expiring, NULL), text(key, NULL))) addExpired(ctx, key);
  if (spoils && !strcmp(text(spoils, NULL), event)) errno = spoilt;
  if (nested || before || wordCount == 0 || avoidReplicaTraffic()) return OK;
  if (onlyEvent && (strcmp(text(onlyEvent, NULL), event) || strcmp(text(onlyKey, NULL), text(key, NULL)))) return OK;
  run(ctx);
  return OK;
}

static void onFilter(Filter *filter) {
  if (spoils && !strcasecmp(text(spoils, NULL), text(filterWord(filter, 0), NULL))) errno = spoilt;
  if (nested || !before || strcasecmp(text(before, NULL), text(filterWord(filter, 0), NULL))) return;
  run(own);
}

static void replace(String **old, String *string) {
  if (*old) drop(NULL, *old);
  *old = string ? keep(NULL, string) : NULL;
}

static int start(Ctx *ctx, String *event, String *key, String *name, String **argv, int argc) {
  if (argc > MAX_WORDS) return ERR;
  for (int i = 0; i < wordCount; i++) drop(NULL, words[i]);
  wordCount = argc;
  for (int i = 0; i < wordCount; i++) words[i] = keep(NULL, argv[i]);
  replace(&onlyEvent, event);
  replace(&onlyKey, key);
  replace(&before, name);
  seen = 0;
  skipped = 0;
  lastError[0] = 0;
  return ctx ? replyWord(ctx, "OK") : OK;
}

static int doCommand(Ctx *ctx, String **argv, int argc) { return start(ctx, NULL, NULL, NULL, argv + 1, argc - 1); }

static int onCommand(Ctx *ctx, String **argv, int argc) {
  return argc < 4 ? ERR : start(ctx, argv[1], argv[2], NULL, argv + 3, argc - 3);
}

static int beforeCommand(Ctx *ctx, String **argv, int argc) {
  return argc < 3 ? ERR : start(ctx, NULL, NULL, argv[1], argv + 2, argc - 2);
}

static int skipCommand(Ctx *ctx, String **argv, int argc) {
  if (argc != 2) return ERR;
  skipped = atoi(text(argv[1], NULL));
  return replyWord(ctx, "OK");
}

static int expiredCommand(Ctx *ctx, String **argv, int argc) {
  if (argc != 3) return ERR;
  expiriesLeft = 0;
  closeKey(openKey(ctx, argv[1], READ_AND_WRITE)); // which removes it if it has expired
  replace(&expiring, argv[1]);
  expiriesLeft = atoi(text(argv[2], NULL));
  if (expiriesLeft) addExpired(ctx, argv[1]);
  return replyWord(ctx, "OK");
}

static int errnoCommand(Ctx *ctx, String **argv, int argc) {
  if (argc != 3) return ERR;
  replace(&spoils, argv[1]);
  spoilt = atoi(text(argv[2], NULL));
  return replyWord(ctx, "OK");
}

static int formatCommand(Ctx *ctx, String **argv, int argc) {
  if (argc != 2) return ERR;
  snprintf(format, sizeof format, "%s", text(argv[1], NULL));
  return replyWord(ctx, "OK");
}

static int userCommand(Ctx *ctx, String **argv, int argc) {
  if (argc != 2 || !getUser) return ERR;
  user = getUser(argv[1]); // stays until the server ends
  return replyWord(ctx, "OK");
}

static int callCommand(Ctx *ctx, String **argv, int argc) {
  if (argc < 2 || start(NULL, NULL, NULL, NULL, argv + 1, argc - 1) != OK) return ERR;
  run(ctx);
  for (int i = 0; i < wordCount; i++) drop(NULL, words[i]);
  wordCount = 0;
  return replyWord(ctx, "OK");
}

static int answerDone(Ctx *ctx, String **argv, int argc) {
  (void)argv, (void)argc;
  return replyWord(ctx, "OK");
}

static void *work(void *data) {
  Blocked *blocked = data;
  Ctx *ctx = getThreadContext(blocked);
  lock(ctx);
  unlock(ctx);
  freeThreadContext(ctx);
  unblockClient(blocked, NULL);
  return NULL;
}

static int threadCommand(Ctx *ctx, String **argv, int argc) {
  (void)argv, (void)argc;
  pthread_t thread;
  Blocked *blocked = blockClient(ctx, answerDone, NULL, NULL, 0);
  if (pthread_create(&thread, NULL, work, blocked)) return ERR;
  return pthread_detach(thread);
}

static int propagateCommand(Ctx *ctx, String **argv, int argc) {
  if (argc < 2 || replicate(ctx, text(argv[1], NULL), "v", argv + 2, (size_t)(argc - 2)) != OK) return ERR;
  return replyWord(ctx, "OK");
}

static int seenCommand(Ctx *ctx, String **argv, int argc) {
  (void)argv, (void)argc;
  replyArray(ctx, 2);
  replyInteger(ctx, seen);
  return replyWord(ctx, lastError);
}

int RedisModule_OnLoad(Ctx *ctx) {
  int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    char name[64];
    snprintf(name, sizeof name, "RedisModule_%s", functions[i].name);
    if (get(name, functions[i].function) != OK) return ERR;
  }
  for (size_t i = 0; i < sizeof newer / sizeof *newer; i++) {
    char name[64];
    snprintf(name, sizeof name, "RedisModule_%s", newer[i].name);
    get(name, newer[i].function);
  }
  setModuleAttribs(ctx, "neighbour", 1, 1);
  if (createCommand(ctx, "neighbour.do", doCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.on", onCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.before", beforeCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.skip", skipCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.expired", expiredCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.errno", errnoCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.format", formatCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.user", userCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.call", callCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.thread", threadCommand, "", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.propagate", propagateCommand, "write", 0, 0, 0) != OK) return ERR;
  if (createCommand(ctx, "neighbour.seen", seenCommand, "", 0, 0, 0) != OK) return ERR;
  own = getDetachedContext(ctx);
  if (!registerFilter(ctx, onFilter, 0)) return ERR;
  return subscribe(ctx, ANY_EVENT, onEvent);
}
