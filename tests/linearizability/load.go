package linearizability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/resp"
)

// subject is what callers ask of one object.
type subject interface {
	// name is a key of the object.
	name() string
	begin() object
	// call makes up a call.
	call(r *rand.Rand) *call
}

// one is a key and what callers ask of it.
type one struct {
	key    string
	limits []naive.Limit
	// group is the keys that are asked with it, nil where there are none.
	group *joined
	// policies are what its limits change to and from, from one call to the next, nil where they stay. Callers learn of
	// a change one by one.
	policies [][]naive.Limit
}

// subjects are keys with limits of all kinds, most of which a busy client uses up within some calls; a key whose policy
// changes; three keys that are asked together; a key with leases; and keys of units and slots that are taken and
// settled together.
// Keys with leases get movedTimeouts. All names have the hash tag, if there is one.
func subjects(r *rand.Rand, movedTimeouts bool, tag string) (s []subject) {
	name := func(kind string) string { return fmt.Sprintf("%s:%d%s", kind, r.IntN(1e6), tag) }
	together := func(kind string) string {
		if tag != "" {
			return name(kind)
		}
		return "{" + name(kind) + "}"
	}
	period := func() time.Duration { return time.Duration(20+r.IntN(80)) * time.Millisecond }
	count := func() int64 { return 3 + r.Int64N(6) }
	rate := func() naive.Limit {
		return naive.Limit{Kind: naive.Rate, Count: count(), Period: period(), Burst: 1 + r.Int64N(6)}
	}
	window := naive.Limit{Kind: naive.Window, Count: count(), Period: period()}
	fixed := naive.Limit{Kind: naive.Fixed, Count: count(), Period: period(), Offset: time.Duration(r.IntN(15)) * time.Millisecond}
	first := naive.Limit{Kind: naive.First, Count: count(), Period: period()}
	// Nothing of it comes back during a test, so each call tells how many there were before.
	quota := []naive.Limit{{Kind: naive.Fixed, Count: 1_000_000, Period: 1000 * time.Hour}, {Kind: naive.First, Count: 1_000_001, Period: time.Hour}}
	for _, kind := range []struct {
		name   string
		limits []naive.Limit
	}{
		{"quota", quota}, {"rate", []naive.Limit{rate()}}, {"rates", []naive.Limit{rate(), rate()}}, {"window", []naive.Limit{window}},
		{"fixed", []naive.Limit{fixed, first}}, {"stack", []naive.Limit{rate(), window, first}},
	} {
		s = append(s, one{key: name(kind.name), limits: kind.limits})
	}
	policies := [][]naive.Limit{{rate()}, {rate(), window}, {fixed, rate()}}
	s = append(s, one{key: name("policy"), policies: policies})
	s = append(s, join(together("joined"), []naive.Limit{rate()}, []naive.Limit{rate(), rate()}, quota[:1]))
	s = append(s, &leased{key: name("leased"), slots: 1 + r.Int64N(3), movedTimeouts: movedTimeouts})
	admitted := admit(together("admitted"), 1+r.Int64N(2), []naive.Limit{rate()}, quota[:1])
	admitted.running.movedTimeouts = movedTimeouts
	s = append(s, admitted)
	slices.SortFunc(s, func(a, b subject) int { return strings.Compare(a.name(), b.name()) })
	return s
}

func (s one) subject() subject {
	if s.group != nil {
		return s.group
	}
	return s
}

func (s one) name() string { return s.key }

func (s one) begin() object { return keys{s.key: &naive.Model{}} }

// does is a call on the key.
func (s one) does(words []string, run func(m *naive.Model, nowNs int64) []int64) *call {
	return &call{of: s.subject(), words: words, run: func(o object, nowNs int64) []result {
		after := o.clone().(keys)
		reply := run(after[s.key], nowNs)
		return []result{{object: after, reply: reply}}
	}}
}

// call makes up a call.
func (s one) call(r *rand.Rand) *call {
	if s.policies != nil {
		s.limits = s.policies[r.IntN(len(s.policies))]
	}
	o := naive.Options{Cost: r.Int64N(4)}
	onlyRates := !slices.ContainsFunc(s.limits, func(l naive.Limit) bool { return l.Kind != naive.Rate })
	if r.IntN(3) == 0 {
		o.Terms = terms(r, s.limits)
	}
	switch kind := r.IntN(20); {
	case kind == 0:
		return s.asks("CL.PEEK", o, func(m *naive.Model, nowNs int64) naive.Reply { return m.Peek(nowNs, s.limits, o.Cost, o.Terms...) })
	case kind == 1:
		for i := range o.Terms {
			o.Terms[i].Spare = 0
		}
		return s.asks("CL.REFUND", o, func(m *naive.Model, nowNs int64) naive.Reply { return m.Refund(nowNs, s.limits, o.Cost, o.Terms...) })
	case kind == 2 && r.IntN(3) == 0:
		d := int64(r.IntN(2) * (1 + r.IntN(5)))
		return s.does([]string{"CL.BAN", s.key, fmt.Sprint(d, "ms")},
			func(m *naive.Model, nowNs int64) []int64 { return []int64{m.Ban(nowNs, d*int64(time.Millisecond))} })
	case kind <= 5 && len(s.limits) == 1 && onlyRates:
		l := s.limits[0]
		return s.does([]string{"CL.THROTTLE", s.key, fmt.Sprint(l.Burst - 1), fmt.Sprint(l.Count), naive.Duration(l.Period), fmt.Sprint(o.Cost)},
			func(m *naive.Model, nowNs int64) []int64 {
				reply := m.Throttle(nowNs, l.Burst-1, l.Count, l.Period, o.Cost).Throttle()
				return reply[:]
			})
	case kind <= 8 && onlyRates:
		return s.wait(r, o)
	}
	o = options(r, o, onlyRates)
	return s.asks("CL.LIMIT", o, func(m *naive.Model, nowNs int64) naive.Reply { return m.Take(nowNs, s.limits, o) })
}

// options makes up those of a CL.LIMIT or CL.MLIMIT.
func options(r *rand.Rand, o naive.Options, onlyRates bool) naive.Options {
	takes := slices.ContainsFunc(o.Terms, func(t naive.Terms) bool { return t.HasTake })
	switch word := r.IntN(6); {
	case word == 0:
		o.UpTo = !takes
	case word == 1:
		o.Strict = true
	case word == 2:
		o.Force = r.IntN(2) == 0
	case word == 3 && onlyRates:
		o.MaxWait = time.Duration(r.IntN(100)) * time.Millisecond
	}
	if kind := r.IntN(15); o.MaxWait == 0 && kind <= 3 {
		o.Ban = time.Duration(1+r.IntN(5)) * time.Millisecond
		if kind > 0 {
			o.After = naive.After{Count: 2 + r.Int64N(2), Period: 50 * time.Millisecond}
		}
	}
	return o
}

// asks is a call on the key with limits.
func (s one) asks(name string, o naive.Options, run func(*naive.Model, int64) naive.Reply) *call {
	words := append([]string{name, s.key}, naive.Words(s.limits, o.Terms...)...)
	return s.does(append(append(words, o.Words()...), "COMPACT"), func(m *naive.Model, nowNs int64) []int64 {
		fields := run(m, nowNs).Fields()
		return fields[:]
	})
}

// waited stands for the reply of a CL.WAIT that had to wait. What it says besides is of the instant of the
// answer.
var waited = []int64{0, -1}

// wait is a CL.WAIT. It decides when it comes, like a CL.LIMIT with MAXWAIT.
func (s one) wait(r *rand.Rand, o naive.Options) *call {
	for i := range o.Terms {
		o.Terms[i].Shadow = false
	}
	o.MaxWait = time.Duration(1+r.IntN(20)) * time.Millisecond
	words := append([]string{"CL.WAIT", s.key}, naive.Words(s.limits, o.Terms...)...)
	words = append(words, "COST", fmt.Sprint(o.Cost), "TIMEOUT", naive.Duration(o.MaxWait), "COMPACT")
	return s.does(words, func(m *naive.Model, nowNs int64) []int64 {
		fields := m.Take(nowNs, s.limits, o).Fields()
		return asWaited(words, fields[:])
	})
}

// asWaited is the reply of a call, as far as the instant of its decision determines it.
func asWaited(words []string, reply []int64) []int64 {
	if words[0] == "CL.WAIT" && reply[0] == 0 && reply[8] > 0 {
		return waited
	}
	return reply
}

func terms(r *rand.Rand, limits []naive.Limit) (terms []naive.Terms) {
	for range limits {
		t := naive.Terms{Shadow: r.IntN(4) == 0, HasTake: r.IntN(3) == 0}
		if t.HasTake {
			t.Take = r.Int64N(4)
		}
		if r.IntN(3) == 0 {
			t.Spare = r.Int64N(3)
		}
		terms = append(terms, t)
	}
	return terms
}

// load is clients that call one after the other, until they have made all of their calls, half of them after
// what a test does meanwhile.
type load struct {
	t       *testing.T
	seed    uint64
	history *history
	// addr is where calls go now.
	addr     atomic.Pointer[string]
	subjects []subject
	clients  int
	calls    int           // of each
	during   chan struct{} // closed when the test has done what it does meanwhile
	// crashes is how many calls a client makes until it closes a connection without having read the reply;
	// 0 for never.
	crashes int
	// send sends a call and returns its reply; nil for one that sends it as it is.
	send func(c *resp.Conn, words []string) (resp.Value, error)
	// functions says that half of the calls that functions take are theirs: see callFunctions.
	functions bool
	// network is what clients know of the servers; nil for one address.
	network network
	given   sync.WaitGroup // calls that were given up
	// pause is the longest time that a client waits between two calls, once it has made half of them and until the test
	// is done.
	pause time.Duration
}

// network is for a load on several servers, of which some may be out of reach.
type network interface {
	// entry is whom a client asks about an object, and whether it has reason to ask that one.
	entry(client int, r *rand.Rand, about string) (addr string, sure bool)
	// learn is told who answered a client about an object, or "" when nobody did.
	learn(client int, about, addr string)
	// node is the number of the node at an address.
	node(addr string) int
	// patience is how long a client waits for the reply to a call; of nil, for a connection.
	patience(c *call, r *rand.Rand) time.Duration
	// refuses says whether an error, by its first word, means that a call did not happen.
	refuses(word string) bool
}

// single is the network of one address, where somebody answers sooner or later.
type single struct{ addr *atomic.Pointer[string] }

func (s single) entry(int, *rand.Rand, string) (string, bool) { return *s.addr.Load(), true }
func (s single) learn(int, string, string)                    {}
func (s single) node(string) int                              { return 0 }
func (s single) patience(*call, *rand.Rand) time.Duration     { return patience }
func (s single) refuses(string) bool                          { return false }

func (l *load) goTo(addr string) { l.addr.Store(&addr) }

// run returns when all clients have made their calls.
func (l *load) run() {
	if l.network == nil {
		l.network = single{&l.addr}
	}
	var group sync.WaitGroup
	for id := range l.clients {
		group.Go(func() {
			c := &client{load: l, id: id + 1, r: rand.New(rand.NewPCG(l.seed, uint64(id+1))), luck: rand.New(rand.NewPCG(l.seed, uint64(id+1)<<32))}
			defer c.hangUp()
			for left := l.calls; left > 0; {
				if left > l.calls/2 || l.isOver() {
					left--
				} else { // no more calls than the checker has patience for
					time.Sleep(max(time.Millisecond, time.Duration(c.luck.Int64N(int64(l.pause)+1))))
				}
				c.call()
			}
		})
	}
	group.Wait()
	l.given.Wait()
}

func (l *load) isOver() bool {
	select {
	case <-l.during:
		return true
	default:
		return false
	}
}

// integers returns the integers of a reply.
func (c *call) integers(v resp.Value) ([]int64, error) {
	switch {
	case c.read != nil:
		return c.read(v)
	case v.Kind == resp.Integer:
		return []int64{v.Int}, nil
	}
	return v.Ints()
}
