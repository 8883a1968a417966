package durability

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// soak is everything at once, until it has lasted long enough.
type soak struct {
	t          *testing.T
	s          *server.Server
	isFollowed bool // by a replica, all the time
	ending     atomic.Bool
	actors     sync.WaitGroup
	// gate is read-locked by every goroutine that does something. One that locks it finds the
	// server at rest, except for callers that wait in line.
	gate sync.RWMutex
	// squeeze is held while memory is short.
	squeeze sync.Mutex
	// inLine are the callers that wait for hours or years; only their actor touches them, and
	// the goroutine that locked the gate.
	inLine []longWait
	// squeezes counts the beginnings and the ends of the times when memory is short:
	// while it is odd, and only then, a call may be answered that it is.
	squeezes atomic.Int64
	count    counts
}

type counts struct {
	allowed, limited, waited, wrongType, outOfMemory atomic.Int64
	disconnected, killed, paused                     atomic.Int64
	saved, rewritten, flushed, swapped, meddled      atomic.Int64
	nested, longWaits, longWaitsLeft, calledOff      atomic.Int64
	visits, leased, leaseLimited, ofKeys             atomic.Int64
}

// startSoak begins it. The replica is one that follows all the time, or nil.
func startSoak(t *testing.T, s, replica *server.Server) *soak {
	t.Helper()
	o := &soak{t: t, s: s, isFollowed: replica != nil}
	const callers, nesting, waiters, meddlers = 3, 2, 4, 1
	for range callers {
		o.act(time.Millisecond, o.caller)
	}
	for range nesting {
		o.act(time.Millisecond, o.callerOfNested)
	}
	for range waiters {
		o.act(time.Millisecond, o.waiter)
	}
	for range meddlers {
		o.act(time.Millisecond, o.meddler)
	}
	o.act(time.Second, o.saver)
	o.act(5*time.Second, o.rewriter)
	o.act(100*time.Millisecond, o.killer)
	o.act(time.Second, o.pauser)
	o.act(2*time.Second, o.squeezer)
	o.act(700*time.Millisecond, o.flusher)
	o.act(500*time.Millisecond, o.swapper)
	o.act(20*time.Millisecond, o.nester)
	o.act(20*time.Millisecond, o.longWaiter)
	if replica != nil {
		o.act(time.Second, o.failoverWith(replica))
	}
	t.Cleanup(func() {
		o.ending.Store(true)
		o.actors.Wait()
	})
	return o
}

// end returns when everybody has stopped, except for callers that wait in line.
func (o *soak) end() {
	o.t.Helper()
	o.ending.Store(true)
	o.actors.Wait()
	require.False(o.t, o.t.Failed())
	require.True(o.t, o.s.Running(), "the server lives")
}

// act repeats something at a pace, on a connection that is replaced when it breaks:
// the killer spares nobody.
func (o *soak) act(pace time.Duration, do func(*resp.Conn) error) {
	o.actors.Go(func() {
		var c *resp.Conn
		for !o.ending.Load() {
			if c == nil {
				var err error
				if c, err = resp.Dial(o.s.Addr()); !assert.NoError(o.t, err) {
					return
				}
			}
			o.gate.RLock()
			err := do(c)
			o.gate.RUnlock()
			if err != nil {
				if errors.Is(err, resp.ErrMalformed) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errWrong) {
					assert.NoError(o.t, err)
					return
				}
				o.count.disconnected.Add(1)
				_ = c.Close() // it is broken
				c = nil
			}
			time.Sleep(pace)
		}
		if c != nil {
			_ = c.Close()
		}
	})
}

// errWrong is wrapped by what is wrong with a well-formed reply.
var errWrong = errors.New("wrong reply")

// caller sends a few calls, and reads the answers unless it hangs up before.
func (o *soak) caller(c *resp.Conn) error {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
	calls := make([][]string, 1+rand.IntN(16))
	for i := range calls {
		switch rand.IntN(8) {
		case 0:
			calls[i] = callOfKeys(rnd)
		case 1:
			calls[i] = callOfLeases(rnd)
		default:
			calls[i] = callFor(rand.IntN(soakKeys), rnd)
		}
	}
	if rand.IntN(100) == 0 {
		for _, call := range calls {
			if err := c.Send(call...); err != nil {
				return err
			}
		}
		if err := c.Flush(); err != nil {
			return err
		}
		return c.Reset()
	}
	return o.ask(c, calls)
}

// callOfKeys is a CL.MLIMIT of some keys that single calls are about, too.
func callOfKeys(rnd *rand.Rand) []string {
	call := []string{"CL.MLIMIT", strconv.Itoa(1 + rnd.IntN(4))}
	first := 5 * rnd.IntN(soakKeys/5-4) // those of CL.LIMIT
	for i := 0; len(call) < 2+int(call[1][0]-'0'); i += 5 {
		call = append(call, fmt.Sprintf("key:%d", first+i))
	}
	call = append(call, strings.Fields(randomStacks[rnd.IntN(len(randomStacks))])...)
	return append(call, [][]string{nil, {"ANY"}, {"STRICT"}, {"FORCE"}, {"UPTO"}, {"ANY", "FORCE"}}[rnd.IntN(6)]...)
}

// callOfLeases takes, prolongs, gives back or looks at leases, some of which lapse and some of which last.
func callOfLeases(rnd *rand.Rand) []string {
	key, id := fmt.Sprintf("leases:%d", rnd.IntN(20)), strconv.Itoa(rnd.IntN(30))
	ttl := []string{"20ms", "300ms", "2s", "1h"}[rnd.IntN(4)]
	switch rnd.IntN(6) {
	case 0:
		return []string{"CL.RENEW", key, "ID", id, "TTL", ttl}
	case 1:
		return []string{"CL.RELEASE", key, "ID", id, "0", "1", "2"}
	case 2:
		return []string{"CL.LEASES", key}
	}
	return []string{"CL.LEASE", key, "SLOTS", strconv.Itoa(rnd.IntN(20)), "TTL", ttl, "ID", id}
}

// waiter blocks on one of a few keys until its unit or its slot has come, or not at all.
func (o *soak) waiter(c *resp.Conn) error {
	key := fmt.Sprintf("key:%d", rand.IntN(3)*5) // those of CL.LIMIT
	call := []string{"CL.WAIT", key, "RATE", "20/s", "BURST", "1", "TIMEOUT", "200ms"}
	switch rand.IntN(3) {
	case 0:
		call = []string{"CL.WAIT", fmt.Sprintf("windows:%d", rand.IntN(2)), "WINDOW", "3/100ms", "FIXED", "20/1s", "TIMEOUT", "200ms"}
	case 1:
		call = []string{"CL.LEASE", fmt.Sprintf("leases:%d", rand.IntN(2)), "SLOTS", "2", "TTL", "50ms", "ID", strconv.Itoa(rand.IntN(30)), "TIMEOUT", "200ms"}
	}
	return o.ask(c, [][]string{call})
}

// ask sends calls and judges the answers.
func (o *soak) ask(c *resp.Conn, calls [][]string) error {
	squeezes := o.squeezes.Load()
	replies, err := c.Pipeline(calls...)
	if err != nil {
		return err
	}
	squeezed := squeezes%2 == 1 || o.squeezes.Load() != squeezes
	for i, v := range replies {
		if err := o.judge(v, squeezed); err != nil {
			return fmt.Errorf("%w to %q: %w", errWrong, calls[i], err)
		}
	}
	return nil
}

func (o *soak) judge(v resp.Value, squeezed bool) error {
	switch {
	case v.IsError() && strings.HasPrefix(v.Text, "OOM ") && squeezed:
		o.count.outOfMemory.Add(1)
		return nil
	case v.IsError() && strings.HasPrefix(v.Text, "WRONGTYPE "):
		o.count.wrongType.Add(1)
		return nil
	}
	if known, limited := isAboutLeases(v); known {
		if limited {
			o.count.leaseLimited.Add(1)
		} else {
			o.count.leased.Add(1)
		}
		return nil
	}
	allowed, err := allowedIn(v)
	if len(v.Elems) == fieldsOfMLimit {
		o.count.ofKeys.Add(1)
	}
	if len(v.Elems) >= 18 && v.Elems[17].Int > 0 {
		o.count.waited.Add(1)
	}
	if allowed {
		o.count.allowed.Add(1)
	} else {
		o.count.limited.Add(1)
	}
	return err
}

const fieldsOfMLimit = 22 // and their names

// isAboutLeases knows replies of the commands about leases.
func isAboutLeases(v resp.Value) (known, limited bool) {
	switch {
	case v.Kind == resp.Integer: // CL.RELEASE
		return true, v.Int == 0
	case v.Kind == resp.Array && len(v.Elems) == 10: // CL.LEASES
		return v.Elems[0].Text == "held" && v.Elems[4].Text == "leases", v.Elems[1].Int == 0
	case v.Kind == resp.Array && len(v.Elems) == 12:
		return v.Elems[0].Text == "limited" && v.Elems[8].Text == "lease_ms", v.Elems[1].Int == 1
	}
	return false, false
}

const soakKeys = 3000

func soakKey() string { return fmt.Sprintf("key:%d", rand.IntN(soakKeys)) }

// meddler does to a limiter's key what other clients may do to any key.
func (o *soak) meddler(c *resp.Conn) error {
	key, other := soakKey(), soakKey()
	ahead := strconv.FormatInt(time.Now().Add(time.Duration(rand.IntN(7200)-3600)*time.Second).UnixNano(), 10)
	commands := [][]string{
		{"EXPIRE", key, "1000"}, {"PEXPIRE", key, "1"}, {"PEXPIREAT", key, "1"}, {"PERSIST", key},
		{"SET", key, "bar"}, {"SET", key, ""}, {"SET", key, ahead}, {"SET", key, ahead, "PX", "50"}, {"SET", key, "18446744073709551615"},
		{"APPEND", key, "0"}, {"SETRANGE", key, "3", "x"}, {"INCR", key}, {"GETRANGE", key, "0", "5"}, {"GETDEL", key},
		{"RPUSH", key, "x"}, {"HSET", key, "f", "v"}, {"SADD", key, "x"}, {"DEL", key}, {"UNLINK", key},
		{"RENAME", key, other}, {"COPY", key, other, "REPLACE"},
	}
	if !o.s.Program.LeavesClientsElsewhere() {
		commands = append(commands, []string{"MOVE", key, "1"})
	}
	// What is no limiter's state goes again soon, or all keys would end so.
	_, err := c.Pipeline(commands[rand.IntN(len(commands))], []string{"PEXPIRE", key, strconv.Itoa(1 + rand.IntN(2000))})
	o.count.meddled.Add(1)
	return err
}

// done counts commands that took effect. Some are refused while another of their kind
// is under way.
func done(count *atomic.Int64, v resp.Value, err error) error {
	if err == nil && !v.IsError() {
		count.Add(1)
	}
	return err
}

func (o *soak) saver(c *resp.Conn) error {
	v, err := c.Do([][]string{{"BGSAVE", "SCHEDULE"}, {"SAVE"}}[rand.IntN(2)]...)
	return done(&o.count.saved, v, err)
}

func (o *soak) rewriter(c *resp.Conn) error {
	v, err := c.Do("BGREWRITEAOF")
	return done(&o.count.rewritten, v, err)
}

func (o *soak) flusher(c *resp.Conn) error {
	v, err := c.Do([]string{"FLUSHALL", "FLUSHDB"}[rand.IntN(2)], "ASYNC")
	return done(&o.count.flushed, v, err)
}

func (o *soak) swapper(c *resp.Conn) error {
	v, err := c.Do("SWAPDB", "0", "1")
	return done(&o.count.swapped, v, err)
}

func (o *soak) pauser(c *resp.Conn) error {
	v, err := c.Do("CLIENT", "PAUSE", strconv.Itoa(20+rand.IntN(80)), []string{"WRITE", "ALL"}[rand.IntN(2)])
	return done(&o.count.paused, v, err)
}

// killer ends one client, which may be in the middle of anything.
func (o *soak) killer(c *resp.Conn) error {
	list, err := c.Do("CLIENT", "LIST", "TYPE", "normal")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(list.Text), "\n")
	var id int
	if _, err := fmt.Sscanf(lines[rand.IntN(len(lines))], "id=%d", &id); err != nil {
		return fmt.Errorf("%w to CLIENT LIST: %w", errWrong, err)
	}
	v, err := c.Do("CLIENT", "KILL", "ID", strconv.Itoa(id))
	return done(&o.count.killed, v, err)
}

// squeezer takes the server's memory away, so that it refuses writes or evicts keys,
// and gives it back.
func (o *soak) squeezer(c *resp.Conn) error {
	info, err := c.Do("INFO", "memory")
	if err != nil {
		return err
	}
	used, err := strconv.ParseInt(server.ParseInfo(info.Text)["used_memory"], 10, 64)
	if err != nil {
		return fmt.Errorf("%w to INFO: %w", errWrong, err)
	}
	policy := []string{"noeviction", "volatile-ttl", "volatile-lru", "allkeys-random"}[rand.IntN(4)]
	// What is evicted is replicated after what is nested in its notification: a server
	// that writes to a key in the middle of its own eviction differs from its replicas.
	o.squeeze.Lock()
	defer o.squeeze.Unlock()
	o.nest(nestedReads)
	before := o.count.outOfMemory.Load()
	o.squeezes.Add(1)
	_, err = c.Pipeline([]string{"CONFIG", "SET", "maxmemory-policy", policy}, []string{"CONFIG", "SET", "maxmemory", strconv.FormatInt(used*9/10, 10)})
	for until := time.Now().Add(300 * time.Millisecond); err == nil && time.Now().Before(until); {
		if o.count.outOfMemory.Load() > before+100 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	o.insist("CONFIG", "SET", "maxmemory", "0")
	o.squeezes.Add(1)
	return err
}

// insist sends a command that must be answered, on new connections until one lives long
// enough.
func (o *soak) insist(command ...string) resp.Value {
	for {
		c, err := resp.Dial(o.s.Addr())
		if !assert.NoError(o.t, err) {
			return resp.Value{}
		}
		v, err := c.Do(command...)
		_ = c.Close() // it may be broken
		if err == nil {
			return v
		}
	}
}

// info is a field of the server's INFO.
func (o *soak) info(section, field string) string {
	return server.ParseInfo(o.insist("INFO", section).Text)[field]
}

func (o *soak) String() string {
	c := &o.count
	return fmt.Sprintf("%d calls allowed, %d limited, %d waited, %d on several keys, %d about leases granted, %d not, %d met a foreign value, %d no memory; "+
		"%d nested calls; %d callers waited for hours to years, %d of them left; "+
		"%d connections broken, %d of them killed; %d pauses, %d failovers called off, %d snapshots, %d rewrites, %d flushes, %d swaps, %d keys meddled with, %d evicted; "+
		"%d first replicas came and went, %d further ones went on from a snapshot",
		c.allowed.Load(), c.limited.Load(), c.waited.Load(), c.ofKeys.Load(), c.leased.Load(), c.leaseLimited.Load(), c.wrongType.Load(), c.outOfMemory.Load(),
		c.nested.Load(), c.longWaits.Load(), c.longWaitsLeft.Load(),
		c.disconnected.Load(), c.killed.Load(), c.paused.Load(), c.calledOff.Load(),
		c.saved.Load(), c.rewritten.Load(), c.flushed.Load(), c.swapped.Load(), c.meddled.Load(), o.s.InfoInt("stats", "evicted_keys"),
		c.visits.Load(), o.s.InfoInt("stats", "sync_partial_ok"))
}

// missing names what has not happened yet, without which it is no soak.
func (o *soak) missing() (names []string) {
	c := &o.count
	all := map[string]*atomic.Int64{
		"allowed": &c.allowed, "limited": &c.limited, "waited": &c.waited, "wrong type": &c.wrongType, "out of memory": &c.outOfMemory,
		"killed": &c.killed, "paused": &c.paused, "saved": &c.saved, "rewritten": &c.rewritten, "flushed": &c.flushed,
		"swapped": &c.swapped, "meddled": &c.meddled, "nested": &c.nested, "long waits": &c.longWaits, "left": &c.longWaitsLeft,
		"leased": &c.leased, "lease limited": &c.leaseLimited, "several keys": &c.ofKeys,
	}
	if o.isFollowed {
		all["failovers called off"] = &c.calledOff
	} else {
		all["first replicas"] = &c.visits
	}
	for name, n := range all {
		if n.Load() == 0 {
			names = append(names, name)
		}
	}
	return names
}
