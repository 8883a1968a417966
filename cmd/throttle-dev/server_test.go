package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// client is a connection to a server of the test's own, in RESP2. Replies are shown on one line.
type testClient struct {
	*proto.Client
	t  *testing.T
	id string
}

func start(t *testing.T, password string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := newServer(listener, password)
	require.NoError(t, err)
	go s.serve()
	t.Cleanup(s.close)
	return s
}

func connect(t *testing.T, s *server) *testClient {
	t.Helper()
	c, err := proto.Dial(s.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	tc := &testClient{Client: c, t: t}
	tc.id = strings.TrimPrefix(tc.do("CLIENT ID"), ":")
	return tc
}

// do sends a line, whose words may be quoted by ', and returns the reply.
func (c *testClient) do(line string) string {
	c.t.Helper()
	reply, err := c.Do(split(line)...)
	require.NoError(c.t, err, line)
	return oneLine(reply)
}

func split(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

func oneLine(reply string) string {
	return strings.TrimSpace(strings.ReplaceAll(reply, "\r\n", " "))
}

// later sends a line and returns the reply once it is there.
func (c *testClient) later(line string) <-chan string {
	replies := make(chan string, 1)
	go func() {
		reply, err := c.Do(split(line)...)
		if err != nil {
			reply = err.Error()
		}
		replies <- oneLine(reply)
	}()
	return replies
}

// awaitWaiting waits until so many clients wait.
func awaitWaiting(t *testing.T, c *testClient, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.HasSuffix(c.do("INFO clients"), fmt.Sprintf(" blocked_clients:%d", n)) }, within1m, time.Millisecond)
}

func requireNothing(t *testing.T, replies <-chan string) {
	t.Helper()
	select {
	case reply := <-replies:
		require.Fail(t, "answered too early", reply)
	default:
	}
}

const within1m = time.Minute // bounds a hang

func await(t *testing.T, replies <-chan string) string {
	t.Helper()
	select {
	case reply := <-replies:
		return reply
	case <-time.After(within1m):
		require.Fail(t, "no answer")
		return ""
	}
}

// The commands of both kinds work on the same keys: each line is a command and its reply.
func TestCommandsAndReplies(t *testing.T) {
	c := connect(t, start(t, ""))
	c.do("CL.DEV.TIME 2026-01-31T12:00:00Z STOP")
	for i, row := range strings.Split(strings.TrimSpace(`
CL.THROTTLE user 15 30 60 1            => *5 :0 :16 :15 :-1 :2
GET user                               => $19 1769860802000000000
TTL user                               => :2
PEXPIRETIME user                       => :1769860802000
EXPIRETIME user                        => :1769860802
CL.LIMIT long RATE 2/36500d BURST 5 COST 5 COMPACT => *10 :0 :1 :5 :0 :-1 :7884000000000 :1576800000000 :5 :0 :0
PEXPIRETIME long                       => :9653860800000
PEXPIRETIME none                       => :-2
CL.LIMIT longest RATE 1/36500d FORCE COST 100 COMPACT => *10 :1 :1 :1 :0 :-1 :9223372036855 :9223372036855 :3 :0 :0
PEXPIRETIME longest                    => :10993232836000
SET far v EX 9223372036                => +OK
PTTL far                               => :9223372036000
SET far w EX 9223372037                => -ERR throttle-dev keeps no key for longer than 292 years
EXPIRE far 9223372037                  => -ERR throttle-dev keeps no key for longer than 292 years
GETEX far PXAT 20000000000000          => -ERR throttle-dev keeps no key for longer than 292 years
PEXPIREAT far 10000000000000           => :1
EXPIRETIME far                         => :10000000000
EVAL 'return redis.call("EXPIRE", KEYS[1], 9300000000)' 1 far => -ERR Error compiling script (new function): :1: ERR throttle-dev keeps no key for longer than 292 years stack traceback:  [G]: in function 'call'  :1: in main chunk  [G]: ?
SET EX EX                              => +OK
GET far                                => $1 v
EVAL 'return redis.call("EXPIRE", KEYS[1], -9300000000)' 1 far => :1
EXISTS far                             => :0
SET far v                              => +OK
EXPIRE far -9300000000                 => :1
EXISTS far                             => :0
DEL EX longest                         => :2
CL.LEASE jobs SLOTS 2 TTL 10s ID a COMPACT => *6 :0 :2 :1 :-1 :10000 :0
ZRANGE jobs 0 -1 WITHSCORES            => *2 $1 a $13 1769860810000
ZADD jobs 1769860820000 b              => :1
CL.LEASES jobs                         => *10 $4 held :2 $7 waiting :0 $6 leases *2 *4 $2 id $1 a $8 lease_ms :10000 *4 $2 id $1 b $8 lease_ms :20000 $14 waiting_groups :0 $6 groups *0
ZREM jobs a b                          => :2
EXISTS jobs                            => :0
RPUSH list x                           => :1
SADD set a                             => :1
SSCAN set 9223372036854775807          => *2 $1 0 *0
SSCAN set -1                           => *2 $1 0 *0
SSCAN set 0 COUNT 9223372036854775807  => *2 $1 0 *1 $1 a
SSCAN set 1 COUNT 9223372036854775807  => *2 $1 0 *0
CL.LIMIT list RATE 1/s                 => -WRONGTYPE Operation against a key holding the wrong kind of value
CL.LEASE user SLOTS 1 TTL 1s ID a      => -WRONGTYPE Operation against a key holding the wrong kind of value
SET k 5 PX 1500                        => +OK
CL.DEV.ADVANCE 1500ms                  => $22 2026-01-31T12:00:01.5Z
EXISTS k user                          => :1
CL.DEV.ADVANCE 1mo                     => $22 2026-02-28T12:00:01.5Z
EXISTS user                            => :0
TIME                                   => *2 $10 1772280001 $6 500000
CL.DEV.ADVANCE 1                       => -ERR duration must be a length of time such as 500ms, 1.5h or 1mo; units are ms, s, m, h, d, w, mo and y, and the shortest is a microsecond
CL.DEV.TIME soon                       => -ERR time must be an instant such as 2026-01-31T12:00:00Z, 2026-01-31 or 1769860800.5, from 1970 to 2262, with up to six decimals of a second
MULTI                                  => +OK
SET a 1                                => +QUEUED
CL.LIMIT q RATE 1/h COMPACT            => +QUEUED
CL.LEASE l SLOTS 1 TTL 1s ID a TIMEOUT 0 COMPACT => +QUEUED
CL.LEASE l SLOTS 1 TTL 1s ID b TIMEOUT 0 COMPACT => +QUEUED
BLPOP nothing 0                        => +QUEUED
EXEC                                   => *5 +OK *10 :0 :1 :1 :0 :-1 :3600000 :3600000 :1 :0 :0 *6 :0 :1 :0 :-1 :1000 :0 *6 :1 :1 :0 :1000 :0 :0 *-1
MULTI                                  => +OK
CL.LIMIT                               => -ERR wrong number of arguments for 'cl.limit' command
EXEC                                   => -EXECABORT Transaction discarded because of previous errors.
MULTI                                  => +OK
DISCARD                                => +OK
EXEC                                   => -ERR EXEC without MULTI
EVAL 'return redis.call("CL.LIMIT", KEYS[1], "RATE", "1/h", "COMPACT")' 1 script => *10 :0 :1 :1 :0 :-1 :3600000 :3600000 :1 :0 :0
EVAL 'return {redis.call("SET", KEYS[1], "1769860800000000000"), redis.call("CL.THROTTLE", KEYS[1], 1, 1, 1)}' 1 both => *2 +OK *5 :0 :2 :1 :-1 :1
EVAL 'return redis.call("TTL", KEYS[1])' 1 script => :3601
EVAL 'redis.call("SELECT", 3) return redis.call("CL.PEEK", KEYS[1], "RATE", "1/h", "COMPACT")' 1 script => *10 :0 :1 :1 :1 :-1 :0 :0 :0 :0 :0
EVAL 'return redis.call("CLIENT", "ID")' 0 => -ERR Error compiling script (new function): :1: ERR This Redis command is not allowed from script stack traceback:  [G]: in function 'call'  :1: in main chunk  [G]: ?
SELECT 3                               => +OK
GET script                             => $-1
SELECT 16                              => -ERR DB index is out of range
SELECT 0                               => +OK
CONFIG SET throttle.top 3              => +OK
CONFIG GET throttle.*                  => *6 $12 throttle.top $1 3 $20 throttle.max-waiting $2 -1 $16 throttle.aliases $0 
CONFIG SET throttle.top 100001         => -ERR CONFIG SET failed (possibly related to argument 'throttle.top') - argument must be between 0 and 100000 inclusive
CL.TOP                                 => *0
COMMAND GETKEYS CL.MLIMIT 2 a b RATE 1/s => *2 $1 a $1 b
MODULE LIST                            => *1 *8 $4 name $8 throttle $3 ver :0 $4 path $0  $4 args *0
ROLE                                   => *3 $6 master :0 *0
DEBUG SLEEP nan                        => -ERR seconds must be a number from 0 to 3600
CONFIG SET throttle.max-waiting -2      => -ERR CONFIG SET failed (possibly related to argument 'throttle.max-waiting') - argument must be between -1 and 100000000 inclusive
CONFIG SET throttle.max-waiting 5       => +OK
CONFIG GET throttle.max-waiting         => *2 $20 throttle.max-waiting $1 5
CONFIG SET throttle.top x              => -ERR CONFIG SET failed (possibly related to argument 'throttle.top') - argument couldn't be parsed into an integer
SAVE                                   => -ERR throttle-dev keeps nothing on disk: run a server with the module for that
REPLICAOF no one                       => -ERR throttle-dev has no replication: run a server with the module for that
CLUSTER INFO                           => -ERR This instance has cluster support disabled: throttle-dev is one process
ACL LIST                               => -ERR throttle-dev has no ACL: run a server with the module for that
AUTH x                                 => -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
RESET                                  => +RESET`), "\n") {
		line, want, _ := strings.Cut(row, "=>")
		require.Equal(t, strings.TrimSpace(want), c.do(strings.TrimSpace(line)), "line %d: %s", 1+i, line)
	}
}

// As on a server, a key is there in the whole ms of its expiry, whatever it holds.
func TestAKeyLivesToTheLastMicrosecondOfItsExpiry(t *testing.T) {
	c := connect(t, start(t, ""))
	c.do("CL.DEV.TIME 1769860800 STOP")
	c.do("CL.LIMIT user RATE 1/s")
	c.do("CL.LEASE jobs SLOTS 2 TTL 1s ID a")
	for _, key := range []string{"user", "jobs"} {
		for _, us := range []string{"000", "001", "500", "998", "999"} {
			c.do("CL.DEV.TIME 1769860801.000" + us)
			require.Equal(t, ":1769860801000", c.do("PEXPIRETIME "+key), "%s at µs %s", key, us)
		}
		c.do("CL.DEV.TIME 1769860800")
	}
	c.do("CL.DEV.TIME 1769860801.001")
	require.Equal(t, ":0", c.do("EXISTS user jobs"))
}

// The machine's time goes on, unless the call says STOP.
func TestTheClockStandsStillAtTheTimeOfTheMachine(t *testing.T) {
	c := connect(t, start(t, ""))
	c.do("CL.DEV.TIME REAL STOP")
	stands := c.do("TIME")
	require.Equal(t, stands, c.do("TIME"))
	c.do("CL.DEV.TIME REAL")
	runs := c.do("TIME")
	require.Eventually(t, func() bool { return c.do("TIME") != runs }, time.Minute, time.Millisecond, "it goes on")
}

// Commands of scripts count, too, and those that are refused do not.
func TestInfoCountsCommandsOnRequest(t *testing.T) {
	c := connect(t, start(t, ""))
	for _, line := range []string{"CL.LIMIT k RATE 1/s", "cl.limit k RATE 1/s", "EVAL 'return redis.call(\"CL.PEEK\", KEYS[1], \"RATE\", \"1/s\")' 1 k", "GET k", "NOTHING", "SAVE", "CL.DEV.TIME", "MULTI", "GET k", "EXEC"} {
		c.do(line)
	}
	stats := c.do("INFO commandstats")
	for name, calls := range map[string]int{"cl.limit": 2, "cl.peek": 1, "eval": 1, "get": 2, "cl.dev.time": 1, "exec": 1} {
		assert.Contains(t, stats, fmt.Sprintf(" cmdstat_%s:calls=%d,usec=", name, calls))
	}
	assert.NotContains(t, stats, "nothing")
	assert.NotContains(t, stats, "save")
	assert.NotContains(t, c.do("INFO"), "cmdstat")
	assert.Contains(t, c.do("INFO everything"), "cmdstat")
	assert.Contains(t, c.do("CLIENT LIST"), " cmd=client ")
	c.do("CONFIG RESETSTAT")
	assert.NotContains(t, c.do("INFO commandstats"), "cl.limit")
}

func TestCallersAreAnsweredEachAtItsTimeWhenTheClockIsAdvanced(t *testing.T) {
	s := start(t, "")
	c := connect(t, s)
	c.do("CL.DEV.TIME 2026-01-31 STOP")
	c.do("CL.LIMIT k RATE 1/m BURST 1")
	var replies []<-chan string
	for i := range 3 {
		replies = append(replies, connect(t, s).later("CL.WAIT k RATE 1/m BURST 1 TIMEOUT 0 COMPACT"))
		awaitWaiting(t, c, 1+i)
	}
	replies = append(replies, connect(t, s).later("CL.LEASE other SLOTS 0 TTL 1s ID a TIMEOUT 90s COMPACT"))
	awaitWaiting(t, c, 4)
	c.do("CL.DEV.ADVANCE 2m")
	assert.Equal(t, "*10 :0 :1 :1 :0 :-1 :180000 :180000 :1 :60000 :0", await(t, replies[0]), "as of its instant")
	assert.Equal(t, "*10 :0 :1 :1 :0 :-1 :120000 :120000 :1 :120000 :0", await(t, replies[1]))
	assert.Equal(t, "*6 :1 :0 :0 :-1 :0 :90000", await(t, replies[3]))
	requireNothing(t, replies[2])
}

// A clock that steps passes no instant on its way: a caller is answered at the new time.
func TestACallerIsAnsweredAfterAStepOfTheClock(t *testing.T) {
	s := start(t, "")
	c := connect(t, s)
	c.do("CL.DEV.TIME 2026-01-31T00:00:00Z STOP")
	c.do("CL.LEASE jobs SLOTS 1 TTL 10s ID a")
	waits := connect(t, s).later("CL.LEASE jobs SLOTS 1 TTL 1h ID b TIMEOUT 0 COMPACT")
	awaitWaiting(t, c, 1)
	c.do("CL.DEV.TIME 2026-01-31T00:30:00Z STOP STEP")
	assert.Equal(t, "*6 :0 :1 :0 :-1 :3600000 :1800000", await(t, waits), "not when the slot was free, after 10 s")
	assert.Contains(t, c.do("CL.DEV.TIME STEP STEP"), "ERR")
}

// Setting the clock to a later time lets time pass, too: a caller that waits gets a slot when it was free, and not an
// hour later.
func TestCallersAreAnsweredEachAtItsTimeWhenTheClockIsSetForward(t *testing.T) {
	for _, stop := range []string{" STOP", " RUN", ""} {
		s := start(t, "")
		c := connect(t, s)
		c.do("CL.DEV.TIME 2026-01-31T00:00:00Z STOP")
		c.do("CL.LEASE jobs SLOTS 1 TTL 10s ID a")
		first := connect(t, s).later("CL.LEASE jobs SLOTS 1 TTL 1h ID b TIMEOUT 0 COMPACT")
		awaitWaiting(t, c, 1)
		second := connect(t, s).later("CL.LEASE jobs SLOTS 1 TTL 1h ID c TIMEOUT 1m COMPACT")
		awaitWaiting(t, c, 2)
		c.do("CL.DEV.TIME 2026-01-31T00:30:00Z" + stop)
		assert.Equal(t, "*6 :0 :1 :0 :-1 :3600000 :10000", await(t, first), "the slot was free after 10 s")
		assert.Regexp(t, `^\*6 :1 :1 :0 :\d+ :\d+ :60000$`, await(t, second), "its minute was over then")
		c.do("CL.DEV.TIME STOP")
		assert.Regexp(t, `lease_ms :1[78]\d\d\d\d\d `, c.do("CL.LEASES jobs"), "half an hour is left")
		c.do("CL.DEV.TIME 2026-01-30T00:00:00Z")
		assert.Equal(t, "$20 2026-01-30T00:00:00Z", c.do("CL.DEV.TIME"))
	}
}

// Commands of others that wait do not hold up ours, and end as on a server. They wait on while their keys are of
// another type, as on Redis 8.0. What comes to another of its keys has all of them looked at.
func TestCommandsThatBlock(t *testing.T) {
	s := start(t, "")
	c, waits := connect(t, s), connect(t, s)
	c.do("CL.DEV.TIME 2026-01-31 STOP")
	const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value"
	for _, test := range []struct{ command, wrong, change, reply string }{
		{"BLPOP list 0", "", "RPUSH list x", "*2 $4 list $1 x"},
		{"BLPOP list 2.5", "", "CL.DEV.ADVANCE 3s", "*-1"},
		{"BRPOPLPUSH list to 0", "", "RPUSH list y", "$1 y"},
		{"BZPOPMIN jobs 0", "", "CL.LEASE jobs SLOTS 1 TTL 10s ID a", "*3 $4 jobs $1 a $13 1769817613000"},
		{"BLPOP k 0", "SET k v", "DEL k; RPUSH k x", "*2 $1 k $1 x"},
		{"BRPOP k 5", "HSET k a b", "CL.DEV.ADVANCE 5s", "*-1"},
		{"BLPOP k 0", "ZADD k 1 a", "CLIENT UNBLOCK " + waits.id, "*-1"},
		{"BLMOVE k to LEFT RIGHT 0", "SET k v; RPUSH to x", "DEL k; RPUSH k x", "$1 x"},
		{"BRPOPLPUSH k to 0", "SET k v; SET to v", "DEL k; RPUSH k x", wrongType},
		{"BLPOP k other 0", "SET k v; SET x y", "RPUSH other x", wrongType},
		{"BZPOPMIN k 0", "SET k v", "DEL k; ZADD k 1 a", "*3 $1 k $1 a $1 1"},
		{"BZPOPMAX k other 0", "RPUSH other v", "ZADD k 1 a", "*3 $1 k $1 a $1 1"},
		{"BZMPOP 0 2 k other MIN COUNT 2", "RPUSH other v; ZADD MIN 1 a", "ZADD k 1 a", "*2 $1 k *1 *2 $1 a $1 1"},
		{"XREAD BLOCK 0 STREAMS k $", "SET k v", "DEL k; XADD k 5-1 a b", "*1 *2 $1 k *1 *2 $3 5-1 *2 $1 a $1 b"},
	} {
		c.do("FLUSHALL")
		reply := waits.later(test.command)
		awaitWaiting(t, c, 1)
		for line := range strings.SplitSeq("CL.LIMIT ours RATE 1/s; "+test.wrong, "; ") {
			if line != "" {
				c.do(line)
			}
		}
		awaitWaiting(t, c, 1)
		requireNothing(t, reply)
		for line := range strings.SplitSeq(test.change, "; ") {
			c.do(line)
		}
		assert.Equal(t, test.reply, await(t, reply), test.command)
	}
	c.do("XADD k 6-1 a b")
	reply := waits.later("XREAD BLOCK 0 STREAMS k $")
	awaitWaiting(t, c, 1)
	c.do("XADD k 7-1 a b")
	assert.Equal(t, "*1 *2 $1 k *1 *2 $3 7-1 *2 $1 a $1 b", await(t, reply), "what was there before is not new")
	c.do("XGROUP CREATE k g $")
	reply = waits.later("XREADGROUP GROUP g c BLOCK 0 STREAMS k >")
	awaitWaiting(t, c, 1)
	c.do("SET k v")
	assert.Equal(t, wrongType, await(t, reply), "a group that is gone is told of")
	assert.Equal(t, "-ERR wrong number of arguments for 'blpop' command", c.do("BLPOP list"))
}

// A client that has left may be answered until the server has seen that. Without a connection, what it was granted
// would be lost with the answer.
func TestAClientThatHasLeftIsConnectedWhileItWaits(t *testing.T) {
	s := start(t, "")
	c := connect(t, s)
	c.do("CL.LEASE jobs SLOTS 1 TTL 1h ID a")
	leaver, err := net.Dial("tcp", s.listener.Addr().String())
	require.NoError(t, err)
	defer leaver.Close()
	_, err = leaver.Write(encoded(split("CL.LEASE jobs SLOTS 1 TTL 1h ID b TIMEOUT 0")))
	require.NoError(t, err)
	awaitWaiting(t, c, 1)

	s.lock()
	require.NoError(t, leaver.(*net.TCPConn).CloseWrite())
	require.NoError(t, leaver.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	reply := make([]byte, 256)
	_, closed := leaver.Read(reply)
	id, _ := strconv.ParseInt(c.id, 10, 64)
	holder := s.clients[id]
	s.execute(&call{server: s, client: holder, peer: holder.peer, words: [][]byte{[]byte("CL.RELEASE"), []byte("jobs"), []byte("ID"), []byte("a")}})
	s.answerWaiting()
	s.mu.Unlock()

	require.ErrorIs(t, closed, os.ErrDeadlineExceeded, "the connection of a client that waits")
	require.NoError(t, leaver.SetReadDeadline(time.Now().Add(within1m)))
	n, err := leaver.Read(reply)
	require.NoError(t, err)
	assert.Contains(t, oneLine(string(reply[:n])), "$7 limited :0 ")
}

// A timeout that is none keeps nobody waiting, and changes nothing. Redis answers the same.
func TestATimeoutThatIsNoneIsRefused(t *testing.T) {
	s := start(t, "")
	c := connect(t, s)
	c.do("CL.DEV.TIME 2026-01-31")
	c.do("RPUSH list x")
	c.do("ZADD set 1 x")
	c.do("XADD stream 1-1 a b")
	c.do("XGROUP CREATE stream group 0")
	float := map[string]string{
		"nan": noFloat, "1_0": noFloat, "x": noFloat, "''": noFloat, "1e400": noFloat,
		"inf": outOfRange, "1e300": outOfRange, "9223372036854775": outOfRange, "-1": "ERR timeout is negative", "-inf": "ERR timeout is negative",
	}
	integer := map[string]string{"010": noInteger, "+1": noInteger, "9223372036854775807": outOfRange, "-1": "ERR timeout is negative"}
	for _, tc := range []struct {
		line  string
		wrong map[string]string
	}{
		{"BLPOP list %s", float},
		{"BRPOP list %s", float},
		{"BLMOVE list to LEFT RIGHT %s", float},
		{"BRPOPLPUSH list to %s", float},
		{"BZPOPMIN set %s", float},
		{"BZPOPMAX set %s", float},
		{"BZMPOP %s 1 set MIN", float},
		{"XREAD BLOCK %s STREAMS stream 0", integer},
		{"XREADGROUP GROUP group block BLOCK %s STREAMS stream >", integer},
	} {
		for timeout, want := range tc.wrong {
			line := fmt.Sprintf(tc.line, timeout)
			assert.Equal(t, "-"+want, await(t, connect(t, s).later(line)), line)
		}
	}
	assert.Equal(t, ":1", c.do("LLEN list"))
	assert.Equal(t, ":1", c.do("ZCARD set"))
	assert.Equal(t, "*-1", await(t, connect(t, s).later("BLPOP none 1e-10")), "less than a millisecond is one")
}

func TestAPasswordIsAskedFor(t *testing.T) {
	s := start(t, "secret")
	c, err := proto.Dial(s.listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	tc := &testClient{Client: c, t: t}
	for _, line := range []string{"PING", "CL.LIMIT k RATE 1/s", "GET k", "CL.DEV.TIME", "SHUTDOWN"} {
		assert.Equal(t, "-NOAUTH Authentication required.", tc.do(line), line)
	}
	assert.Equal(t, "-WRONGPASS invalid username-password pair or user is disabled.", tc.do("AUTH wrong"))
	assert.Equal(t, "-WRONGPASS invalid username-password pair or user is disabled.", tc.do("AUTH other secret"))
	assert.Equal(t, "+OK", tc.do("AUTH secret"))
	assert.Equal(t, "+PONG", tc.do("PING"))
}

func TestSubscribersGetMessages(t *testing.T) {
	s := start(t, "")
	c, subscriber := connect(t, s), connect(t, s)
	assert.Equal(t, "*3 $9 subscribe $4 news :1", subscriber.do("SUBSCRIBE news"))
	assert.Equal(t, ":1", c.do("PUBLISH news hello"))
	message, err := subscriber.Read()
	require.NoError(t, err)
	assert.Equal(t, "*3 $7 message $4 news $5 hello", oneLine(message))
	_ = subscriber.Close()
	require.Eventually(t, func() bool { return c.do("PUBLISH news hello") == ":0" }, within1m, time.Millisecond)
}

// miniredis panics at such patterns. A transaction with one has as many replies as commands.
func TestAPatternThatIsNoneIsRefused(t *testing.T) {
	s := start(t, "")
	c := connect(t, s)
	for _, line := range []string{"KEYS [z-a]", "KEYS \xff", "SCAN 0 MATCH \xff", "PSUBSCRIBE \xff", `PSUBSCRIBE x\`, "PUBSUB CHANNELS [z-a]"} {
		c.do("MULTI")
		c.do("SET k v")
		assert.Equal(t, "+QUEUED", c.do(line), line)
		c.do("GET k")
		assert.Equal(t, "*3 +OK -"+badPattern+" $1 v", c.do("EXEC"), line)
	}
	assert.Equal(t, ":0", c.do("PUBLISH x x"))
	assert.Zero(t, s.faults)
}

func TestRepliesInRESP3(t *testing.T) {
	s := start(t, "")
	c := connect(t, s)
	assert.Regexp(t, `^%7 \$6 server \$12 throttle-dev `, c.do("HELLO 3"))
	c.do("CL.DEV.TIME 2026-01-31 STOP")
	assert.Equal(t, "%10 $7 limited :0 $4 rule :1 $5 limit :1 $9 remaining :0 $14 retry_after_ms :-1 $14 reset_after_ms :3600000 $13 next_after_ms :3600000 $7 granted :1 $7 wait_ms :0 $6 shadow :0", c.do("CL.LIMIT k RATE 1/h"))
	c.do("WATCH k")
	connect(t, s).do("DEL k")
	c.do("MULTI")
	assert.Equal(t, "_", c.do("EXEC"))
	c.do("CL.DEV.TIME RUN")
	for _, nothing := range []string{"BLPOP none 0.01", "BRPOPLPUSH none to 0.01", "BZPOPMIN none 0.01", "BZMPOP 0.01 1 none MIN", "XREAD BLOCK 1 STREAMS none $"} {
		assert.Equal(t, "_", c.do(nothing), nothing)
	}
}

func TestClientsThatTrackForgetWhatChanges(t *testing.T) {
	s := start(t, "")
	c, other := connect(t, s), connect(t, s)
	assert.Equal(t, "-ERR throttle-dev has CLIENT TRACKING for RESP3 only: say HELLO 3 before", c.do("CLIENT TRACKING ON"))
	c.do("HELLO 3")
	other.do("CL.LIMIT k RATE 1/h")
	assert.Equal(t, "+OK", c.do("CLIENT TRACKING ON OPTIN"))
	for _, line := range []string{"CL.LIMIT k RATE 1/h", "CL.PEEK k RATE 1/h", "GET k", "PING"} { // a limited call changes nothing
		other.do(line)
		assert.Equal(t, "+PONG", c.do("PING"), line)
	}
	for _, line := range []string{"CL.LIMIT l RATE 1/h", "DEL l"} {
		other.do(line)
		push, err := c.Read()
		require.NoError(t, err)
		assert.Equal(t, ">2 $10 invalidate _", oneLine(push), line)
	}
}
