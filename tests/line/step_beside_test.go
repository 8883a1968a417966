package line_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/sharedlib"
)

// sleeper is a module with a timer: SLEEPER.SET milliseconds.
const sleeper = `
#include <stddef.h>
#include <string.h>

typedef struct Ctx Ctx;
typedef struct String String;

static int (*createCommand)(Ctx *, const char *, int (*)(Ctx *, String **, int), const char *flags, int, int, int);
static void (*setModuleAttribs)(Ctx *, const char *name, int version, int apiVersion);
static unsigned long long (*createTimer)(Ctx *, long long, void (*)(Ctx *, void *), void *);
static int (*toLongLong)(const String *, long long *);
static int (*replyWithLongLong)(Ctx *, long long);

static void onTimer(Ctx *ctx, void *data) { (void)ctx, (void)data; }

static int set(Ctx *ctx, String **argv, int argc) {
  long long ms = 0;
  if (argc == 2) toLongLong(argv[1], &ms);
  createTimer(ctx, ms, onTimer, NULL);
  return replyWithLongLong(ctx, ms);
}

int RedisModule_OnLoad(Ctx *ctx, void **argv, int argc) {
  (void)argv, (void)argc;
  int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
  get("RedisModule_SetModuleAttribs", &setModuleAttribs);
  get("RedisModule_CreateCommand", &createCommand);
  get("RedisModule_CreateTimer", &createTimer);
  get("RedisModule_StringToLongLong", &toLongLong);
  get("RedisModule_ReplyWithLongLong", &replyWithLongLong);
  setModuleAttribs(ctx, "sleeper", 1, 1);
  return createCommand(ctx, "sleeper.set", set, "", 0, 0, 0);
}
`

// After a step forward, a timer of another module is overdue, and the server sleeps until the instant that it had. It
// sleeps past all timers that are set meanwhile. Lines do not.
func TestALineGoesOnBesideAnOverdueTimerOfAnotherModule(t *testing.T) {
	t.Parallel()
	s, stepBy := kit.StartWithSteps(t, server.Config("loadmodule "+sharedlib.Build(t, "sleeper", []byte(sleeper))))
	admin, waiting := s.Raw(), s.Raw()
	require.EqualValues(t, 250_000, kit.Do(t, admin, "SLEEPER.SET 250000").Int)
	kit.MustDoAll(t, admin, "CL.LEASE k SLOTS 2 TTL 2h ID long", "CL.LEASE k SLOTS 2 TTL 30m ID short", "CL.LEASE l SLOTS 1 TTL 2h ID holder")
	there := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 2 TTL 1h ID w TIMEOUT 0")
	stepBy(step)
	kit.RequireAdmitted(t, there)
	kit.Send(t, waiting, "CL.LEASE l SLOTS 1 TTL 1h ID w TIMEOUT 200ms")
	l, err := kit.LeasedIn(kit.ReceiveSoon(t, waiting))
	require.NoError(t, err)
	assert.EqualValues(t, 1, l.Limited, "its time is over")
	kit.Send(t, waiting, "CL.LEASE l SLOTS 1 TTL 1h ID w TIMEOUT 1m")
	require.EqualValues(t, 1, kit.Do(t, admin, "CL.RELEASE l ID holder").Int)
	l, err = kit.LeasedIn(kit.ReceiveSoon(t, waiting))
	require.NoError(t, err)
	assert.EqualValues(t, 0, l.Limited, "the slot is free")
	requireNobodyLeft(t, s) // nor a timer behind the overdue one
}
