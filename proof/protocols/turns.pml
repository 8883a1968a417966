// The line in which callers take turns: module/line.c and package line, with the leases of command/lease.go, package lease and
// module/members.c; with -DWINDOW a WINDOW instead (command/wait.go: takeInTurn),
// whose units come back as leases lapse, and are given back as leases are.
//
// Each handler is atomic, since the server runs one after the other; which comes next is open. Where the module calls into the server, another
// module may run in the middle: nested. Three callers come, each once. Time goes in ticks.
//
// Each of these breaks the model: NO_RECALL (a change while the line is in hand is forgotten), NO_COUNT (lapsed members count as
// held until they are removed), NO_AHEAD (a newcomer counts nobody in line), NO_TELL (more slots wake nobody).
// With -DCALM nobody meddles.

#define CALLERS 3
#define CAP 2          // LONGEST_TIMER_MS, LONGEST_IN_CLUSTER_MS
#define RETRY 1        // RETRY_PAUSED_MS, RETRY_REFUSED_MS
#define LONGEST_PAUSE 2
#define MOST_AT_ONCE 1
#define MOST_REMOVED 1 // MAX_LOWEST
#define TTL 3
#define TIMEOUT 3
#define NONE 255

mtype = { HOME, WAITING, IN, LIMITED, LEFT, AWAY };

// The properties. Each is true as long as it holds.
bool nobodyIsSkipped = true, nobodyIsForgotten = true, neverTooMany = true, timeoutIsKept = true, noRestOfALine = true;

#define must(property, condition) property = (condition); assert(property)

byte now = 1;
bool isMaster = true, isPaused, hasPaused, hasMoved;
#ifdef CALM
bool hasMeddled = true;
#else
bool hasMeddled;
#endif
byte pausedFor;
bool isBehind;         // timers were due before the clock went on

// The sorted set: when the lease of each member lapses, and of the one more that is held from the start; 0 for none.
byte lapses[CALLERS + 1];
byte expiresAt;        // the key
byte held;             // as of now, of the members that are there

// throttleLine.
bool isOpen;
byte length, line[CALLERS];
byte slots = 1;        // as the latest caller told
byte timer = NONE;
bool isSoon, hasChanged;
byte isInHand;

// waiter.
mtype state[CALLERS] = HOME;
byte deadlineAt[CALLERS] = NONE, deadline[CALLERS] = NONE; // when its time is over, and its timer
byte arrived;

byte i, j, n, w, who, most, again;
bool isRetrying;
byte wants, patience; // of a caller that arrives: SLOTS, TIMEOUT
bool waits;

#define isOver(x)  (state[x] != HOME && state[x] != WAITING)
#define isDone     (isOver(0) && isOver(1) && isOver(2) && !isOpen)
#define isThere    (lapses[0] || lapses[1] || lapses[2] || lapses[3])
#define later(a, b)  ((a) > (b) -> (a) : (b))
#define sooner(a, b) ((a) < (b) -> (a) : (b))

// line: setTimer.
inline setTimer(delay, soon) {
  timer = now + sooner(delay, CAP);
  isSoon = soon
}

// line: wakeSoon.
inline wakeSoon() {
  if
  :: isInHand -> hasChanged = true
  :: !isInHand && !isSoon && isOpen -> setTimer(0, true)
  :: else
  fi
}

// line: closeLine.
inline closeLine() {
  if
  :: length == 0 && !isInHand && isOpen -> isOpen = false; timer = NONE; isSoon = false; slots = 1; hasChanged = false
  :: else
  fi
}

// line: dequeue.
inline dequeue(x) {
  i = 0;
  do
  :: i < length && line[i] != x -> i++
  :: else -> break
  od;
  do
  :: i + 1 < length -> line[i] = line[i + 1]; i++
  :: else -> line[i] = 0; break
  od;
  length--;
  i = 0;
  deadline[x] = NONE; deadlineAt[x] = NONE
}

// line: leave. A disconnect, CLIENT UNBLOCK, a master that becomes a replica.
inline leave(x) {
  if
  :: line[0] == x && length > 1 -> wakeSoon() // the next may need less, which the model's do not
  :: else
  fi;
  dequeue(x);
  state[x] = LEFT // then closeLine, which does nothing while the line is in hand
}

// The server deletes a key that has expired when somebody opens it, or when it comes across it. Event "expired" gets to onChange.
inline expireKey() {
  if
  :: isThere && expiresAt <= now -> dropSet(); wakeSoon()
  :: else
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

inline findHighest() {
  expiresAt = 0; i = 0;
  do
  :: i <= CALLERS -> expiresAt = later(expiresAt, lapses[i]); i++
  :: else -> i = 0; break
  od
}

// members.c: throttleGatherMembers. The lapsed ones that are left do not count, by ZCOUNT.
inline countHeld() {
  held = 0; n = 0; i = 0;
  do
  :: i <= CALLERS && lapses[i] > now -> held++; i++
  :: i <= CALLERS && lapses[i] && lapses[i] <= now -> n++; i++
  :: i <= CALLERS && !lapses[i] -> i++
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

// lease.go: Take of a slot that is free; storeLease; members.c: changeSet, which removes no more than it saw.
inline grant(x, most, ahead) {
  must(neverTooMany, held < most);
  must(nobodyIsSkipped, held + ahead < most);
  n = 0; i = 0;
  do
  :: i <= CALLERS && n < MOST_REMOVED && lapses[i] && lapses[i] <= now -> lapses[i] = 0; n++; i++
  :: i <= CALLERS && !(n < MOST_REMOVED && lapses[i] && lapses[i] <= now) -> i++
  :: else -> break
  od;
  lapses[x] = now + TTL;
  state[x] = IN;
  n = 0;
  findHighest();
  wakeSoon() // apply.c: throttleWakeLine
}

// When the next lease lapses: lease.go: UntilNextNs. A key that others gave an earlier end is taken for what it holds.
inline findLook() {
  again = CAP; i = 0;
  do
  :: i <= CALLERS -> again = (lapses[i] > now -> sooner(again, lapses[i] - now) : again); i++
  :: else -> i = 0; break
  od
}

// Another module, in the middle of ours: it gives back a lease, or has the first in line leave.
inline nested() {
  if
  :: true
  :: !hasMeddled && isThere -> dropSet(); wakeSoon(); hasMeddled = true
  :: !hasMeddled && length > 0 -> hasMeddled = true; j = line[0]; leave(j); j = 0
  fi
}

// line: throttleTellLine.
inline tell() {
#ifdef WINDOW
  slots = wants
#else
  if
  :: isOpen && slots != wants ->
    slots = wants;
#ifndef NO_TELL
    wakeSoon()
#endif
  :: else
  fi
#endif
}

// command.c: run, lease.go: takeLease, turns.c: throttleWaitInTurn.
inline arrive(x) {
  expireKey();
  gather();
  if
#ifdef NO_AHEAD
  :: held < wants ->
#else
#ifdef WINDOW
  :: length == 0 && held < wants ->
#else
  :: held + length < wants ->
#endif
#endif
    grant(x, wants, length);
    tell()
  :: else ->
    tell();
    if
    :: !waits -> state[x] = LIMITED
    :: else ->
      if
      :: patience -> deadlineAt[x] = now + patience; deadline[x] = now + sooner(patience, CAP)
      :: else
      fi;
      state[x] = WAITING;
      line[length] = x; length++;
      slots = wants;
      if
      :: !isOpen -> isOpen = true; findLook(); setTimer(again, false); again = 0
      :: else
      fi
    fi
  fi;
  held = 0
}

// line: letIn, and mayWrite before it. The line is in hand.
inline letIn() {
  expireKey();
  w = line[0];
  nested();
  if
  :: state[w] != WAITING // it left in the middle
  :: state[w] == WAITING ->
    gather();
    if
    :: held < slots ->
      j = 0;
      do
      :: j < length -> must(nobodyIsSkipped, w <= line[j]); j++ // they came in the order of their numbers
      :: else -> j = 0; break
      od;
      dequeue(w);
      grant(w, slots, 0);
      nested()
    :: else -> findLook(); n = 1
    fi;
    held = 0
  fi;
  w = 0
}

// line: wake, letAllIn. On a replica nobody is in line: the server has sent them away.
inline wake() {
  timer = NONE; isSoon = false;
  isInHand++;
  again = 0; most = 0; isRetrying = false;
  do
  :: isPaused -> again = RETRY; isRetrying = true; break
  :: !isPaused && (length == 0 || most == MOST_AT_ONCE) -> break
  :: !isPaused && length > 0 && most < MOST_AT_ONCE && hasMoved -> sendAway(); break
  :: !isPaused && length > 0 && most < MOST_AT_ONCE && !hasMoved ->
    letIn();
    if
    :: n -> n = 0; break
    :: else -> most++
    fi
  od;
  isInHand--;
  hasChanged = false; // by what was decided last, at the latest
  if
  :: length > 0 -> setTimer(again, again == 0)
  :: else
  fi;
  closeLine();
  again = 0; most = 0
}

inline sendAway() {
  do
  :: length > 0 -> w = line[0]; dequeue(w); state[w] = AWAY
  :: else -> w = 0; break
  od
}

// line: expire, decideLeaving. The line was looked at just before.
inline sendOff(x) {
  isInHand++;
  expireKey();
  nested();
  isInHand--;
#ifdef NO_RECALL
  hasChanged = false;
#endif
  if
  :: state[x] == WAITING ->
    hasChanged = hasChanged || line[0] == x;
    dequeue(x);
    state[x] = LIMITED
  :: else
  fi;
  if
  :: hasChanged && length > 0 -> hasChanged = false; wakeSoon()
  :: else -> hasChanged = false
  fi;
  closeLine()
}

// A turn of the event loop takes a tick at most, and in each all timers run that are due.
#define anyDue  (timer <= now || deadline[0] <= now || deadline[1] <= now || deadline[2] <= now)
#define mayTick (!(isBehind && anyDue) && !(isPaused && pausedFor == LONGEST_PAUSE) && (isOpen || now < 4))

// If a caller could be let in, a timer is due that does so.
inline tick() {
  countHeld();
  n = 0;
  must(nobodyIsForgotten, length == 0 || hasMoved || held >= slots || timer <= now || ((isPaused || isRetrying) && timer <= now + RETRY));
  must(noRestOfALine, isOpen == (length > 0) && !isInHand && !hasChanged);
  i = 0;
  do
  :: i < CALLERS -> must(timeoutIsKept, state[i] != WAITING || deadlineAt[i] >= now); i++
  :: else -> i = 0; break
  od;
  held = 0;
  isBehind = anyDue;
  now++;
  if
  :: isPaused -> pausedFor++
  :: else
  fi
}

// FAILOVER, REPLICAOF: the server sends away all blocked clients.
inline becomeReplica() {
  isMaster = false; isPaused = false;
  do
  :: length > 0 -> j = line[0]; leave(j)
  :: else -> j = 0; break
  od;
  closeLine()
}

active proctype server() {
  d_step { lapses[CALLERS] = now + TTL; expiresAt = now + TTL }
  do
  :: isDone -> break
  :: atomic {
      anyDue ->
      if
      :: timer <= now -> who = NONE
      :: deadline[0] <= now -> who = 0
      :: deadline[1] <= now -> who = 1
      :: deadline[2] <= now -> who = 2
      fi;
      if
      :: who != NONE && deadlineAt[who] > now -> deadline[who] = now + sooner(deadlineAt[who] - now, CAP) // the longest timer is over
      :: else ->
        wake();
        if
        :: who != NONE -> if :: state[who] == WAITING -> deadline[who] = NONE; sendOff(who) :: else fi
        :: else
        fi
      fi;
      who = 0
    }
  :: atomic {
      !isPaused && arrived < CALLERS ->
      w = arrived; arrived++;
      if
      :: !isMaster -> state[w] = AWAY
      :: else ->
#ifdef WINDOW
        wants = 2;
#else
        wants = 1;
#endif
        waits = true;
        if
        :: true
        :: patience = TIMEOUT
        :: waits = false
#ifndef WINDOW
        :: wants = 2
#endif
        fi;
        arrive(w);
        wants = 0; waits = false; patience = 0
      fi;
      w = 0
    }
  :: atomic {
      length > 0 ->
      if
      :: w = line[0]
      :: length > 1 -> w = line[1]
      fi;
      leave(w);
      closeLine();
      w = 0
    }
  :: atomic { !isDone && mayTick -> tick() }
  // CL.RELEASE, by a holder.
  :: atomic { !isPaused && isMaster && lapses[CALLERS] > now -> lapses[CALLERS] = 0; findHighest(); wakeSoon() }
  :: atomic { !isPaused && isMaster && lapses[0] > now -> lapses[0] = 0; findHighest(); wakeSoon() }
  // PEXPIRE by somebody else tells of an expiry, and nobody of its instant. The server comes across the key at some time.
  :: atomic { !hasMeddled && isThere && !isPaused && expiresAt > now + 1 -> expiresAt = now + 1; wakeSoon(); hasMeddled = true }
  :: atomic { isThere && expiresAt <= now -> expireKey() }
  // CLIENT PAUSE WRITE, the pause of a FAILOVER, and writes that are refused (no memory, a full disk): looked at again after RETRY.
  :: atomic { isMaster && !isPaused && !hasPaused -> isPaused = true; hasPaused = true; pausedFor = 0 }
  :: atomic { isPaused -> isPaused = false; isRetrying = true; pausedFor = 0 }
  :: atomic { isMaster && hasPaused -> becomeReplica() }
  // The slot of the key moves to another node of the cluster.
  :: atomic { isMaster && length > 0 && !hasPaused && !hasMoved -> hasMoved = true; hasPaused = true }
  od
}

// "Nobody waits for ever": in every run everybody is let in, turned away or gone, and no line is kept.
ltl everybodyIsDone { <> isDone }
