// A call of a command: what crosses between C and Go, laid out alike on both sides, and the frames that hold it.
#ifndef THROTTLE_CALL_H
#define THROTTLE_CALL_H

#include <string.h>

#include "api.h"

// The constants here are those of Go's package command; boundary.go compares them.
enum { MAX_ARGS = 96, MAX_VALUE_LEN = 8435, MAX_ERROR_LEN = 255, MAX_FIELDS = 11, MAX_NAMES = 16, MAX_TEXT_LEN = 128, EACH_FIELDS = 5 };
enum { MAX_KEYS = 8, MAX_COMMANDS = 32, MAX_LOWEST = 16, MAX_ARGS_OF_KEYS = 800, MAX_LIMITS = 8 };
enum { KEY_ABSENT, KEY_STRING, KEY_SORTED_SET, KEY_OTHER };
enum { REPLY_ERROR, REPLY_WRONG_ARITY, REPLY_INTEGER, REPLY_INTEGERS, REPLY_FIELDS, REPLY_INTEGERS_EACH, REPLY_FIELDS_EACH, REPLY_ROWS, REPLY_LATER,
    REPLY_IN_TURN, REPLY_LEASES, REPLY_ELSEWHERE, REPLY_NESTED };
enum { EFFECT_KEEP, EFFECT_SET, EFFECT_DELETE, EFFECT_MEMBERS };
enum { EVENT_NONE, EVENT_LEASED, EVENT_RENEWED, EVENT_RELEASED, EVENT_NOT_LEASED };
enum { TURN_ARRIVING, TURN_AT_FRONT, TURN_LEAVING };
enum { US_NS = 1000, MS_NS = 1000 * US_NS };
enum { NO_SLOTS = -1, ALL_DBS = -1 };
// How far ahead of now a score may be. No int on all machines, so no enum.
#define FURTHEST_MS 6307200000000LL
enum { TALLY_NONE, TALLY_ALLOWED, TALLY_LIMITED, TALLY_SETTLED, TALLY_NOT_SETTLED, TALLIES };
enum { KEYS_NONE, KEYS_ONE, KEYS_COUNTED };

// Laid out as Go's []byte, which is how Go looks at arguments. Only they have a capacity: their length.
typedef struct {
  const char *bytes;
  size_t length;
  size_t capacity;
} throttleView;

// Of line.c: what it keeps of a line, and of a caller in it.
typedef struct throttleLine throttleLine;
typedef struct throttleCaller throttleCaller;

// A name of a reply and the beginning of the integer that follows it, as they are sent.
enum { MAX_SENT_NAME = 31 };
typedef struct {
  char text[MAX_SENT_NAME];
  uint8_t length;
} throttleSentName;

// What C has to know of a command; the rest is Go's. commands.c has them in the order of
// their indexes.
typedef struct {
  char counter[32]; // in INFO
  int32_t keys;
  int32_t readOnly;
  int32_t blocks;
  int32_t lines;       // it wants to know who waits in line
  int32_t onSortedSet;
  int32_t seesExpiry; // it wants to know when its key expires
  int32_t onlyNames;  // its key is a name to it, and is not opened
  int32_t runsOverMaxmemory; // it writes, and the server does not refuse it when memory is full
  // The index of the first argument that names a member, as most calls have it; 0 when none does. With several keys it
  // counts back from the end: -1 is the last.
  int32_t namesAt;
  int32_t maxMembers;  // how many names may follow it
  int32_t slotsAt;    // the index of the argument that says how many members there may be; 0 when none does
  int32_t looksUp;    // with several keys: the latest call had to know whether the member that it names is there
  int32_t isPlain; // it has one key, which holds a string, and none of the above but readOnly
  int32_t countsAs; // the index of the command of which this is another name, or its own
  int32_t fieldCount;
  int32_t nestedAt; // of a REPLY_NESTED: the index of the name under which it has its rows
  throttleView fields[MAX_NAMES]; // the names of a REPLY_FIELDS, REPLY_ROWS or REPLY_NESTED
  throttleSentName sentNames[MAX_NAMES];
} throttleTraits;

extern throttleTraits throttleCommands[MAX_COMMANDS]; // traits.c
extern int throttleCommandCount;

// What a command sees of a sorted set to decide about members that lapse, and what becomes of them. It sees a few
// of the members with a score up to now in ms, the lowest score of the rest, and the members that it names.
typedef struct {
  int64_t count;
  int64_t lapsed; // of all, how many have a score up to now
  int32_t lowestCount;
  int32_t namedCount;
  int32_t isBeyond; // there is a score further ahead than FURTHEST_MS
  // The score of the member that is named was not looked up: a slot is free in any case or, with several keys, the
  // change tells whether it is there.
  int32_t isUnread;
  int32_t isDone; // throttleTry has made that change
  int32_t hasLapsedMore; // than the lowest
  double next;      // the lowest score above now; NaN when there is none
  // For a command with several keys: the lowest score above now, and the highest of all, among the members that are not
  // named; NaN when there is none.
  double nextOther, lastOther;
  double lowestScores[MAX_LOWEST];
  RedisModuleString *lowestNames[MAX_LOWEST];
  RedisModuleString **argv;  // of the call
  int32_t namesAt, slotsAt;  // where this call names members and says how many there may be; Go corrects them
  RedisModuleString **names; // of the members that the call names
  double scores[MAX_ARGS];   // theirs; NaN of one that is not there

  int32_t removeLowest; // how many of lowest to remove
  int32_t add;          // the first that is named, with this score
  double addScore;
  char remove[MAX_ARGS]; // of those named
  int32_t event;         // what happened to a lease
  int64_t released;      // leases that were given back
  int64_t found;         // lapsed ones that are removed
  // When the member that is added turns out to be there, unread: the event, and an integer of the reply.
  int32_t eventIfThere;
  int32_t fieldIfThere;
  int64_t integerIfThere;
} throttleMembers;

// One key of a call: what the server holds there, and what becomes of it. It begins as Go's command.Key does, field by
// field, which Go reads and writes where it lies; boundary.go compares the two.
typedef struct {
  int32_t kind;
  int32_t effect;
  _Bool expireNoEarlier; // a later expiry, or none, stays
  throttleView value;
  throttleView newValue; // of EFFECT_SET; in room
  int64_t expireAtMs;    // 0 leaves it as it is; of EFFECT_MEMBERS it is the last member's; of a command that seesExpiry that of the key
  int64_t expireSlackMs; // of EFFECT_SET, on a key that is there: an expiry up to so much later stays, and any other becomes the latest of these
  throttleView room;     // for MAX_VALUE_LEN bytes; its length is 0
  void *seen;            // Go's view of members
  int64_t ahead;
  struct {
    uint64_t id;
    void *lines;
  } line;
  int64_t lineSlots, toldSlots; // the slots that a line was told of last, before the call and after it
  int64_t banUntilNs, behind;
  // From here on it is C's alone.
  RedisModuleString *name;
  RedisModuleKey *handle;
  throttleLine *wake;       // the line to wake, because the call told it of more or fewer slots
  throttleMembers *members; // of a command on sorted sets
  int32_t hasLine;          // of a command that wants to know who waits in line: there may be somebody
  int16_t expiryChanges;
  int16_t isCopied; // of a string that is not read through its key (throttleMayBeNested)
} throttleKey;

// The origin of a call. Outside of a command there is none that could be replicated. What the event loop does comes
// between commands. A caller may be unblocked in the middle of one, by another module.
enum { BY_COMMAND, BY_EVENT_LOOP, BY_UNBLOCKING };

// A call as C gathered it, and its outcome as Go filled it in for C to apply. From argCount on it is Go's command.In,
// and from reply on command.Outcome.
typedef struct {
  int32_t command;
  int32_t openMode;    // of the keys
  int32_t unfinished;  // a key may be unfinished (throttleMayBeUnfinished), so nothing changes
  int32_t seesMembers; // of a command on sorted sets: throttleGatherMembers has looked at the keys
  int32_t looksUp;     // of a command on sorted sets with several keys: the member that is named is looked up first
  int16_t origin;      // BY_COMMAND or another
  int16_t isGuarded;   // a value was copied, or is unfinished: what is there is only touched if it changes
  throttleKey *keys; // with the next two laid out as Go's []Key
  int64_t keyCount, keyCapacity;

  int64_t argCount; // after the command's name, maybe more than are viewed
  throttleView *args;
  int64_t viewCount, viewCapacity;
  int64_t nowNs;
  int64_t db;
  // For a command that may wait in line (line.c): where its caller stands, and for how long already.
  int32_t turn;
  _Bool mayBlock; // of a command that blocks: the caller can be made to wait
  _Bool isFull;   // and as many wait as may
  int64_t waitedNs;

  int32_t reply;
  int32_t tally;
  int64_t tallyKey;  // the key that is notified of as limited or shadowed
  int64_t *integers; // in integersRoom
  int64_t count, countCapacity;
  int64_t rowCount;
  int64_t refunded;  // units given back
  int64_t lookNs;    // of REPLY_IN_TURN: when to decide again if nothing happens before
  int64_t timeoutMs; // and when to send the caller away; 0 for never
  int64_t priority;
  int64_t weight;  // of its group; 0 for 1
  int64_t groupAt; // the index of the argument that names its group; 0 for none
  _Bool shadowed;   // let through, though a shadow limit would have limited it
  _Bool turnedAway; // limited at once because of isFull
  int64_t integersRoom[MAX_FIELDS];

  uint64_t entry;   // of REPLY_LATER: the caller's, in its line
  int32_t panicked; // error tells what happened
  int32_t eachCount; // of REPLY_INTEGERS_EACH and REPLY_FIELDS_EACH: how many limits throttleEachOf shows
  char error[MAX_ERROR_LEN + 1];
} throttleCall;

// One of a REPLY_ROWS: a text, then integers, under the names of the command's fields.
typedef struct {
  int32_t length;
  int64_t integers[MAX_FIELDS];
  char text[MAX_TEXT_LEN];
} throttleRow;

// A call with at most one key, and what its views need.
typedef struct {
  throttleCall call;
  throttleKey key;
  throttleMembers members;
  throttleView args[MAX_ARGS];
  char values[MAX_VALUE_LEN];
  int64_t each[MAX_LIMITS][EACH_FIELDS]; // what each limit says, behind all that a call without EACH touches
} throttleSingle;

// A call with several keys.
typedef struct {
  throttleCall call;
  throttleKey keys[MAX_KEYS];
  throttleMembers members[MAX_KEYS];
  throttleView args[MAX_ARGS_OF_KEYS];
  char values[MAX_KEYS * MAX_VALUE_LEN];
  int64_t each[MAX_KEYS * MAX_LIMITS][EACH_FIELDS];
} throttleMany;

// What crosses is not zeroed: every field is written before it is read. The test build fills it, so that tests fail if
// one is not: in every other call with bytes that are valid in no field, and in the rest with ones, which are valid in
// most.
static inline void throttleBlank(void *what, size_t size) {
#ifdef THROTTLE_CHECK
  static int isPlausible;
  isPlausible = !isPlausible;
  memset(what, 0xA5, size);
  for (int32_t *field = what; isPlausible && field < (int32_t *)what + size / sizeof *field; field++) *field = 1;
#else
  (void)what, (void)size;
#endif
}

// Go may look at the old value of a pointer that it replaces, so every pointer of its parts has one.
static inline void throttleBeginKey(throttleKey *key, RedisModuleString *name, char *room, throttleMembers *members) {
  key->value.bytes = key->newValue.bytes = NULL;
  key->value.length = key->value.capacity = 0;
  key->room = (throttleView){room, 0, MAX_VALUE_LEN};
  key->seen = key->line.lines = NULL;
  key->ahead = 0;
  key->lineSlots = NO_SLOTS;
  key->name = name;
  key->wake = NULL;
  key->members = members;
  key->hasLine = 0;
  key->isCopied = 0;
}

static inline void throttleBegin(throttleCall *call, int command, throttleView *args, int keyCount, throttleKey *keys) {
  call->command = command;
  call->unfinished = 0;
  call->seesMembers = 0;
  call->origin = BY_COMMAND;
  call->isGuarded = 0;
  call->keys = keys;
  call->keyCount = call->keyCapacity = keyCount;
  call->args = args;
  call->turn = TURN_ARRIVING;
  call->waitedNs = 0;
  call->integers = NULL;
}

static inline throttleCall *throttleBeginSingle(throttleSingle *single, int command, int keyCount, RedisModuleString **name) {
  throttleBlank(single, sizeof *single);
  throttleBegin(&single->call, command, single->args, keyCount, &single->key);
  throttleBeginKey(&single->key, keyCount ? *name : NULL, single->values, &single->members);
  return &single->call;
}

static inline throttleCall *throttleBeginMany(throttleMany *many, int command, int keyCount, RedisModuleString **names) {
  throttleBlank(many, sizeof *many);
  throttleBegin(&many->call, command, many->args, keyCount, many->keys);
  int i = 0; // Go looks at the first key even if the call has none
  do throttleBeginKey(&many->keys[i], i < keyCount ? names[i] : NULL, many->values + (size_t)i * MAX_VALUE_LEN, &many->members[i]);
  while (++i < keyCount);
  return &many->call;
}

#endif
