// The line of CL.WAIT with reservations: module/line.c and package line.
//
// One rate of one unit per PERIOD ticks of the clock, three callers, two keys. Two units of key 0 were taken just before, so the
// callers there wait for 2 * PERIOD and longer, which is more than the event loop can hold. Each handler is atomic, since the
// server runs one after the other; which comes next is open. Timers may be late by one tick.
//
// Each of these breaks the model: V010_LOST and V010_SPIN (timers that overflow), V010_NESTED and V010_PAUSE as version 0.1.0
// did, NO_LAPSE and NO_ORDER otherwise. With -DCALM nobody else changes the keys.

#define CALLERS 3
#define KEYS 2
#define PERIOD 2
#define CAP 3          // LONGEST_TIMER_MS
#define HOLDS 4        // what the event loop can hold
#define RETRY 1        // RETRY_PAUSED_MS
#define LONGEST_PAUSE 3
#define NONE 255

mtype = { HOME, WAITING, ANSWERED, LEFT, REFUSED };

// The properties. Each is true as long as it holds.
bool nobodyIsSkipped = true, nobodyIsLate = true, neverTooMany = true, everybodyInTheirLine = true, replicaKeepsItsMasters = true, loopSleeps = true;

#define must(property, condition) property = (condition); assert(property)

byte now = 1;
bool isMaster = true, isPaused, hasPaused;
#ifdef CALM
bool hasChanged = true;
#else
bool hasChanged; // somebody else has changed a key
#endif
byte pausedFor;
byte tat[KEYS];              // what the key holds: the instant at which it is full
bool isExact[KEYS] = true;   // nobody has deleted the key
byte timer[KEYS] = NONE;     // waitLine.timer: when it is due, or NONE
bool open[KEYS];             // there is a waitLine

// The ledger: whether a unit was taken at an instant, and is not given back.
typedef Units { bool at[32] }
Units taken[KEYS];

// queue.waiter, by caller.
mtype state[CALLERS] = HOME;
byte key[CALLERS], slot[CALLERS], comes[CALLERS], before[CALLERS], after[CALLERS], made[CALLERS];
bool severed[CALLERS];
byte arrived, number[CALLERS]; // of arrival
// queue.Line: the callers in order, also those that have left.
typedef Line { byte length; byte caller[CALLERS] }
Line line[KEYS];

// Go's call in hand (package module: current).
byte current;

byte i, j, k, w, to, at, value, firstToMove, earliest, last, again, kept;
bool changed;
bool isBehind; // timers were due before the clock went on

#define later(a, b) ((a) > (b) -> (a) : (b))
#define sooner(a, b) ((a) < (b) -> (a) : (b))
#define hasLeft(x) (state[x] == LEFT)
#define isGone(x) (state[x] != WAITING)
#define isDone (isOver(0) && isOver(1) && isOver(2) && !open[0] && !open[1])
#define isOver(x) (state[x] != HOME && state[x] != WAITING)

inline take(q, instant) {
  must(neverTooMany, !isExact[q] || (!taken[q].at[instant] && !taken[q].at[instant + 1] && (instant == 0 || !taken[q].at[instant - 1])));
  taken[q].at[instant] = true
}

// line.c: setTimer.
inline setTimer(q, delay) {
#ifdef V010_LOST
  timer[q] = ((delay) > HOLDS -> NONE : now + (delay))
#else
#ifdef V010_SPIN
  must(loopSleeps, (delay) <= HOLDS);
  timer[q] = now + (delay)
#else
  timer[q] = now + sooner(delay, CAP);
  must(loopSleeps, timer[q] - now <= HOLDS)
#endif
#endif
}

// line.go: SomebodyLeft.
inline someoneLeft(q) {
  changed = false;
  i = 0;
  do
  :: i < line[q].length -> changed = changed || hasLeft(line[q].caller[i]); i++
  :: else -> i = 0; break
  od
}

// line.c: setNextTimer. queue.go: NextNs.
inline setNextTimer(q, earliestAgain) {
  if
  :: line[q].length == 0 -> timer[q] = NONE; open[q] = false
  :: else ->
    value = (slot[line[q].caller[0]] > now -> slot[line[q].caller[0]] - now : 0);
    someoneLeft(q);
    if
    :: value > earliestAgain && changed -> value = earliestAgain
    :: else
    fi;
    setTimer(q, value);
    value = 0; changed = false
  fi
}

// line.go: Enter. The reservation of caller x was made on the key of the call, with what was kept before.
inline enter(q, x, kept) {
  if
  :: line[q].length > 0 ->
    last = line[q].caller[line[q].length - 1];
    severed[last] = severed[last] || later(after[last], now) != later(kept, now);
#ifdef NO_ORDER
    slot[x] = comes[x]
#else
    slot[x] = later(comes[x], slot[last])
#endif
  :: else -> slot[x] = comes[x]
  fi;
  before[x] = kept; after[x] = comes[x] + PERIOD; made[x] = now;
  line[q].caller[line[q].length] = x;
  line[q].length++;
#ifdef NO_ORDER
  // The caller with the earlier slot goes first.
  i = line[q].length - 1;
  do
  :: i > 0 && slot[line[q].caller[i - 1]] > slot[x] -> line[q].caller[i] = line[q].caller[i - 1]; line[q].caller[i - 1] = x; i--
  :: else -> i = 0; break
  od;
#endif
  last = 0;
  must(everybodyInTheirLine, q == key[x])
}

// Somebody else's CL.LIMIT with MAXWAIT.
inline reserve(q) {
  at = later(tat[q], now);
  take(q, at);
  tat[q] = at + PERIOD;
  at = 0
}

// What another module does while our write is notified of: it calls a command on the other key, which becomes Go's
// call in hand, or reserves on this one.
inline nested(q) {
  if
  :: true
  :: current = 1 - q
  :: !hasChanged -> reserve(q); hasChanged = true
  fi
}

// command.c: run, wait.go: enter, wait.c: throttleWait. While writes are paused the server does not run it.
inline arrive(x, q) {
  key[x] = q; number[x] = arrived; arrived++;
  current = q;
  if
  :: !isMaster -> state[x] = REFUSED
  :: tat[q] <= now -> take(q, now); tat[q] = now + PERIOD; state[x] = ANSWERED
  :: else ->
    value = tat[q];
    comes[x] = tat[q];
    take(q, comes[x]);
    tat[q] = comes[x] + PERIOD;
    state[x] = WAITING;
#ifdef V010_NESTED
    nested(q);
    enter(current, x, value);
#else
    enter(q, x, value);
    nested(q);
#endif
    value = 0;
    if
    :: !open[key[x]] -> open[key[x]] = true; setTimer(key[x], slot[x] - now) // setNextTimer: nobody has left
    :: else
    fi
  fi;
  current = 0
}

// line.c: leave. CLIENT UNBLOCK, a disconnect, and a master that becomes a replica.
inline leave(x) {
  state[x] = LEFT;
  setTimer(key[x], 0)
}

// reserved.go: firstToMove.
inline findFirstToMove(q) {
  firstToMove = line[q].length;
  if
  :: line[q].length > 0 ->
    last = line[q].caller[line[q].length - 1];
    severed[last] = severed[last] || later(after[last], now) != later(tat[q], now);
    i = line[q].length;
    do
    :: i > 0 && !severed[line[q].caller[i - 1]] ->
      i--;
      if
      :: hasLeft(line[q].caller[i]) -> firstToMove = i
      :: else
      fi
    :: else -> break
    od
  :: else
  fi;
  i = 0; last = 0
}

// reserved.go: moveUp. The units of callers that leave are given back, and those of callers behind them are taken anew.
inline moveUp(q) {
  earliest = 0;
  i = 0;
  do
  :: i < firstToMove && hasLeft(line[q].caller[i]) -> i++
  :: i < firstToMove && !hasLeft(line[q].caller[i]) -> earliest = slot[line[q].caller[i]]; i++
  :: else -> break
  od;
  w = line[q].caller[firstToMove];
  value = before[w]; at = made[w];
  if
  :: firstToMove > 0 && !severed[line[q].caller[firstToMove - 1]] ->
    w = line[q].caller[firstToMove - 1];
    value = after[w]; at = made[w]
  :: else
  fi;
  i = firstToMove;
  do
  :: i < line[q].length -> taken[q].at[comes[line[q].caller[i]]] = false; i++
  :: else -> break
  od;
  i = firstToMove;
  do
  :: i < line[q].length ->
    w = line[q].caller[i];
    if
    :: !hasLeft(w) ->
      at = later(sooner(now, comes[w]), at);
      made[w] = at;
      before[w] = value;
      comes[w] = later(value, at);
      after[w] = comes[w] + PERIOD;
      slot[w] = later(comes[w], earliest);
      take(q, comes[w]);
      earliest = slot[w];
      value = after[w]
    :: else
    fi;
    i++
  :: else -> break
  od;
  if
  :: isMaster -> tat[q] = value
  :: else // the key is its master's
  fi;
  i = 0; w = 0; at = 0; value = 0; earliest = 0
}

// line.c: giveBack, giveback.go: GiveBack.
inline giveBack(q) {
  findFirstToMove(q);
#ifdef NO_LAPSE
  // As if nobody else could have changed the key.
  i = 0; firstToMove = line[q].length;
  do
  :: i < line[q].length && !hasLeft(line[q].caller[i]) -> i++
  :: else -> firstToMove = i; i = 0; break
  od;
#endif
  if
  :: firstToMove < line[q].length -> moveUp(q)
  :: else
  fi;
  to = 0;
  i = 0;
  do
  :: i < line[q].length ->
    w = line[q].caller[i];
    if
    :: !hasLeft(w) -> line[q].caller[to] = w; to++
    :: hasLeft(w) && i < firstToMove && to > 0 -> severed[line[q].caller[to - 1]] = true
    :: else
    fi;
    i++
  :: else -> break
  od;
  line[q].length = to;
  do
  :: to < CALLERS -> line[q].caller[to] = 0; to++
  :: else -> break
  od;
  i = 0; to = 0; w = 0; firstToMove = 0
}

// line.go: Due, and wait.c: wake, which answers.
inline answerAllDue(q) {
  do
  :: line[q].length > 0 && slot[line[q].caller[0]] <= now ->
    w = line[q].caller[0];
    i = 0;
    do
    :: i + 1 < line[q].length -> line[q].caller[i] = line[q].caller[i + 1]; i++
    :: else -> line[q].caller[i] = 0; break
    od;
    line[q].length--;
    if
    :: !hasLeft(w) ->
      state[w] = ANSWERED;
      i = 0;
      do
      :: i < CALLERS -> must(nobodyIsSkipped, !(state[i] == WAITING && key[i] == q && number[i] < number[w])); i++
      :: else -> break
      od
    :: else
    fi
  :: else -> break
  od;
  i = 0; w = 0
}

inline giveBackAndKeep(q) {
  kept = tat[q];
  giveBack(q);
  must(replicaKeepsItsMasters, isMaster || tat[q] == kept);
  kept = 0
}

// line.c: wake.
inline wake(q) {
  timer[q] = NONE;
  value = tat[q];
  someoneLeft(q);
  if
  :: changed && isMaster && isPaused -> again = RETRY
  :: changed && !(isMaster && isPaused) -> value = 0; giveBackAndKeep(q); again = 0
  :: else -> again = 0
  fi;
  value = 0; changed = false;
#ifdef V010_PAUSE
  if
  :: again -> setTimer(q, RETRY)
  :: else -> answerAllDue(q); setNextTimer(q, 0)
  fi;
#else
  answerAllDue(q);
  setNextTimer(q, again);
#endif
  again = 0
}

// A turn of the event loop takes a tick at most, and in each all timers run that are due. No pause lasts for ever, and
// the clock does not go on for nothing.
#define anyDue  (timer[0] <= now || timer[1] <= now)
#define mayTick (!(isBehind && anyDue) && !(isPaused && pausedFor == LONGEST_PAUSE) && (open[0] || open[1] || now < 3))

inline tick() {
  i = 0;
  do
  :: i < CALLERS -> must(nobodyIsLate, state[i] != WAITING || slot[i] >= now); i++
  :: else -> i = 0; break
  od;
  isBehind = anyDue;
  now++;
  if
  :: isPaused -> pausedFor++
  :: else
  fi
}

// FAILOVER, or REPLICAOF: the server sends away all blocked clients.
inline becomeReplica() {
  isMaster = false; isPaused = false;
  j = 0;
  do
  :: j < CALLERS ->
    if
    :: state[j] == WAITING -> leave(j)
    :: else
    fi;
    j++
  :: else -> j = 0; break
  od
}

active proctype server() {
  d_step { tat[0] = now + 2 * PERIOD; taken[0].at[now] = true; taken[0].at[now + PERIOD] = true }
  do
  :: isDone -> break
  :: atomic {
      !isDone && anyDue ->
      if
      :: timer[0] <= now -> k = 0
      :: timer[1] <= now -> k = 1
      fi;
      wake(k);
      k = 0
    }
  // The callers are alike: they come in order.
  :: atomic {
      !isPaused && arrived < CALLERS ->
      if
      :: true
      :: arrived > 0 -> k = 1
      fi;
      j = arrived;
      arrive(j, k);
      k = 0; j = 0
    }
  :: atomic {
      state[0] == WAITING || state[1] == WAITING || state[2] == WAITING ->
      if
      :: state[0] == WAITING -> j = 0
      :: state[1] == WAITING -> j = 1
      :: state[2] == WAITING -> j = 2
      fi;
      leave(j);
      j = 0
    }
  :: atomic { !isDone && mayTick -> tick() }
  // CLIENT PAUSE WRITE, and the pause of a FAILOVER.
  :: atomic { isMaster && !isPaused && !hasPaused -> isPaused = true; hasPaused = true; pausedFor = 0 }
  :: atomic { isPaused -> isPaused = false; pausedFor = 0 }
  :: atomic { isMaster && hasPaused -> becomeReplica() }
  // What others do.
  :: atomic { isMaster && !isPaused && !hasChanged -> reserve(k); hasChanged = true }
  :: atomic { isMaster && !isPaused && !hasChanged -> tat[0] = 0; isExact[0] = false; hasChanged = true }
  od
}

// "Nobody waits for ever": in every run everybody is answered, refused or gone, and no line is kept.
ltl everybodyIsDone { <> isDone }
