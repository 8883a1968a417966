// What COMMAND DOCS says of each command.
#include "info.h"

#define SINCE "0.1.0"

static const commandInfoVersion version = {INFO_VERSION, sizeof(commandHistory), sizeof(commandKeySpec),
                                           sizeof(commandArg)};

#define KEY_AT_1(keyFlags)                                                  \
  {                                                                         \
      {.flags = (keyFlags),                                                 \
       .beginSearchType = KEY_SPEC_INDEX,                                   \
       .begin.index.position = 1,                                           \
       .findKeysType = KEY_SPEC_RANGE,                                      \
       .find.range = {.lastKey = 0, .keyStep = 1, .limit = 0}},             \
      {0},                                                                  \
  }
static commandKeySpec updated[] = KEY_AT_1(KEY_RW | KEY_ACCESS | KEY_UPDATE);
static commandKeySpec looked[] = KEY_AT_1(KEY_RO | KEY_ACCESS);

#define KEY {.name = "key", .type = ARG_KEY, .keySpecIndex = 0}
#define ARG(argName, argType, ...) {.name = argName, .type = argType, .keySpecIndex = -1, __VA_ARGS__}
#define END {0}

static commandArg rate[] = {
    ARG("count/period", ARG_STRING, .token = "RATE"),
    ARG("capacity", ARG_INTEGER, .token = "BURST", .flags = ARG_OPTIONAL),
    END,
};
static commandArg limitKinds[] = {
    ARG("rate", ARG_BLOCK, .subargs = rate),
    ARG("count/period", ARG_STRING, .token = "WINDOW"),
    ARG("count/period", ARG_STRING, .token = "FIXED"),
    END,
};
#define LIMITS ARG("limit", ARG_ONEOF, .flags = ARG_MULTIPLE, .subargs = limitKinds)
#define COST ARG("units", ARG_INTEGER, .token = "COST", .flags = ARG_OPTIONAL)

static commandArg throttleArgs[] = {
    KEY,
    ARG("max_burst", ARG_INTEGER),
    ARG("count_per_period", ARG_INTEGER),
    ARG("period", ARG_STRING),
    ARG("quantity", ARG_INTEGER, .flags = ARG_OPTIONAL),
    END,
};
static commandArg limitArgs[] = {
    KEY,
    LIMITS,
    COST,
    ARG("upto", ARG_PURE_TOKEN, .token = "UPTO", .flags = ARG_OPTIONAL),
    ARG("strict", ARG_PURE_TOKEN, .token = "STRICT", .flags = ARG_OPTIONAL),
    ARG("duration", ARG_STRING, .token = "MAXWAIT", .flags = ARG_OPTIONAL),
    END,
};
static commandArg limitsAndCost[] = {KEY, LIMITS, COST, END}; // of CL.PEEK and CL.REFUND
static commandArg waitArgs[] = {
    KEY,
    ARG("limit", ARG_BLOCK, .flags = ARG_MULTIPLE, .subargs = rate),
    COST,
    ARG("duration", ARG_STRING, .token = "TIMEOUT"),
    END,
};
static commandArg topArgs[] = {ARG("count", ARG_INTEGER, .flags = ARG_OPTIONAL), END};

#define PER_LIMIT "O(N) where N is the number of limits, at most 8. A WINDOW adds O(1), at most 65 entries."

const commandInfo infoThrottle = {
    .version = &version,
    .summary = "Takes units of a limit, all or none, and tells how things stand.",
    .complexity = "O(1)",
    .since = SINCE,
    .arity = -5,
    .keySpecs = updated,
    .args = throttleArgs,
};
const commandInfo infoLimit = {
    .version = &version,
    .summary = "Takes units of up to eight limits at one instant, of all or of none.",
    .complexity = PER_LIMIT,
    .since = SINCE,
    .arity = -4,
    .keySpecs = updated,
    .args = limitArgs,
};
const commandInfo infoPeek = {
    .version = &version,
    .summary = "Tells what CL.LIMIT would answer, and takes nothing.",
    .complexity = PER_LIMIT,
    .since = SINCE,
    .tips = "nondeterministic_output",
    .arity = -4,
    .keySpecs = looked,
    .args = limitsAndCost,
};
const commandInfo infoRefund = {
    .version = &version,
    .summary = "Gives units back to limits, never above full.",
    .complexity = PER_LIMIT,
    .since = SINCE,
    .arity = -4,
    .keySpecs = updated,
    .args = limitsAndCost,
};
const commandInfo infoWait = {
    .version = &version,
    .summary = "Takes units of limits as soon as they are there, blocking until then.",
    .complexity = PER_LIMIT " O(M) when a caller ahead of M others leaves.",
    .since = SINCE,
    .arity = -6,
    .keySpecs = updated,
    .args = waitArgs,
};
const commandInfo infoTop = {
    .version = &version,
    .summary = "Lists the keys that were limited most often lately.",
    .complexity = "O(N log N) where N is the configuration throttle.top.",
    .since = SINCE,
    .tips = "nondeterministic_output",
    .arity = -1,
    .args = topArgs,
};
