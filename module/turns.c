// Callers that wait in line for a key, without a reservation: blocked by the server, and decided again, in
// order of arrival, when it is their turn and something may have changed. There is one timer for each line, set for
// the instant at which the limit itself says that the first may be let in. Whatever changes the key before wakes the line.
//
// The server has a machinery of its own for clients that are blocked on keys. docs/design.md says why it is not used.
#include <errno.h>

#include "bridge.h"

#include "_cgo_export.h"

typedef struct waiter waiter;

typedef struct {
  waiter *first, *last;
  int64_t count;
  int64_t slots;            // as the latest caller told; NO_SLOTS before
  RedisModuleTimerID timer; // 0 when none is set
  int isInHand;             // one of its callers is being decided
  int hasChanged;           // something happened meanwhile that may let the first in
  int db;
  RedisModuleString *name;
} throttleLine;

struct waiter {
  throttleLine *line;
  waiter *previous, *next;
  RedisModuleBlockedClient *handle;
  int64_t enteredNs;
  int64_t deadlineNs;          // when its time is over
  RedisModuleTimerID deadline; // the timer for that; 0 when there is none
  int command;
  // The answer.
  int32_t reply, count;
  int64_t integers[MAX_FIELDS];
  char error[MAX_ERROR_LEN + 1];

  int argc;
  RedisModuleString *argv[];
};

// As in wait.c. In a cluster the server looks once a second whether the slots of blocked clients are still its own, and
// so do the lines.
enum { LONGEST_TIMER_MS = 5 * 60 * 1000, LONGEST_IN_CLUSTER_MS = 1000 };
// While writes are paused, and while the server refuses them (no memory, too few replicas, a disk that is full).
enum { RETRY_PAUSED_MS = 20, RETRY_REFUSED_MS = 100 };
// So many are let in in one turn of the event loop, which is some hundred microseconds.
enum { MOST_AT_ONCE = 64 };

static const char hasMoved[] = "TRYAGAIN The slot of this key has moved to another node while the caller waited";

RedisModuleDict *throttleLines;

static RedisModuleDict *waiters; // by handle
static int isWatching;           // the server tells of changes by others

void throttleForgetLines(void) { isWatching = 0; }

// The key of a line in the dictionary of lines: calls f with it.
typedef void *(*withLineKey)(void *key, size_t length, throttleLine *line);

static void *getLine(void *key, size_t length, throttleLine *line) {
  (void)line;
  return api.DictGetC(throttleLines, key, length, NULL);
}

static void *putLine(void *key, size_t length, throttleLine *line) {
  api.DictReplaceC(throttleLines, key, length, line);
  return line;
}

static void *dropLine(void *key, size_t length, throttleLine *line) {
  api.DictDelC(throttleLines, key, length, NULL);
  return line;
}

static throttleLine *withKey(withLineKey f, int db, const RedisModuleString *name, throttleLine *line) {
  char room[256], *key = room;
  size_t length;
  const char *bytes = api.StringPtrLen(name, &length);
  size_t size = sizeof db + length;
  if (size > sizeof room) key = api.Alloc(size);
  memcpy(key, &db, sizeof db);
  memcpy(key + sizeof db, bytes, length);
  throttleLine *result = f(key, size, line);
  if (key != room) api.Free(key);
  return result;
}

static throttleLine *findLine(int db, const RedisModuleString *name) {
  return throttleLines ? withKey(getLine, db, name, NULL) : NULL;
}

static throttleLine *newLine(int db, RedisModuleString *name) {
  throttleLine *line = api.Alloc(sizeof *line);
  *line = (throttleLine){.slots = NO_SLOTS, .db = db, .name = api.CreateStringFromString(NULL, name)};
  if (!throttleLines) throttleLines = api.CreateDict(NULL);
  if (!waiters) waiters = api.CreateDict(NULL);
  withKey(putLine, db, name, line);
  return line;
}

static void wake(RedisModuleCtx *ctx, void *data);

static void stopTimer(RedisModuleCtx *ctx, throttleLine *line) {
  if (line->timer) api.StopTimer(ctx, line->timer, NULL);
}

static void setTimer(RedisModuleCtx *ctx, throttleLine *line, int64_t delayMs) {
  int64_t longestMs = api.GetContextFlags(ctx) & CONTEXT_CLUSTER ? LONGEST_IN_CLUSTER_MS : LONGEST_TIMER_MS;
  stopTimer(ctx, line);
  line->timer = api.CreateTimer(ctx, delayMs < longestMs ? delayMs : longestMs, wake, line);
}

// Forgets a line that is empty.
static void closeLine(RedisModuleCtx *ctx, throttleLine *line) {
  if (line->first || line->isInHand) return;
  stopTimer(ctx, line);
  withKey(dropLine, line->db, line->name, NULL);
  api.FreeString(NULL, line->name);
  api.Free(line);
  if (api.DictSize(throttleLines)) return;
  api.FreeDict(NULL, throttleLines);
  throttleLines = NULL;
}

static void wakeSoon(RedisModuleCtx *ctx, throttleLine *line) {
  if (line->isInHand) {
    line->hasChanged = 1;
  } else {
    setTimer(ctx, line, 0);
  }
}

void throttleWakeLine(RedisModuleCtx *ctx, int db, RedisModuleString *name) {
  throttleLine *line = findLine(db, name);
  if (line) wakeSoon(ctx, line);
}

static uint64_t *waitingOf(const waiter *w) { return throttleCommands[w->command].onSortedSet ? &stats.leasesWaiting : &stats.waiting; }

static void enqueue(throttleLine *line, waiter *w) {
  w->line = line;
  w->previous = line->last;
  *(line->last ? &line->last->next : &line->first) = w;
  line->last = w;
  line->count++;
  api.DictReplaceC(waiters, &w->handle, sizeof w->handle, w);
  ++*waitingOf(w);
}

static void dequeue(RedisModuleCtx *ctx, waiter *w) {
  throttleLine *line = w->line;
  if (w->deadline) api.StopTimer(ctx, w->deadline, NULL);
  *(w->previous ? &w->previous->next : &line->first) = w->next;
  *(w->next ? &w->next->previous : &line->last) = w->previous;
  line->count--;
  api.DictDelC(waiters, &w->handle, sizeof w->handle, NULL);
  --*waitingOf(w);
}

static void freeWaiter(waiter *w) {
  for (int i = 0; i < w->argc; i++) api.FreeString(NULL, w->argv[i]);
  api.Free(w);
}

static void onFree(RedisModuleCtx *ctx, void *data) {
  (void)ctx;
  freeWaiter(data);
}

static waiter *findWaiter(RedisModuleBlockedClient *handle) { return api.DictGetC(waiters, &handle, sizeof handle, NULL); }

// The server has no more use for the handle. Those behind may need less than the one who leaves, and an empty line is closed when it
// wakes.
static void leave(RedisModuleCtx *ctx, RedisModuleBlockedClient *handle) {
  waiter *w = findWaiter(handle);
  if (!w) return;
  throttleLine *line = w->line;
  if (line->first == w) wakeSoon(ctx, line);
  dequeue(ctx, w);
  api.UnblockClient(handle, NULL);
  freeWaiter(w);
}

// Opens the key of a line for a decision about one of its callers. That may run other modules, and they may make callers leave.
static throttleCall *openLine(throttleSingle *single, RedisModuleCtx *ctx, throttleLine *line, int mode) {
  throttleCall *call = throttleBeginSingle(single, line->first->command, 1, &line->name);
  call->isOutside = 1;
  call->db = line->db;
  throttleOpenKeys(call, ctx, mode);
  return call;
}

static void closeKey(throttleCall *call) {
  if (call->keys->handle) api.CloseKey(call->keys->handle);
}

// Decides the call of w again, up to the point where it is to be applied.
static void decide(throttleCall *call, RedisModuleCtx *ctx, waiter *w, int turn) {
  call->command = w->command;
  call->nowNs = throttleClockNs();
  call->mayBlock = turn == TURN_FIRST;
  call->turn = turn;
  call->waitedNs = call->nowNs > w->enteredNs ? call->nowNs - w->enteredNs : 0;
  call->lineSlots = w->line->slots;
  throttleGatherArgs(call, w->argv, w->argc, MAX_ARGS);
  if (throttleCommands[w->command].onSortedSet) throttleGatherMembers(call, ctx, w->argv);
  throttleDecide(call);
  if (call->panicked) throttleLog(ctx, "warning", call->error);
}

static void apply(throttleCall *call, RedisModuleCtx *ctx) {
  throttleApply(call, ctx);
  if (throttleCommands[call->command].onSortedSet) throttleFreeMembers(call);
}

static void answerWith(waiter *w, const throttleCall *call) {
  w->reply = call->reply;
  w->count = call->count;
  memcpy(w->integers, call->integers, sizeof w->integers);
  if (call->reply == REPLY_ERROR) memcpy(w->error, call->error, sizeof w->error);
}

// Lets the first in line in, if it is time, and returns 0. Otherwise it returns in how many ms to look again. What is written may run
// other modules, and they may make the caller leave.
static int64_t letIn(RedisModuleCtx *ctx, throttleLine *line) {
  throttleSingle single;
  throttleCall *call = openLine(&single, ctx, line, OPEN_READ | OPEN_WRITE);
  waiter *w = line->first;
  if (!w) {
    closeKey(call);
    return 0;
  }
  decide(call, ctx, w, TURN_FIRST);
  if (call->reply == REPLY_IN_TURN) {
    apply(call, ctx);
    return line->first == w ? throttleMsAfter(call->lookNs) : 0;
  }
  dequeue(ctx, w);
  throttleCountDecision(call);
  if (!throttleCommands[w->command].onSortedSet) stats.waited++;
  answerWith(w, call);
  apply(call, ctx);
  api.UnblockClient(w->handle, w);
  return 0;
}

enum { MAY_WRITE, MAY_NOT_WRITE, HAS_MOVED };

// Why the server refused a call, as it says in errno; 0 if it did not, whatever the outcome.
static int refusal(RedisModuleCallReply *reply) {
  int problem = api.CallReplyType(reply) == CALL_REPLY_INTEGER ? 0 : errno;
  if (reply) api.FreeCallReply(reply);
  return problem;
}

// Whether the server would take a write to this key now. A command would be refused before it is run: too little memory, too few
// replicas, a disk that is full, or the key's slot is another node's. The module API tells none of this, but the server looks
// at it for commands that modules call. This one never changes anything, whatever the key holds.
static int mayWrite(RedisModuleCtx *ctx, throttleLine *line) {
  errno = 0;
  int problem = refusal(api.Call(ctx, "ZADD", "SMEscccc", line->name, "XX", "GT", "-inf", "id"));
  if (problem == EBADF || problem == ENOENT) { // before Redis 7.0, which knows no such flags, or ZADD was renamed: only the slot
    problem = refusal(api.Call(ctx, "EXISTS", "s", line->name));
    return problem == EPERM ? HAS_MOVED : MAY_WRITE;
  }
  if (!problem) return MAY_WRITE;
  return problem == EPERM ? HAS_MOVED : MAY_NOT_WRITE;
}

static void sendAway(RedisModuleCtx *ctx, throttleLine *line) {
  while (line->first) {
    waiter *w = line->first;
    dequeue(ctx, w);
    w->reply = REPLY_ERROR;
    memcpy(w->error, hasMoved, sizeof hasMoved);
    api.UnblockClient(w->handle, w);
  }
}

// Lets in whose turn it is, and returns in how many ms to look again.
static int64_t letAllIn(RedisModuleCtx *ctx, throttleLine *line) {
  if (api.AvoidReplicaTraffic && api.AvoidReplicaTraffic()) return RETRY_PAUSED_MS;
  int64_t againMs = 0;
  for (int i = 0; line->first && !againMs && i < MOST_AT_ONCE; i++) {
    switch (mayWrite(ctx, line)) {
    case MAY_WRITE:
      againMs = letIn(ctx, line);
      break;
    case MAY_NOT_WRITE:
      againMs = RETRY_REFUSED_MS;
      break;
    case HAS_MOVED:
      sendAway(ctx, line);
    }
  }
  return againMs;
}

static void wake(RedisModuleCtx *ctx, void *data) {
  throttleLine *line = data;
  line->timer = 0;
  line->isInHand++;
  api.SelectDb(ctx, line->db);
  int64_t againMs = letAllIn(ctx, line);
  line->isInHand--;
  line->hasChanged = 0; // before the last decision
  if (line->first) setTimer(ctx, line, againMs);
  closeLine(ctx, line);
}

static int onUnblocked(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  (void)argv, (void)argc;
  waiter *w = api.GetBlockedClientPrivateData(ctx);
  throttleSingle single;
  throttleCall *call = throttleBeginSingle(&single, w->command, 0, NULL);
  call->reply = w->reply;
  call->count = w->count;
  memcpy(call->integers, w->integers, sizeof w->integers);
  memcpy(call->error, w->error, sizeof w->error);
  throttleReply(call, ctx);
  return API_OK;
}

// Decides what a caller is told that is sent away. Other modules may run when its key is opened, and when they hear of the decision.
// They may make the caller leave: NULL then.
static throttleCall *decideLeaving(throttleSingle *single, RedisModuleCtx *ctx, waiter *w) {
  RedisModuleBlockedClient *handle = w->handle;
  throttleCall *call = openLine(single, ctx, w->line, OPEN_READ);
  if (!findWaiter(handle)) {
    closeKey(call);
    return NULL;
  }
  decide(call, ctx, w, TURN_LEAVING);
  throttleCountDecision(call);
  if (!throttleCommands[call->command].onSortedSet) stats.waitLeft++;
  apply(call, ctx);
  return findWaiter(handle) ? call : NULL;
}

static void expire(RedisModuleCtx *ctx, void *data);

static void setDeadline(RedisModuleCtx *ctx, waiter *w) {
  int64_t leftMs = throttleMsAfter(w->deadlineNs - throttleClockNs());
  w->deadline = api.CreateTimer(ctx, leftMs < LONGEST_TIMER_MS ? leftMs : LONGEST_TIMER_MS, expire, w);
}

// The time of a caller is over, or the longest timer. The server's own timeouts are not used: one that comes when the caller
// was just let in takes it out of the server's hands, without an answer, and with its lease.
static void expire(RedisModuleCtx *ctx, void *data) {
  waiter *w = data;
  w->deadline = 0;
  if (w->deadlineNs > throttleClockNs()) {
    setDeadline(ctx, w);
    return;
  }
  throttleLine *line = w->line;
  // A slot may have become free since the line was looked at: its timer, too, counts in whole ms. This selects the line's database.
  RedisModuleBlockedClient *handle = w->handle;
  stopTimer(ctx, line);
  wake(ctx, line);
  if (!findWaiter(handle)) return;
  line->isInHand++;
  throttleSingle single;
  throttleCall *call = decideLeaving(&single, ctx, w);
  line->isInHand--;
  if (call) {
    if (line->first == w) line->hasChanged = 1;
    dequeue(ctx, w);
    answerWith(w, call);
    api.UnblockClient(w->handle, w);
  }
  // The server deletes a key that has expired when it is opened, and tells of it then.
  if (line->hasChanged) wakeSoon(ctx, line);
  closeLine(ctx, line);
}

// CLIENT UNBLOCK.
static int onTimeout(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  (void)argv, (void)argc;
  RedisModuleBlockedClient *handle = api.GetBlockedClientHandle(ctx);
  waiter *w = findWaiter(handle);
  if (!w) return API_OK;
  throttleSingle single;
  throttleCall *call = decideLeaving(&single, ctx, w);
  if (call) throttleReply(call, ctx);
  leave(ctx, handle);
  return API_OK;
}

void throttleLookAtLine(throttleCall *call, RedisModuleCtx *ctx) {
  (void)ctx;
  throttleLine *line = findLine(call->db, call->keys->name);
  if (!line) return;
  call->ahead = line->count;
  call->lineSlots = line->slots;
}

void throttleTellLine(throttleCall *call, RedisModuleCtx *ctx) {
  throttleLine *line = findLine(call->db, call->keys->name);
  if (!line || call->lineSlots == line->slots) return;
  line->slots = call->lineSlots;
  wakeSoon(ctx, line);
}

static int onChange(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *name) {
  (void)type, (void)event;
  if (throttleLines) throttleWakeLine(ctx, api.GetSelectedDb(ctx), name);
  return API_OK;
}

static void onManyChanges(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
  (void)event, (void)subevent, (void)data;
  if (!throttleLines) return;
  RedisModuleDictIter *iterator = api.DictIteratorStartC(throttleLines, "^", NULL, 0);
  size_t length;
  void *line;
  while (api.DictNextC(iterator, &length, &line)) wakeSoon(ctx, line);
  api.DictIteratorStop(iterator);
}

// What other clients do to a key may free slots. A server on which nobody ever waits in line is not asked to tell.
static void watch(RedisModuleCtx *ctx) {
  if (isWatching) return;
  isWatching = 1;
  api.SubscribeToKeyspaceEvents(ctx, NOTIFY_GENERIC | NOTIFY_ZSET | NOTIFY_EXPIRED | NOTIFY_EVICTED, onChange);
  api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_FLUSHDB, 1}, onManyChanges);
  api.SubscribeToServerEvent(ctx, (RedisModuleEvent){EVENT_SWAPDB, 1}, onManyChanges);
}

void throttleWaitInTurn(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
  watch(ctx);
  throttleLine *line = findLine(call->db, call->keys->name);
  int isNew = !line;
  if (isNew) line = newLine(call->db, call->keys->name);
  waiter *w = api.Alloc(sizeof *w + (size_t)argc * sizeof *argv);
  *w = (waiter){.command = call->command, .enteredNs = throttleClockNs(), .argc = argc};
  w->deadlineNs = w->enteredNs + call->timeoutMs * MS_NS;
  for (int i = 0; i < argc; i++) {
    w->argv[i] = argv[i];
    api.RetainString(NULL, argv[i]);
  }
  w->handle = api.BlockClient(ctx, onUnblocked, onTimeout, onFree, 0);
  api.SetDisconnectCallback(w->handle, leave);
  line->slots = call->lineSlots;
  enqueue(line, w);
  if (call->timeoutMs) setDeadline(ctx, w);
  if (isNew) setTimer(ctx, line, throttleMsAfter(call->lookNs));
}
