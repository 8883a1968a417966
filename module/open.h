// Opening the keys of a call, inlined into the path of a command as path.h is.
#ifndef THROTTLE_OPEN_H
#define THROTTLE_OPEN_H

#include "path.h"

// Whether the key of a call is opened as if there were no other modules.
static inline int isOutermost(const throttleCall *call) { return throttleIsOutermost && call->origin == BY_COMMAND && !call->isGuarded; }

static inline void openKeys(throttleCall *call, RedisModuleCtx *ctx, int mode) {
  call->openMode = mode;
  if (RARELY(call->keyCount != 1 || (throttleHasNeighbours && !isOutermost(call)))) {
    throttleOpenSeveral(call, ctx);
    return;
  }
  uint64_t expiries = throttleExpiries;
  call->keys->handle = api.OpenKey(ctx, call->keys->name, mode);
  if (RARELY(throttleExpiries != expiries)) {
    throttleOpenAgain(call, ctx);
    return;
  }
  gatherKey(call->keys);
}

#endif
