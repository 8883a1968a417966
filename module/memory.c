// A server over maxmemory refuses commands that have the flag deny-oom, and runs the others: they return or end
// something, which needs no memory. Where such a call would add a key or a member, or make a value longer, it gets the
// server's error.
#include <math.h>

#include "open.h"

static const char overMaxmemory[] = "OOM command not allowed when used memory > 'maxmemory'.";

// A member whose score was not looked up counts as new.
static int isGrown(const throttleKey *key) {
  switch (key->effect) {
  case EFFECT_SET:
    return key->kind == KEY_ABSENT || key->newValue.length > key->value.length;
  case EFFECT_MEMBERS:
    return key->members->add && (key->kind == KEY_ABSENT || isnan(key->members->scores[0]));
  }
  return 0;
}

int throttleGrows(const throttleCall *call) {
  for (int i = 0; i < call->keyCount; i++) {
    if (isGrown(&call->keys[i])) return 1;
  }
  return 0;
}

// Other modules may have run. The call is decided by what its keys hold now.
static void decideAnew(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv) {
  if (call->seesMembers) throttleFreeMembers(call);
  openKeys(call, ctx, call->openMode);
  if (throttleCommands[call->command].onSortedSet && (call->seesMembers || throttleMayNameMembers(call))) throttleGatherMembers(call, ctx, argv);
  throttleDecide(call, ctx, argv);
}

// A call that was decided as if its member were there is decided again: if it is not, nothing grows. The flag is
// computed anew, but says too much: a server that evicts keys leaves a few bytes of room, which this call may have used
// already, and a transaction or a script goes on as it began. So the server is asked, too, with no key open.
void throttleRefuseGrowth(throttleCall *call, RedisModuleCtx *ctx, RedisModuleString **argv) {
  if (!throttleGrows(call) || !(api.GetContextFlags(ctx) & CONTEXT_OOM)) return;
  if (throttleLookUp(call)) throttleDecide(call, ctx, argv);
  if (!throttleGrows(call)) return;
  throttleCloseKeys(call);
  if (throttleAsk(ctx, call->keys->name)) {
    throttleRefuse(call, overMaxmemory);
  } else {
    decideAnew(call, ctx, argv);
  }
}
