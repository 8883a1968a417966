// The callers that wait in line: package line, module/line.c and module/line.go. Both kinds of callers are here. One
// has reserved a slot of a rate (CL.WAIT with rates). The other is in turn and is decided anew (CL.LEASE, and CL.WAIT
// with a window).
//
// One of these says which callers come:
//   RATES   callers that reserve, on two keys, or with ONE_KEY on one. Callers on key 0 wait for 2 * PERIOD or longer,
//           which is more than the event loop can hold.
//   LEASES  callers in turn for leases, whose number of slots may change.
//   WINDOW  callers in turn for a window, whose units come back as leases lapse, and are given back as leases are.
//   MIXED   callers that reserve and callers in turn for a window, in the line of one key.
// FAIR gives the callers in turn for leases one of two groups and one of two priorities. They have no timeout, and
// there is one slot. CLUSTER adds the look each second, and a slot that moves. Others change the keys, or with STEPS
// the wall clock steps instead. With CALM neither happens.
//
// Each handler is atomic, because the server runs one after the other. Which one comes next is open. Where the module
// calls into the server, another module may run in the middle: nested. Three callers come, each once, so a caller is
// its own handle. Time goes in ticks. Timers are late by one tick at most.
//
// Each of these breaks the model. As version 0.1.0 was:
//   V010_LOST    timers overflow, and never come
//   V010_SPIN    timers overflow, and the event loop spins
//   V010_NESTED  a nested call puts a caller into another line
//   V010_PAUSE   during a pause, a caller that leaves holds up the line
// Otherwise:
//   NO_LAPSE       callers move up although somebody else changed the key
//   NO_ORDER       the earlier slot goes first
//   NO_RECALL      a change while a caller is turned away is forgotten
//   NO_COUNT       lapsed members count as held until they are removed
//   NO_AHEAD       a new caller does not count those that wait
//   NO_TELL        more slots wake nobody
//   NO_OWN_CHANGE  a caller that changed the key before it waits misses what others did then
//   NO_RELEASE     lines that were held up are not woken
//   NO_STEP        lines do not learn of a step of the clock
//   NO_PROMISE     a step forward that is taken back counts as a step back
//   NO_TOLD        a step of the clock between the decision and the line is not seen
//   NO_LOOK        nobody looks each second
//   NO_PLACE       a new caller counts all that wait, also those that it comes before
//   NO_PRIORITY    callers are let in by arrival alone
//   NO_TURNS       a group stays first as long as it has callers
//   LAST_COMES     the last caller of a group goes first
//   NO_SEND_AWAY   a server that becomes a replica leaves it to the server to send its callers away
//   NO_TIMEOUT     a line does not wake up for timeouts
//   NO_CLOSE       a line is not woken when its last caller leaves
//   NO_MASTER      a replica gives slots back
//   NO_HOLD        a line that is held up looks at its callers again at once

#ifndef CALLERS
#define CALLERS 3      // 2 to 4
#endif
#if defined(RATES) && !defined(ONE_KEY)
#define KEYS 2
#else
#define KEYS 1
#endif
#define PERIOD 2
#define HOLDS 4        // what the event loop can hold
#define RETRY 1        // RETRY_PAUSED_MS, RETRY_REFUSED_MS
#define MOST_AT_ONCE 1
#define MOST_REMOVED 1 // MAX_LOWEST
#define TTL 3
#define TIMEOUT 3
#define LOOK_EACH 2    // LOOK_EACH_NS
#define STEP 2         // of the wall clock
#define NONE 255
#if defined(RATES) || defined(MIXED)
#define CAP 3          // LONGEST_TIMER_MS
#else
#define CAP 2
#endif
#ifdef RATES
#define LONGEST_PAUSE 3
#define LAST_CALL 3
#else
#define LONGEST_PAUSE 2
#define LAST_CALL 4
#endif

mtype = { HOME, WAITING, LEFT, DONE }; // a caller that left has a slot that is not given back yet
mtype = { SLEEP, CLOSE, ANSWER, SEND_AWAY, GIVE_BACK, DECIDE, TIME_OUT };

// The properties. Each is true as long as it holds.
bool nobodyIsSkipped = true, nobodyIsLate = true, nobodyIsEarly = true, nobodyIsForgotten = true, neverTooMany = true, timeoutIsKept = true, lookIsKept = true;
bool higherComesFirst = true, groupsTakeTurns = true, nobodyIsHeldBack = true;
bool everybodyInTheirLine = true, noRestOfALine = true, replicaKeepsItsMasters = true, nobodyStaysOnAReplica = true, loopSleeps = true;

#define must(property, condition) property = (condition); assert(property)

// Slots, leases and looks go by the wall clock. Timers, timeouts and the look each second go by the monotonic one, now.
// The server's timers go by both, so they are late after a step back.
byte now = 1, wall = 4;
bool isMaster = true, isPaused, hasMoved;
#if defined(FAIR) && defined(STEPS)
bool hasPaused = true; // FAIR has pauses beside an order, LEASES STEPS has them beside steps
#else
bool hasPaused;
#endif
#if defined(CALM) || defined(STEPS)
bool hasMeddled = true;
#else
bool hasMeddled; // somebody else has changed a key, or another module has made a caller leave
#endif
byte pausedFor;
bool isBehind;   // timers were due before the clock went on
#ifdef STEPS
bool mayStep = true;
#endif
byte ahead;      // of the wall clock: by how much it was set forward
bool hasStepped; // and the module has not seen it yet

// What a key holds for callers that reserve: the instant at which its rate is full.
byte tat[KEYS];
bool isExact[KEYS] = true; // nobody has deleted the key
// The ledger: whether a unit was taken at an instant, and is not given back.
typedef Units { bool at[40] }
Units taken[KEYS];

// What key 0 holds for callers in turn: when the lease of each caller lapses, and of one more that is held from the
// start; 0 for none.
byte lapses[CALLERS + 1];
byte expiresAt;
byte held;       // leases as of now

// line.line.
typedef List { byte length; byte caller[CALLERS] }
List reserved[KEYS]; // callers that have left included
List inTurn[KEYS];
#ifdef FAIR
// line.Place, and line.rank: the groups of each priority whose callers wait, in the order of their turns.
byte group[CALLERS], level[CALLERS];
List ring[2];
byte head;      // the first in line
byte rank, tenant, turn, others;
// The ledger, by priority and group: whether the other group had a turn since this one waits, or since its own turn.
bool passed[4];
#define first(q) head
#define place(x) (2 * level[x] + group[x])
#define sameGroup(x, y) (level[x] == level[y] && group[x] == group[y])
#else
#define first(q) inTurn[q].caller[0]
#endif
bool someLeft[KEYS], changed[KEYS], isHeld[KEYS], awake[KEYS], soon[KEYS];
byte slots[KEYS], look[KEYS], looked[KEYS], wakes[KEYS];
// throttleLine.
bool open[KEYS];
byte timer[KEYS] = NONE; // when it is due
byte retryTimer = NONE;

// line.entry, by caller.
mtype state[CALLERS] = HOME;
bool reserves[CALLERS], isSentAway[CALLERS], severed[CALLERS];
byte key[CALLERS], slot[CALLERS], comes[CALLERS], before[CALLERS], after[CALLERS], made[CALLERS];
byte promised[CALLERS]; // slot, on the monotonic clock
#ifdef STEPS
byte due[CALLERS]; // the same as the caller was told
#endif
byte deadline[CALLERS] = NONE;
byte arrived;

// The call that Go has in hand (package module: current).
byte current;

byte told; // for how long a caller that reserves is told to wait
byte i, j, k, n, m, w, to, at, value, firstToMove, earliest, last, kept, again, most, over;
mtype step;
bool owns, moves;
byte wants, patience; // of a caller that arrives: SLOTS, TIMEOUT
bool waits;

#define later(a, b)   ((a) > (b) -> (a) : (b))
#define sooner(a, b)  ((a) < (b) -> (a) : (b))
#define until(a, b)   ((a) > (b) -> (a) - (b) : 0)
#define hasLeft(x)    (state[x] == LEFT)
#define isOver(x)     (state[x] != HOME && state[x] != WAITING)
#if CALLERS == 2
#define isThere       (lapses[0] || lapses[1] || lapses[2])
#define allOver       (isOver(0) && isOver(1))
#define anyWaiting    (state[0] == WAITING || state[1] == WAITING)
#elif CALLERS == 3
#define isThere       (lapses[0] || lapses[1] || lapses[2] || lapses[3])
#define allOver       (isOver(0) && isOver(1) && isOver(2))
#define anyWaiting    (state[0] == WAITING || state[1] == WAITING || state[2] == WAITING)
#else
#define isThere       (lapses[0] || lapses[1] || lapses[2] || lapses[3] || lapses[4])
#define allOver       (isOver(0) && isOver(1) && isOver(2) && isOver(3))
#define anyWaiting    (state[0] == WAITING || state[1] == WAITING || state[2] == WAITING || state[3] == WAITING)
#endif
#if KEYS == 2
#define anyOpen       (open[0] || open[1])
#define anyTimer      (timer[0] <= now || timer[1] <= now)
#else
#define anyOpen       open[0]
#define anyTimer      (timer[0] <= now)
#endif
#define isDone        (allOver && !anyOpen)

// alarm.c: throttleTurnIn. turn.go: sleepUntil. One timer of the server stands for those of all lines; here each has
// its own.
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

// line.go: wake. turn.go: lookSoon.
inline wakeLine(q) {
  if
  :: open[q] && !awake[q] && !soon[q] -> soon[q] = true; wakes[q] = 0; setTimer(q, 0)
  :: else
  fi
}

// line.go: change. line.c: onChange, for every change of the key.
inline change(q) {
  if
  :: inTurn[q].length > 0 -> changed[q] = true; wakeLine(q)
  :: else
  fi
}

// What is known of a caller is no longer needed.
inline forget(x) {
  state[x] = DONE; deadline[x] = NONE;
  reserves[x] = false; isSentAway[x] = false; severed[x] = false;
  key[x] = 0; slot[x] = 0; comes[x] = 0; before[x] = 0; after[x] = 0; made[x] = 0; promised[x] = 0
#ifdef STEPS
  ; due[x] = 0
#endif
#ifdef FAIR
  ; group[x] = 0; level[x] = 0
#endif
}

inline append(list, x) { list.caller[list.length] = x; list.length++ }

inline drop(list, x) {
  i = 0;
  do
  :: list.caller[i] != x -> i++
  :: else -> break
  od;
  do
  :: i + 1 < list.length -> list.caller[i] = list.caller[i + 1]; i++
  :: else -> list.caller[i] = 0; break
  od;
  list.length--;
  i = 0
}

#ifdef FAIR
// order.go: first.
inline findHead(q) {
  head = 0; i = 0;
#ifdef NO_PRIORITY
  head = inTurn[q].caller[0];
#else
  if
  :: inTurn[q].length > 0 ->
    rank = (ring[1].length > 0 -> 1 : 0);
    tenant = ring[rank].caller[0];
#ifdef LAST_COMES
    i = inTurn[q].length - 1;
    do
    :: level[inTurn[q].caller[i]] != rank || group[inTurn[q].caller[i]] != tenant -> i--
    :: else -> break
    od;
#else
    do
    :: level[inTurn[q].caller[i]] != rank || group[inTurn[q].caller[i]] != tenant -> i++
    :: else -> break
    od;
#endif
    head = inTurn[q].caller[i]
  :: else
  fi;
#endif
  i = 0; rank = 0; tenant = 0
}

// order.go: findGroup. i is behind the last caller if none of the group waits.
inline findGroup(q, x) {
  i = 0;
  do
  :: i < inTurn[q].length && !(inTurn[q].caller[i] != x && sameGroup(inTurn[q].caller[i], x)) -> i++
  :: else -> break
  od
}

// order.go: join. A new group is last among those of its priority.
inline joinGroup(q, x) {
  findGroup(q, x);
  if
  :: i == inTurn[q].length ->
    append(ring[level[x]], group[x])
  :: else
  fi;
  i = 0;
  findHead(q)
}

// order.go: drop. line.go: LetIn, by which the group goes behind the others.
inline leaveGroup(q, x, isLetIn) {
  findGroup(q, x);
  if
  :: i == inTurn[q].length -> drop(ring[level[x]], group[x]); passed[place(x)] = false
#ifndef NO_TURNS
  :: i < inTurn[q].length && isLetIn -> drop(ring[level[x]], group[x]); append(ring[level[x]], group[x])
#endif
  :: else
  fi;
  i = 0;
  findHead(q)
}

// order.go: Ahead.
inline countAhead(q, x) {
  others = 0; turn = 1; i = 0;
  do
  :: i < inTurn[q].length ->
    others = others + (level[inTurn[q].caller[i]] > level[x] -> 1 : 0);
    turn = turn + (sameGroup(inTurn[q].caller[i], x) -> 1 : 0);
    i++
  :: else -> break
  od;
  m = 0;
  do
  :: m < ring[level[x]].length ->
    tenant = ring[level[x]].caller[m];
    turn = (tenant == group[x] -> turn - 1 : turn);
    i = 0; n = 0;
    do
    :: i < inTurn[q].length ->
      n = n + (level[inTurn[q].caller[i]] == level[x] && group[inTurn[q].caller[i]] == tenant -> 1 : 0);
      i++
    :: else -> break
    od;
    others = others + sooner(n, turn);
    m++
  :: else -> break
  od;
  i = 0; m = 0; n = 0; tenant = 0; turn = 0
}

// Of a new caller: how many that wait have its priority or a higher one. Each of them comes before it, or shares its
// turn.
inline countNotLower(q, x) {
  j = 0; i = 0;
  do
  :: i < inTurn[q].length -> j = j + (level[inTurn[q].caller[i]] >= level[x] -> 1 : 0); i++
  :: else -> i = 0; break
  od
}

// What has to hold when a caller in turn is let in.
inline checkTurn(q, x) {
  i = 0;
  do
  :: i < inTurn[q].length ->
    m = inTurn[q].caller[i];
    must(nobodyIsSkipped, !sameGroup(m, x) || x <= m); // they came in the order of their numbers
    must(higherComesFirst, level[m] <= level[x]);
    must(groupsTakeTurns, level[m] != level[x] || group[m] == group[x] || !passed[place(m)]);
    i++
  :: else -> break
  od;
  i = 0;
  do
  :: i < inTurn[q].length ->
    m = inTurn[q].caller[i];
    passed[place(m)] = (level[m] == level[x] -> group[m] != group[x] : passed[place(m)]);
    i++
  :: else -> break
  od;
  i = 0; m = 0
}
#endif

// line.go: leaveTurn. The caller behind may need less, although no caller of the model does.
inline leaveTurn(q, x, isLetIn) {
  changed[q] = changed[q] || (first(q) == x && inTurn[q].length > 1);
  drop(inTurn[q], x);
#ifdef FAIR
  leaveGroup(q, x, isLetIn);
#endif
  forget(x)
}

// line.c: leave. line.go: Leave. A disconnect, CLIENT UNBLOCK, or a master that becomes a replica.
inline leave(x) {
  if
  :: reserves[x] -> state[x] = LEFT; someLeft[key[x]] = true; wakeLine(key[x])
  :: else -> // callers in turn are on key 0
    leaveTurn(0, x, false);
    if
    :: changed[0] -> wakeLine(0)
#ifndef NO_CLOSE
    :: !changed[0] && inTurn[0].length == 0 -> wakeLine(0)
#endif
    :: else
    fi
  fi
}

inline dropSet() {
  i = 0;
  do
  :: i <= CALLERS -> lapses[i] = 0; i++
  :: else -> i = 0; break
  od;
  expiresAt = 0
}

// The server deletes a key that has expired when somebody opens it, or when it comes across it.
inline expireKey() {
  if
  :: isThere && expiresAt <= wall -> dropSet(); change(0)
  :: else
  fi
}

inline findHighest() {
  expiresAt = 0; i = 0;
  do
  :: i <= CALLERS -> expiresAt = later(expiresAt, lapses[i]); i++
  :: else -> i = 0; break
  od
}

// members.c: throttleGatherMembers. Lapsed members that are left do not count, by ZCOUNT.
inline countHeld() {
  held = 0; n = 0; i = 0;
  do
  :: i <= CALLERS ->
    held = held + (lapses[i] > wall -> 1 : 0);
    n = n + (lapses[i] && lapses[i] <= wall -> 1 : 0);
    i++
  :: else -> i = 0; break
  od
}

inline gather() {
  countHeld();
#ifdef NO_COUNT
  held = held + n;
#endif
  n = 0
}

// lease.go: Take of a slot that is free. members.c: changeSet, which removes no more than it saw.
inline grant(q, x, most, others) {
  must(neverTooMany, held < most);
  must(nobodyIsSkipped, held + others < most);
  n = 0; i = 0;
  do
  :: i <= CALLERS && n < MOST_REMOVED && lapses[i] && lapses[i] <= wall -> lapses[i] = 0; n++; i++
  :: i <= CALLERS && !(n < MOST_REMOVED && lapses[i] && lapses[i] <= wall) -> i++
  :: else -> break
  od;
  lapses[x] = wall + TTL;
  state[x] = DONE;
  n = 0;
  findHighest();
  change(q)
}

// When the next lease lapses (lease.go: UntilNextNs). If others gave the key an earlier end, that is not known.
inline findLook() {
  again = NONE - wall; i = 0;
  do
  :: i <= CALLERS -> again = (lapses[i] > wall -> sooner(again, lapses[i] - wall) : again); i++
  :: else -> i = 0; break
  od
}

inline take(q, instant) {
  must(neverTooMany, !isExact[q] || (!taken[q].at[instant] && !taken[q].at[instant + 1] && (instant == 0 || !taken[q].at[instant - 1])));
  taken[q].at[instant] = true
}

// Somebody else's CL.LIMIT with MAXWAIT.
inline reserveElsewhere(q) {
  at = later(tat[q], wall);
  take(q, at);
  tat[q] = at + PERIOD;
  at = 0;
  change(q)
}

// Another module, in the middle of ours. It makes the first of a kind leave, or gives back a lease. It reserves on
// this key, or calls a command on the other one, which becomes the call in hand.
inline nested(q) {
  if
  :: true
#if KEYS == 2
  :: current = 1 - q
#endif
  :: !hasMeddled && tat[q] -> hasMeddled = true; reserveElsewhere(q)
  :: !hasMeddled && isThere -> hasMeddled = true; dropSet(); change(q)
  :: !hasMeddled && inTurn[q].length > 0 -> hasMeddled = true; m = first(q); leave(m); m = 0
  :: !hasMeddled && reserved[q].length > 0 && state[reserved[q].caller[0]] == WAITING ->
    hasMeddled = true; m = reserved[q].caller[0]; leave(m); m = 0
  fi
}

#ifdef V010_PAUSE
#define mayGiveBack(q) someLeft[q]
#else
#define mayGiveBack(q) (someLeft[q] && !isHeld[q])
#endif

// The earliest deadline of a line.
inline findOver(q) {
  over = NONE; i = 0;
  do
  :: i < inTurn[q].length -> over = sooner(over, deadline[inTurn[q].caller[i]]); i++
  :: else -> i = 0; break
  od
}

// line.go: sleepNs.
inline findSleep(q) {
  value = NONE - now;
  if
  :: mayGiveBack(q) -> value = 0
  :: else ->
    if
    :: reserved[q].length > 0 -> value = until(slot[reserved[q].caller[0]], wall)
    :: else
    fi;
    if
#ifdef NO_HOLD
    :: inTurn[q].length > 0 ->
#else
    :: inTurn[q].length > 0 && !isHeld[q] ->
#endif
      value = (changed[q] -> 0 : sooner(value, until(look[q], wall)));
#if defined(CLUSTER) && !defined(NO_LOOK)
      value = sooner(value, until(looked[q] + LOOK_EACH, now))
#endif
    :: else
    fi;
#ifndef NO_TIMEOUT
    findOver(q);
    value = sooner(value, until(over, now));
    over = 0
#endif
  fi
}

// line.go: stand. line.c: throttleWait.
inline stand(q, x) {
  state[x] = WAITING;
  findSleep(q);
  if
  :: !awake[q] && (!open[q] || now + value < wakes[q]) -> wakes[q] = now + value; setTimer(q, value)
  :: else
  fi;
  open[q] = true;
  value = 0
}

// reserved.go: Reserve. The reservation of caller x was made on the key of the call, with what was kept before.
inline reserve(q, x, kept) {
  if
  :: reserved[q].length > 0 ->
    last = reserved[q].caller[reserved[q].length - 1];
    severed[last] = severed[last] || later(after[last], wall) != later(kept, wall);
#ifdef NO_ORDER
    slot[x] = comes[x]
#else
    slot[x] = later(comes[x], slot[last])
#endif
  :: else -> slot[x] = comes[x]
  fi;
  before[x] = kept; after[x] = comes[x] + PERIOD; made[x] = wall;
  append(reserved[q], x);
#ifdef NO_ORDER
  // The caller with the earlier slot goes before.
  i = reserved[q].length - 1;
  do
  :: i > 0 && slot[reserved[q].caller[i - 1]] > slot[x] -> reserved[q].caller[i] = reserved[q].caller[i - 1]; reserved[q].caller[i - 1] = x; i--
  :: else -> i = 0; break
  od;
#endif
  last = 0;
  must(everybodyInTheirLine, q == key[x])
}

// reserved.go: EnterReserved. The clock may have been set back since the caller was told how long it waits.
inline enterReserved(q, x) {
  if
#ifndef NO_TOLD
  :: comes[x] > wall + told -> slot[x] = wall + told; severed[x] = true
#endif
  :: else
  fi;
  if
  :: reserved[q].length > 1 -> slot[x] = later(slot[x], slot[reserved[q].caller[reserved[q].length - 2]])
  :: else
  fi;
  promised[x] = now + slot[x] - wall;
  told = 0
}

inline stepInCall() {
#ifdef STEPS
  if
  :: true
  :: mayStep -> mayStep = false; stepBack(); noticeStep()
  fi
#else
  skip
#endif
}

// command.c: run. wait.go: wait. line.c: throttleWait. The reservation is noted before other modules run.
inline arriveToReserve(q, x) {
  reserves[x] = true;
  current = q;
  if
  :: tat[q] <= wall -> take(q, wall); tat[q] = wall + PERIOD; forget(x); change(q)
  :: else ->
    kept = tat[q];
    comes[x] = tat[q];
    told = comes[x] - wall;
    take(q, comes[x]);
    tat[q] = comes[x] + PERIOD;
#ifdef V010_NESTED
    nested(q);
    reserve(current, x, kept);
#else
    reserve(q, x, kept);
    change(q);
    nested(q);
#endif
    kept = 0;
#ifdef STEPS
    due[x] = now + slot[x] - wall;
#endif
    stepInCall();
    enterReserved(q, x);
    stand(q, x)
  fi;
  current = 0
}

// line.go: Tell.
inline tell(q) {
#ifdef LEASES
  if
  :: inTurn[q].length > 0 && slots[q] != wants ->
    slots[q] = wants;
#ifndef NO_TELL
    change(q)
#endif
  :: else
  fi
#else
  skip
#endif
}

#if defined(FAIR) && !defined(NO_PLACE) && !defined(NO_AHEAD)
#define mayPass(q) (held + others < wants)
#elif defined(NO_AHEAD)
#define mayPass(q) (held < wants)
#elif defined(LEASES)
#define mayPass(q) (held + inTurn[q].length < wants)
#else
#define mayPass(q) (inTurn[q].length == 0 && held < wants)
#endif

// command.c: run. lease.go: takeLease. wait.go: waitForRoom. line.c: throttleWait.
inline arriveInTurn(q, x) {
  expireKey();
  gather();
#ifdef FAIR
  countAhead(q, x);
  countNotLower(q, x);
#else
  j = inTurn[q].length; // before the grant, which wakes the line
#endif
  if
  :: mayPass(q) ->
    grant(q, x, wants, j);
    j = 0;
    tell(q)
  :: else ->
#ifdef FAIR
    must(nobodyIsHeldBack, held + j >= wants);
#endif
    j = 0;
    tell(q);
    if
    :: !waits -> state[x] = DONE
    :: else ->
      findLook();
#ifndef LEASES
      again = (inTurn[q].length > 0 -> 0 : again);
#endif
      // The decision may have changed the key: others then run before the caller stands in line.
      if
      :: true
      :: !hasMeddled && isThere -> owns = true; change(q); nested(q)
      fi;
      enterTurn(q, x)
    fi
  fi;
  held = 0; again = 0; owns = false
#ifdef FAIR
  ; others = 0
#endif
}

// line.go: EnterTurn.
inline enterTurn(q, x) {
  if
  :: inTurn[q].length == 0 -> changed[q] = false
  :: else
  fi;
#ifndef NO_OWN_CHANGE
  changed[q] = changed[q] || owns;
#endif
  slots[q] = wants;
  append(inTurn[q], x);
#ifdef FAIR
  joinGroup(q, x);
#endif
  if
  :: first(q) == x -> look[q] = wall + again; looked[q] = now
  :: else
  fi;
  if
  :: patience -> deadline[x] = now + patience
  :: else
  fi;
  stand(q, x)
}

// reserved.go: firstToMove.
inline findFirstToMove(q) {
  firstToMove = reserved[q].length;
  if
  :: reserved[q].length > 0 ->
    last = reserved[q].caller[reserved[q].length - 1];
    severed[last] = severed[last] || later(after[last], wall) != later(tat[q], wall);
    i = reserved[q].length;
    do
    :: i > 0 && !severed[reserved[q].caller[i - 1]] ->
      i--;
      firstToMove = (hasLeft(reserved[q].caller[i]) -> i : firstToMove)
    :: else -> break
    od
  :: else
  fi;
  i = 0; last = 0
}

// reserved.go: moveUp. The units of callers that left are given back, and those behind are taken anew.
inline moveUp(q) {
  earliest = 0;
  i = 0;
  do
  :: i < firstToMove -> earliest = (hasLeft(reserved[q].caller[i]) -> earliest : slot[reserved[q].caller[i]]); i++
  :: else -> break
  od;
  m = reserved[q].caller[firstToMove];
  value = before[m]; at = made[m];
  if
  :: firstToMove > 0 && !severed[reserved[q].caller[firstToMove - 1]] ->
    m = reserved[q].caller[firstToMove - 1];
    value = after[m]; at = made[m]
  :: else
  fi;
  i = firstToMove;
  do
  :: i < reserved[q].length -> taken[q].at[comes[reserved[q].caller[i]]] = false; i++
  :: else -> break
  od;
  i = firstToMove;
  do
  :: i < reserved[q].length ->
    m = reserved[q].caller[i];
    if
    :: !hasLeft(m) ->
      at = later(sooner(wall, comes[m]), at);
      made[m] = at;
      before[m] = value;
      comes[m] = later(value, at);
      after[m] = comes[m] + PERIOD;
      promised[m] = promised[m] + later(comes[m], earliest) - slot[m];
#ifdef STEPS
      due[m] = due[m] + later(comes[m], earliest) - slot[m];
#endif
      slot[m] = later(comes[m], earliest);
      take(q, comes[m]);
      earliest = slot[m];
      value = after[m]
    :: else
    fi;
    i++
  :: else -> break
  od;
#ifdef NO_MASTER
  tat[q] = value;
#else
  if
  :: isMaster -> tat[q] = value
  :: else // the key is its master's
  fi;
#endif
  i = 0; m = 0; at = 0; value = 0; earliest = 0
}

// reserved.go: GiveBack.
inline takeOut(q) {
  findFirstToMove(q);
#ifdef NO_LAPSE
  // As if nobody else could have changed the key.
  i = 0; firstToMove = reserved[q].length;
  do
  :: i < reserved[q].length && !hasLeft(reserved[q].caller[i]) -> i++
  :: else -> firstToMove = i; i = 0; break
  od;
#endif
  moves = firstToMove < reserved[q].length;
  if
  :: moves -> moveUp(q)
  :: else
  fi;
  to = 0;
  i = 0;
  do
  :: i < reserved[q].length ->
    m = reserved[q].caller[i];
    if
    :: !hasLeft(m) -> reserved[q].caller[to] = m; to++
    :: hasLeft(m) ->
      if
      :: i < firstToMove && to > 0 -> severed[reserved[q].caller[to - 1]] = true
      :: else
      fi;
      forget(m)
    fi;
    i++
  :: else -> break
  od;
  reserved[q].length = to;
  do
  :: to < CALLERS -> reserved[q].caller[to] = 0; to++
  :: else -> break
  od;
  someLeft[q] = false;
  i = 0; to = 0; m = 0; firstToMove = 0
}

// line.go: HoldUp. line.c: retryLater.
inline holdUp(q) {
  changed[q] = inTurn[q].length > 0;
  someLeft[q] = false; i = 0;
  do
  :: i < reserved[q].length -> someLeft[q] = someLeft[q] || hasLeft(reserved[q].caller[i]); i++
  :: else -> i = 0; break
  od;
  isHeld[q] = true;
  retryTimer = (retryTimer == NONE -> now + RETRY : retryTimer)
}

// line.c: giveBack. On a replica the slots lapse.
inline giveBack(q) {
  if
  :: isMaster && isPaused ->
    holdUp(q);
#ifdef V010_PAUSE
    awake[q] = false; setTimer(q, RETRY); step = SLEEP
#endif
  :: else ->
    nested(q); // the key is opened
    kept = tat[q];
    takeOut(q);
    must(replicaKeepsItsMasters, isMaster || tat[q] == kept);
    kept = 0;
    if
    :: moves && isMaster -> change(q); nested(q)
    :: else
    fi;
    moves = false
  fi
}

// line.c: answerReserved.
inline answer(q) {
  i = 0;
  do
  :: i < CALLERS -> must(nobodyIsSkipped, !(state[i] == WAITING && reserves[i] && key[i] == q && i < w)); i++ // they came in the order of their numbers
  :: else -> i = 0; break
  od;
#ifdef STEPS
  must(nobodyIsEarly, wall >= comes[w] || now >= due[w]);
#else
  must(nobodyIsEarly, wall >= comes[w]);
#endif
  forget(w)
}

// line.c: decideFirst.
inline decideFirst(q) {
  expireKey();
  nested(q); // the key is opened
  if
  :: state[w] != WAITING || w != first(q) // it left in the middle
  :: state[w] == WAITING && w == first(q) ->
    gather();
    if
    :: held < slots[q] ->
#ifdef FAIR
      checkTurn(q, w);
#else
      j = 0;
      do
      :: j < inTurn[q].length -> must(nobodyIsSkipped, w <= inTurn[q].caller[j]); j++
      :: else -> j = 0; break
      od;
#endif
      leaveTurn(q, w, true);
      grant(q, w, slots[q], 0);
      nested(q)
    :: else -> findLook(); look[q] = wall + again; again = 0
    fi;
    held = 0
  fi
}

// line.c: decideIfPossible. Writes that are refused are a pause.
inline decide(q) {
  if
  :: isPaused -> holdUp(q)
  :: !isPaused && !hasMoved -> decideFirst(q)
  :: !isPaused && hasMoved -> sendTurnsAway(q)
  fi
}

// line.go: HasMoved.
inline sendTurnsAway(q) {
  i = 0;
  do
  :: i < inTurn[q].length -> isSentAway[inTurn[q].caller[i]] = true; i++
  :: else -> i = 0; break
  od
}

// line.c: sendOff, decideLeaving.
inline timeOut(q) {
  expireKey();
  nested(q);
#ifdef NO_RECALL
  changed[q] = false;
#endif
  if
  :: state[w] == WAITING -> leaveTurn(q, w, false)
  :: else
  fi
}

// line.go: nextAway, which goes through the groups: nothing else happens before all have been sent away, so their order
// does not matter.
inline findAway(q) {
  i = 0; w = NONE;
  do
  :: i < reserved[q].length && w == NONE ->
    w = (isSentAway[reserved[q].caller[i]] && !hasLeft(reserved[q].caller[i]) -> reserved[q].caller[i] : NONE);
    i++
  :: else -> i = 0; break
  od;
  w = (w == NONE && inTurn[q].length > 0 && isSentAway[inTurn[q].caller[0]] -> inTurn[q].caller[0] : w)
}

// line.go: due. Callers that left and whose slots have come are forgotten.
inline findDue(q) {
  do
  :: reserved[q].length > 0 && slot[reserved[q].caller[0]] <= wall && hasLeft(reserved[q].caller[0]) ->
    w = reserved[q].caller[0]; drop(reserved[q], w); forget(w)
  :: else -> break
  od;
  w = (reserved[q].length > 0 && slot[reserved[q].caller[0]] <= wall -> reserved[q].caller[0] : NONE);
  if
  :: w != NONE -> drop(reserved[q], w)
  :: else
  fi
}

// line.go: mayMove.
#ifdef CLUSTER
#ifndef NO_LOOK
#define isLookDue(q) (now >= looked[q] + LOOK_EACH)
#else
#define isLookDue(q) false
#endif
#else
#define isLookDue(q) false
#endif
#define mayMove(q) (inTurn[q].length > 0 && !isHeld[q] && (changed[q] || look[q] <= wall || isLookDue(q) || (over <= now && looked[q] < over)))

// line.go: Next.
inline next(q) {
  awake[q] = true; soon[q] = false;
  findAway(q);
  if
  :: w != NONE ->
    step = SEND_AWAY;
    if
    :: reserves[w] -> state[w] = LEFT; someLeft[q] = true
    :: else -> leaveTurn(q, w, false)
    fi
  :: w == NONE && mayGiveBack(q) -> someLeft[q] = false; step = GIVE_BACK
  :: else ->
    findDue(q);
    findOver(q);
    if
    :: w != NONE -> step = ANSWER
    :: w == NONE && mayMove(q) && most < MOST_AT_ONCE ->
      changed[q] = false; look[q] = NONE; looked[q] = now;
      w = first(q);
      step = DECIDE
    :: w == NONE && !mayMove(q) && over <= now && most < MOST_AT_ONCE ->
      w = 0;
      do
      :: deadline[w] != over -> w++
      :: else -> break
      od;
      deadline[w] = NONE;
      step = TIME_OUT
    :: else ->
      awake[q] = false;
      step = (reserved[q].length == 0 && inTurn[q].length == 0 -> CLOSE : SLEEP)
    fi;
    over = 0
  fi
}

// line.c: closeLine. line.go: close.
inline close(q) {
  open[q] = false; timer[q] = NONE;
  someLeft[q] = false; changed[q] = false; isHeld[q] = false; soon[q] = false;
  slots[q] = 0; look[q] = 0; looked[q] = 0; wakes[q] = 0
}

// line.c: throttleTurn. turn.go: NextOfAll. A turn of the event loop with more to do than it has room for is not
// modelled.
inline wake(q) {
  timer[q] = NONE;
  step = GIVE_BACK; most = 0;
  do
  :: step != SLEEP && step != CLOSE ->
    next(q);
    if
    :: step == ANSWER -> answer(q)
    :: step == SEND_AWAY
    :: step == GIVE_BACK -> giveBack(q)
    :: step == DECIDE -> most++; decide(q)
    :: step == TIME_OUT -> most++; timeOut(q)
    :: step == CLOSE -> close(q)
    :: step == SLEEP -> findSleep(q); wakes[q] = now + value; setTimer(q, value); value = 0
    fi
  :: else -> break
  od;
  step = 0; w = 0; most = 0; current = 0
}

// line.c: retryIfDue. line.go: Release.
inline retry() {
  retryTimer = NONE;
  k = 0;
  do
  :: k < KEYS && isHeld[k] && isPaused -> retryTimer = now + RETRY; k++
  :: k < KEYS && isHeld[k] && !isPaused ->
    isHeld[k] = false;
#ifndef NO_RELEASE
    wakeLine(k);
#endif
    k++
  :: k < KEYS && !isHeld[k] -> k++
  :: else -> k = 0; break
  od
}

// The wall clock is set forward, or back. Timers go by it: those that are set come later after a step back.
inline stepBack() {
  wall = wall - STEP;
  hasStepped = true;
  k = 0;
  do
  :: k < KEYS -> timer[k] = (timer[k] == NONE -> NONE : timer[k] + STEP); k++
  :: else -> k = 0; break
  od;
  retryTimer = (retryTimer == NONE -> NONE : retryTimer + STEP)
}

// line.c: noteSteps. alarm.c: throttleNoteSteps. line.go: Stepped.
inline noticeStep() {
#ifndef NO_STEP
  k = 0;
  do
  :: k < KEYS && open[k] ->
    i = 0;
    do
    :: i < reserved[k].length ->
      m = reserved[k].caller[i];
      if
      :: state[m] != HOME && slot[m] + now > wall + promised[m] -> slot[m] = wall + promised[m] - now; severed[m] = true
      :: else
      fi;
#ifdef NO_PROMISE
      promised[m] = now + slot[m] - wall;
#endif
      i++
    :: else -> i = 0; m = 0; break
    od;
    changed[k] = inTurn[k].length > 0; soon[k] = true; wakes[k] = 0;
    setTimer(k, 0);
    k++
  :: k < KEYS && !open[k] -> k++
  :: else -> k = 0; break
  od;
  retryTimer = (retryTimer == NONE -> NONE : now);
#endif
  isBehind = true; // the timers run before the clock goes on
  hasStepped = false
}

// A turn of the event loop takes a tick at most, and in each all timers run that are due. No pause lasts for ever, and
// the clock does not go on for nothing.
#define anyDue  (anyTimer || retryTimer <= now)
#define mayTick (!(isBehind && anyDue) && !hasStepped && !(isPaused && pausedFor == LONGEST_PAUSE) && (anyOpen || now < LAST_CALL))

// A line whose first caller could be let in is about to be woken: a timer is due, or it is held up and looked at again
// soon.
inline tick() {
  countHeld();
  n = 0;
  must(nobodyIsForgotten, inTurn[0].length == 0 || hasMoved || held >= slots[0] || timer[0] <= now || (isHeld[0] && retryTimer <= now + RETRY));
  held = 0;
  k = 0;
  do
  :: k < KEYS ->
    must(noRestOfALine, !awake[k] && (open[k] == (reserved[k].length + inTurn[k].length > 0) || timer[k] <= now));
#ifdef CLUSTER
    must(lookIsKept, inTurn[k].length == 0 || isHeld[k] || soon[k] || looked[k] + LOOK_EACH >= now);
#endif
    k++
  :: else -> k = 0; break
  od;
  i = 0;
  do
  :: i < CALLERS ->
    must(nobodyIsLate, state[i] != WAITING || !reserves[i] || slot[i] >= wall);
#ifdef STEPS
    must(nobodyIsLate, state[i] != WAITING || !reserves[i] || due[i] >= now);
#endif
    must(nobodyStaysOnAReplica, state[i] != WAITING || isMaster || timer[key[i]] <= now);
    must(timeoutIsKept, state[i] != WAITING || deadline[i] >= now);
    i++
  :: else -> i = 0; break
  od;
  isBehind = anyDue;
  now++; wall++;
  pausedFor = (isPaused -> pausedFor + 1 : pausedFor)
}

// FAILOVER, REPLICAOF. The server sends callers away, except for those that follow redirects in Valkey 9. line.c:
// throttleLeaveToMaster.
inline becomeReplica() {
  isMaster = false; isPaused = false; pausedFor = 0;
  if
  :: true ->
    j = 0;
    do
    :: j < CALLERS && state[j] == WAITING -> leave(j); j++
    :: j < CALLERS && state[j] != WAITING -> j++
    :: else -> j = 0; break
    od
  :: true
  fi;
#ifndef NO_SEND_AWAY
  j = 0;
  do
  :: j < CALLERS && state[j] == WAITING -> isSentAway[j] = true; wakeLine(key[j]); j++
  :: j < CALLERS && state[j] != WAITING -> j++
  :: else -> j = 0; break
  od
#endif
}

active proctype server() {
  d_step {
#if defined(RATES) || defined(MIXED)
    tat[0] = wall + 2 * PERIOD; taken[0].at[wall] = true; taken[0].at[wall + PERIOD] = true;
#endif
#ifndef RATES
    lapses[CALLERS] = wall + TTL; expiresAt = wall + TTL
#endif
  }
  do
  :: isDone -> break
  :: atomic {
      !isDone && anyTimer ->
      if
      :: timer[0] <= now -> k = 0
#if KEYS == 2
      :: timer[1] <= now -> k = 1
#endif
      fi;
      wake(k);
      k = 0
    }
  :: atomic { retryTimer <= now -> retry() }
  // While writes are paused the server does not run the command. The callers are alike: they come in order.
  :: atomic {
      !isPaused && arrived < CALLERS ->
      j = arrived; arrived++;
      if
      :: !isMaster -> state[j] = DONE; j = 0
#if defined(RATES) || defined(MIXED)
      :: isMaster -> w = j; j = 0; arriveToReserve(0, w); w = 0
#endif
#if KEYS == 2
      :: isMaster && arrived > 1 -> w = j; j = 0; key[w] = 1; arriveToReserve(1, w); w = 0
#endif
#ifndef RATES
      :: isMaster ->
        w = j; j = 0;
#ifdef LEASES
        wants = 1;
#else
        wants = 2;
#endif
        waits = true;
#ifdef FAIR
        if
        :: true
        :: w > 0 -> group[w] = 1 // the groups are alike
        fi;
        if
        :: true
        :: level[w] = 1
        fi;
#else
        if
        :: true
        :: patience = TIMEOUT
        :: waits = false
#ifdef LEASES
        :: wants = 2
#endif
        fi;
#endif
        arriveInTurn(0, w);
        w = 0; wants = 0; waits = false; patience = 0
#endif
      fi
    }
  :: atomic {
      anyWaiting ->
      if
      :: state[0] == WAITING -> w = 0
      :: state[1] == WAITING -> w = 1
#if CALLERS > 2
      :: state[2] == WAITING -> w = 2
#endif
#if CALLERS > 3
      :: state[3] == WAITING -> w = 3
#endif
      fi;
      leave(w);
      w = 0
    }
  :: atomic { !isDone && mayTick -> tick() }
  // CLIENT PAUSE WRITE, the pause of a FAILOVER, and writes that are refused (no memory, a full disk).
  :: atomic { isMaster && !isPaused && !hasPaused -> isPaused = true; hasPaused = true; pausedFor = 0 }
  :: atomic { isPaused -> isPaused = false; pausedFor = 0 }
  :: atomic { isMaster && hasPaused && !hasMoved -> becomeReplica() }
#ifdef STEPS
  // The clock steps forward and perhaps back again, or back.
  :: atomic { mayStep && arrived > 0 -> mayStep = false; wall = wall + STEP; ahead = STEP; hasStepped = true }
  :: atomic { mayStep && arrived > 0 -> mayStep = false; stepBack() }
  :: atomic { ahead && !hasStepped -> ahead = 0; stepBack() }
  :: atomic { hasStepped -> noticeStep() }
#endif
#if defined(RATES) || defined(MIXED)
  // What others do.
  :: atomic { isMaster && !isPaused && !hasMeddled -> reserveElsewhere(0); hasMeddled = true }
#if KEYS == 2
  :: atomic { isMaster && !isPaused && !hasMeddled -> reserveElsewhere(1); hasMeddled = true }
#endif
  :: atomic { isMaster && !isPaused && !hasMeddled -> tat[0] = 0; isExact[0] = false; hasMeddled = true; change(0) }
#endif
#ifndef RATES
  // CL.RELEASE, by a caller that holds a lease.
  :: atomic { !isPaused && isMaster && lapses[CALLERS] > wall -> lapses[CALLERS] = 0; findHighest(); change(0) }
  :: atomic { !isPaused && isMaster && lapses[0] > wall -> lapses[0] = 0; findHighest(); change(0) }
  // PEXPIRE by somebody else tells that the key has an expiry, and not when. The server comes across the key at some
  // time.
  :: atomic { !hasMeddled && isThere && !isPaused && expiresAt > wall + 1 -> expiresAt = wall + 1; change(0); hasMeddled = true }
  :: atomic { isThere && expiresAt <= wall -> expireKey() }
#endif
#ifdef CLUSTER
  // The slot of the key moves to another node of the cluster.
  :: atomic { isMaster && inTurn[0].length > 0 && !hasPaused && !hasMoved -> hasMoved = true; hasPaused = true }
#endif
  od
}

// "Nobody waits for ever": in every run everybody is answered, turned away or gone, and no line is kept.
ltl everybodyIsDone { <> isDone }
