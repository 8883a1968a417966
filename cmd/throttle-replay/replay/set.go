package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"redis-throttle/gcra"
	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/positions"
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/embedded"
	"redis-throttle/limiter/stack"
)

// Set is limits that are tried: what CL.LIMIT is told behind its key.
type Set struct {
	Name  string
	Words string
}

// compiled is a Set that was read.
type compiled struct {
	Set
	words  [][]byte
	limits []string // the words of each
	rest   [][]byte // words that are of none
	costs  bool     // the cost of a request is told with each call
	rate   *gcra.Limit
	isNone bool     // it lets everything through
	keys   *chooser // of a set whose limits depend on the key; nil for others
}

// reserved are the words that a set cannot have, and why.
var reserved = map[string]string{
	"COMPACT": "throttle-replay reads all of a reply itself",
	"EACH":    "throttle-replay reads all of a reply itself",
	"COST":    "--cost says what a request takes; TAKE, of one limit",
}

// compile reads the words of a set as the module does.
func (s Set) compile(costs bool) (*compiled, error) {
	c := &compiled{Set: s, costs: costs}
	for _, word := range strings.Fields(s.Words) {
		if why := reserved[strings.ToUpper(word)]; why != "" {
			return nil, fmt.Errorf("%s: %s: %s", s.Name, word, why)
		}
		c.words = append(c.words, []byte(word))
	}
	syntax := words.Compile(words.Form{Command: "LIMIT"})
	args := append([][]byte{[]byte("key")}, c.words...)
	var limits stack.Stack
	var request words.Request
	parser := new(words.Parser)
	if err := parser.Parse(&syntax, &request, args, &limits); err != nil {
		text := string(err.AppendTo(nil))
		return nil, errors.New(s.Name + ": " + strings.TrimPrefix(text, "ERR "))
	}
	c.split(parser, args, limits.Len())
	if limits.Len() == 1 && len(c.rest) == 0 {
		// Package gcra decides a plain rate without the rest of a call, as CL.THROTTLE does.
		c.rate = limits.Limits(nil)[0].PlainRate()
	}
	return c, nil
}

// Split returns the words of a set: those of each limit, and those behind them, which are about the call.
func Split(text string) (limits, rest []string, err error) {
	c, err := Set{"--limit", text}.compile(false)
	if err != nil {
		return nil, nil, err
	}
	for _, word := range c.rest {
		rest = append(rest, string(word))
	}
	return c.limits, rest, nil
}

// split takes the words of each limit, as the parser has read them.
func (c *compiled) split(p *words.Parser, args [][]byte, n int) {
	last := 1
	for i := range n {
		at := p.LimitAt(i)
		c.rest = append(c.rest, args[last:at.From]...)
		last = at.To
		text := bytes.Join(args[at.From:at.To], []byte(" "))
		kind, rest, _ := strings.Cut(string(text), " ")
		c.limits = append(c.limits, strings.ToUpper(kind)+" "+rest)
	}
	c.rest = append(c.rest, args[last:]...)
}

// trial is a set at work, for one client after the other. Each goroutine has its own.
type trial struct {
	*compiled
	tally *setTally
	first int      // where its limits are in the tally
	of    []*trial // of a set whose limits depend on the key, those of each of its sets, once one was needed
	now   *trial   // of the client in hand

	tat    uint64 // of a rate
	key    embedded.Key
	runner embedded.Runner
	call   embedded.Call
	cost   []byte

	// Of the client in hand.
	denied, deniedUnits int64
	longestMs           int64
	weight              int64
}

// setTally is what a set did.
type setTally struct {
	requests, units        int64 // weighted, as all of these are
	denied, deniedUnits    int64
	delayed, shadowed      int64
	clients, deniedClients int64
	retries, delays        waits
	decided                []int64 // denied requests, by the limit with the longest wait
	alone                  []int64 // requests that each limit would have denied by itself
	applied                []int64 // requests that each limit applies to
	unlimited              int64
	series                 []int64 // denied, by time
	top                    topClients
	errors                 int64
	example                string // of an error
	deniedShares           counts // of the requests of a client, in percent, of clients that were denied any
	groups                 groupTally
	outliersDenied         int64 // requests of clients that stand out
}

func (c *compiled) trial(series, top int) *trial {
	n := len(c.limits)
	t := c.trialOf(&setTally{decided: make([]int64, n), alone: make([]int64, n), applied: make([]int64, n), series: make([]int64, series)}, 0)
	t.tally.top.most = top
	return t
}

// trialOf is a set at work that counts into a tally, its limits from first on.
func (c *compiled) trialOf(tally *setTally, first int) *trial {
	t := &trial{compiled: c, tally: tally, first: first}
	if c.keys != nil {
		t.of = make([]*trial, len(c.keys.sets))
		return t
	}
	all := append([][]byte{[]byte("CL.LIMIT"), []byte("k")}, c.words...)
	if c.costs {
		all = append(all, []byte("COST"), nil)
	}
	t.call.Words = append(all, []byte("COMPACT"), []byte("EACH"))
	return t
}

// costAt is where the cost stands among the words.
func (t *trial) costAt() int { return 2 + len(t.words) + 1 }

// begin begins with another client.
func (t *trial) begin(i uint32, weight int64) {
	t.weight = weight
	if t.keys != nil {
		at := t.keys.chosen[i]
		if t.of[at] == nil {
			t.of[at] = t.keys.sets[at].trialOf(t.tally, t.keys.firsts[at])
		}
		t.now = t.of[at]
		t.now.begin(i, weight)
	}
	t.tat, t.key = 0, embedded.Key{}
	t.denied, t.deniedUnits, t.longestMs = 0, 0, 0
}

// feed decides requests of the client, in their order.
func (t *trial) feed(times, costs []int64, s *series) {
	switch {
	case t.now != nil:
		t.now.feed(times, costs, s)
		return
	case t.isNone:
		return
	case t.rate != nil:
		t.feedRate(times, costs, s)
		return
	}
	for i, ns := range times {
		cost := int64(1)
		if t.costs {
			cost = costs[i]
			t.cost = strconv.AppendInt(t.cost[:0], cost, 10)
			t.call.Words[t.costAt()] = t.cost
		}
		t.call.NowNs = ns
		t.read(t.runner.Run(command.Limit, &t.call, &t.key), ns, cost, s)
	}
}

// feedRate is feed of a plain rate.
func (t *trial) feedRate(times, costs []int64, s *series) {
	var d gcra.Decision
	for i, ns := range times {
		cost := int64(1)
		if t.costs {
			cost = costs[i]
		}
		t.rate.TakeTo(&d, t.tat, ns, cost)
		if d.Changed {
			t.tat = d.TAT
		}
		if !d.Allowed {
			retryMs := int64(-1)
			if d.RetryAfter != gcra.Never {
				retryMs = (d.RetryAfter-1)/1e6 + 1
			}
			t.deny(ns, cost, retryMs, s)
			t.tally.decided[t.first] += t.weight
			t.tally.alone[t.first] += t.weight
		}
	}
}

// read notes a reply.
func (t *trial) read(c *command.Call, ns, cost int64, s *series) {
	if c.Reply != command.ReplyIntegersEach {
		t.tally.errors += t.weight
		if t.tally.example == "" {
			t.tally.example = string(c.Error)
		}
		return
	}
	limited, rule := c.Integers[positions.LimitLimited] != 0, c.Integers[positions.LimitRule]
	retryMs, waitMs, shadow := c.Integers[positions.LimitRetryAfterMs], c.Integers[positions.LimitWaitMs], c.Integers[positions.LimitShadow]
	if limited {
		t.deny(ns, cost, retryMs, s)
		if rule > 0 {
			t.tally.decided[t.first+int(rule)-1] += t.weight
		}
	} else if waitMs > 0 {
		t.tally.delayed += t.weight
		t.tally.delays.add(waitMs, t.weight)
	}
	if shadow > 0 && !limited {
		t.tally.shadowed += t.weight
	}
	for i := range c.Each {
		if c.Each[i][0] != 0 {
			t.tally.alone[t.first+i] += t.weight
		}
	}
}

func (t *trial) deny(ns, cost, retryMs int64, s *series) {
	t.denied++
	t.deniedUnits += cost
	t.longestMs = longer(t.longestMs, retryMs)
	t.tally.retries.add(retryMs, t.weight)
	t.tally.series[s.index(ns)] += t.weight
}

// longer is the longer of two waits. Never, which is negative, is the longest.
func longer(aMs, bMs int64) int64 {
	if aMs < 0 || bMs < 0 {
		return -1
	}
	return max(aMs, bMs)
}

// end ends with a client.
func (t *trial) end(i uint32, c *client) {
	if t.now != nil {
		t.now.end(i, c)
		t.denied = t.now.denied
		return
	}
	y := t.tally
	for j := range t.limits {
		y.applied[t.first+j] += c.lines * t.weight
	}
	if t.isNone {
		y.unlimited += c.lines * t.weight
	}
	y.requests += c.lines * t.weight
	y.units += c.units * t.weight
	y.clients += t.weight
	y.groups.add(c, t.denied, t.weight)
	if t.denied == 0 {
		return
	}
	y.denied += t.denied * t.weight
	y.deniedUnits += t.deniedUnits * t.weight
	y.deniedClients += t.weight
	y.deniedShares.add(t.denied*100/c.lines, t.weight)
	y.top.add(topClient{client: i, id: c.id, lines: c.lines, denied: t.denied, longestMs: t.longestMs})
}

func (y *setTally) merge(o *setTally) {
	y.requests += o.requests
	y.units += o.units
	y.denied += o.denied
	y.deniedUnits += o.deniedUnits
	y.delayed += o.delayed
	y.shadowed += o.shadowed
	y.clients += o.clients
	y.deniedClients += o.deniedClients
	y.retries.merge(&o.retries)
	y.delays.merge(&o.delays)
	y.deniedShares.merge(&o.deniedShares)
	y.groups.merge(&o.groups)
	y.outliersDenied += o.outliersDenied
	for i := range y.decided {
		y.decided[i] += o.decided[i]
		y.alone[i] += o.alone[i]
		y.applied[i] += o.applied[i]
	}
	for i := range y.series {
		y.series[i] += o.series[i]
	}
	for _, c := range o.top.all {
		y.top.add(c)
	}
	y.unlimited += o.unlimited
	y.errors += o.errors
	if y.example == "" {
		y.example = o.example
	}
}

// topClient is a client in a list of those with the most.
type topClient struct {
	client                   uint32
	id                       uint64
	lines, denied, longestMs int64
	peaks                    [len(periodsNs)]int64
}

// topClients are the clients with the most denied requests, then with the most requests.
type topClients struct {
	most int
	all  []topClient // by rank
}

func (c *topClient) before(o *topClient) bool {
	switch {
	case c.denied != o.denied:
		return c.denied > o.denied
	case c.lines != o.lines:
		return c.lines > o.lines
	}
	return c.id < o.id
}

func (t *topClients) add(c topClient) {
	at := len(t.all)
	for at > 0 && c.before(&t.all[at-1]) {
		at--
	}
	if at >= t.most {
		return
	}
	if len(t.all) < t.most {
		t.all = append(t.all, topClient{})
	}
	copy(t.all[at+1:], t.all[at:])
	t.all[at] = c
}
