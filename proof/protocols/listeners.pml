// module/listeners.c decides whether a write is replicated as an effect, or only counted, as the call
// itself. A call that is only counted gets into the backlog, if there is one. Nobody may ever be sent it.
//
// What of the server matters is a master (or a replica that may be promoted) with its backlog, two replicas, a
// dump.rdb, an AOF and transactions. The server runs one command after the other, so each step is atomic. A write is a
// number; the effect of one is to make that number the value, so applying it again does no harm. An offset counts
// entries of the stream.
//
// Each of these breaks the model. As version 0.1.0 was:
//   V010_SAVE   a snapshot in the server's own process is not seen
//   V010_LATCH  after one backlog the module never goes back to counting
// Otherwise:
//   NO_FORK     a fork is not seen
//   NO_UNIT     a transaction may count its writes
//   SHORT_LOOK  the cron does not look for a backlog
//   SAME_ID     a new backlog keeps the replication ID of the one before

#define WRITES 3
#define IDS 3
#define REPLICAS 2

mtype = { EFFECT, VERBATIM };
mtype = { ABSENT, AWAITS_FORK, LOADS, ONLINE };

// The properties. Each is true as long as it holds.
bool nobodyIsSentACall = true, nobodyLacksAnEffect = true, fastPathComesBack = true;

#define must(property, condition) property = (condition); assert(property)

// The module.
bool listened = true;     // listeners.c: listened
bool mayBeUnheard = true; // listeners.c: mayBeUnheard, of a server that was tested

// The server.
bool isMaster;
bool backlog;
byte id = 1;       // the replication ID
byte first, last;   // the offsets that the backlog holds
byte version;      // the number of the last write
bool inUnit;       // a transaction, a script or a call by another module is being run
mtype kind[WRITES];
byte number[WRITES];
byte pendingCount;
mtype pendingKind[WRITES];
byte pendingNumber[WRITES];
bool aof, aofHasBase;
bool child;        // of a fork

typedef Snapshot {
  bool exists, hasOffset;
  byte id, offset, version;
}
Snapshot dump;   // the file
Snapshot fork;   // what the child writes

typedef Replica {
  mtype state;
  bool knows; // an ID and an offset to go on from
  byte id, offset, version;
}
Replica replica[REPLICAS];
byte r, i;
mtype how;

#define replicas (replica[0].state != ABSENT || replica[1].state != ABSENT)
#define isAlone  (isMaster && !aof && !backlog && !replicas)

// The server sends replica x what follows its offset.
inline feed(x) {
  do
  :: replica[x].offset < last ->
    must(nobodyIsSentACall, kind[replica[x].offset] == EFFECT);
    replica[x].version = number[replica[x].offset];
    replica[x].offset++
  :: else -> break
  od;
  // The snapshot may have been taken within a unit, of which the rest is still to come.
  if
  :: !inUnit -> must(nobodyLacksAnEffect, replica[x].version == version)
  :: else
  fi
}

// The server puts an entry into the stream: propagateNow.
inline propagate(as, what) {
  if
  :: aof && aofHasBase -> must(nobodyIsSentACall, as == EFFECT)
  :: else
  fi;
  if
  :: backlog -> kind[last] = as; number[last] = what; last++
  :: else
  fi
}

inline feedAll() {
  r = 0;
  do
  :: r < REPLICAS ->
    if
    :: replica[r].state == ONLINE -> feed(r)
    :: else
    fi;
    r++
  :: else -> r = 0; break
  od
}

// listeners.c: throttleIsHeard, as asked by replicateSet of apply.c.
#ifdef NO_UNIT
#define isHeard (listened || aof || !isMaster)
#else
#define isHeard (listened || aof || !isMaster || inUnit)
#endif

// listeners.c: onPossibleListener.
inline possibleListener() { listened = true }

// The server's rdbSave and its children: a snapshot has an offset only while there is a backlog, or a master.
inline take(snapshot) {
  snapshot.exists = true;
  snapshot.hasOffset = backlog;
  snapshot.id = id;
  snapshot.offset = last;
  snapshot.version = version
}

// A snapshot in the server's own process: SAVE, SHUTDOWN, FLUSHALL with save points. EVENT_PERSISTENCE begins it.
inline save() {
  take(dump);
#ifndef V010_SAVE
  possibleListener()
#endif
}

// EVENT_FORK_CHILD.
inline forkChild() {
  child = true;
  take(fork);
#ifndef NO_FORK
  possibleListener()
#endif
}

#ifdef SAME_ID
#define newID() skip
#else
#define newID() id++
#endif

// replicationFeedSlaves begins with the first who asks.
inline makeBacklog() {
  if
  :: !backlog -> backlog = true; newID(); first = last
  :: else
  fi
}

// masterTryPartialResynchronization, or else a full one, which awaits a fork.
inline psync(x) {
  if
  :: backlog && replica[x].knows && replica[x].id == id && replica[x].offset >= first ->
    replica[x].state = ONLINE;
    possibleListener(); // EVENT_REPLICA_CHANGE
    feed(x)
  :: else ->
    makeBacklog();
    replica[x].state = AWAITS_FORK
  fi
}

// A replica comes with what it knows, or from scratch, or from the file.
inline arrive(x) {
  if
  :: true
  :: dump.exists -> replica[x].version = dump.version; replica[x].knows = dump.hasOffset; replica[x].id = dump.id; replica[x].offset = dump.offset
  fi;
  psync(x)
}

// apply.c: replicateSet. What is written within a unit is propagated when that is over.
inline write() {
  version++;
  how = (isHeard -> EFFECT : VERBATIM);
  if
  :: inUnit -> pendingKind[pendingCount] = how; pendingNumber[pendingCount] = version; pendingCount++
  :: else -> propagate(how, version); feedAll()
  fi;
  how = 0
}

inline endUnit() {
  inUnit = false;
  i = 0;
  do
  :: i < pendingCount -> propagate(pendingKind[i], pendingNumber[i]); pendingKind[i] = 0; pendingNumber[i] = 0; i++
  :: else -> break
  od;
  pendingCount = 0;
  i = 0;
  feedAll()
}

// The child is done: the file is the new one, the replicas that load it go on from its offset.
inline childEnds() {
  child = false;
  dump.exists = true; dump.hasOffset = fork.hasOffset; dump.id = fork.id; dump.offset = fork.offset; dump.version = fork.version;
  i = 0;
  do
  :: i < REPLICAS ->
    if
    :: replica[i].state == LOADS ->
      replica[i].state = ONLINE;
      replica[i].knows = true;
      replica[i].id = fork.id;
      replica[i].offset = fork.offset;
      replica[i].version = fork.version;
      possibleListener(); // EVENT_REPLICA_CHANGE
      feed(i)
    :: else
    fi;
    i++
  :: else -> i = 0; break
  od;
  fork.exists = false; fork.hasOffset = false; fork.id = 0; fork.offset = 0; fork.version = 0
}

// Replicas that wait load what the child writes; an AOF that waits has its base.
inline attach() {
  i = 0;
  do
  :: i < REPLICAS ->
    if
    :: replica[i].state == AWAITS_FORK -> replica[i].state = LOADS
    :: else
    fi;
    i++
  :: else -> i = 0; break
  od;
  aofHasBase = aof
}

// listeners.c: anybodyListens and onCron.
inline cron() {
#ifdef V010_LATCH
  if
  :: mayBeUnheard && !isAlone && !listened -> mayBeUnheard = false; listened = true
  :: mayBeUnheard && !isAlone && listened
  :: mayBeUnheard && isAlone -> listened = false
  :: !mayBeUnheard
  fi;
#else
#ifdef SHORT_LOOK
  listened = !isMaster || aof || replicas;
#else
  listened = !isAlone;
#endif
#endif
  must(fastPathComesBack, !isAlone || !listened)
}

inline lose(x) {
  replica[x].knows = replica[x].state == ONLINE;
  replica[x].state = ABSENT;
  if
  :: !replica[x].knows -> replica[x].id = 0; replica[x].offset = 0; replica[x].version = 0
  :: else
  fi
}

active proctype server() {
  replica[0].state = ABSENT;
  replica[1].state = ABSENT;
  // A replica has a backlog, and so it can be promoted with one.
  if
  :: isMaster = true
  :: isMaster = false; backlog = true
  fi;
end:
  do
  :: atomic { version < WRITES && isMaster -> write() }
  // On a replica there are its master's writes alone, which are effects.
  :: atomic { version < WRITES && !isMaster && !inUnit -> version++; propagate(EFFECT, version); feedAll() }
  :: atomic { !inUnit && isMaster && version < WRITES -> inUnit = true }
  :: atomic { inUnit -> endUnit() }
  :: atomic { !child -> save() }
  :: atomic { !child && !inUnit -> forkChild(); attach() }
  :: atomic { child && !inUnit -> childEnds() }
  :: atomic { !inUnit -> cron() }
  :: atomic { !inUnit && id < IDS && replica[0].state == ABSENT -> arrive(0) }
  :: atomic { !inUnit && id < IDS && replica[1].state == ABSENT -> arrive(1) }
  :: atomic { !inUnit && replica[0].state != ABSENT -> lose(0) }
  :: atomic { !inUnit && replica[1].state != ABSENT -> lose(1) }
  // After repl-backlog-ttl.
  :: atomic { !inUnit && isMaster && backlog && !replicas && id < IDS -> backlog = false; newID() }
  // CONFIG SET appendonly, also during a BGSAVE and within a unit. The base is a rewrite of its own, when there is no
  // other child.
  :: atomic { !aof && version < WRITES -> aof = true; aofHasBase = false }
  :: atomic { aof -> aof = false; aofHasBase = false }
  // EVENT_ROLE_CHANGED. The old ID is served on, to more than the server would serve it to.
  :: atomic { !isMaster && !inUnit -> isMaster = true; possibleListener() }
  od
}
