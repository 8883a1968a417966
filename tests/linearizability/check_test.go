package linearizability

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/naive"
)

// done is an operation, when it began and ended, and what is known of it.
type done struct {
	what         operation
	began, ended int64
	out          *outcome
}

func requireTold(t *testing.T, name string, beginsNs int64, operations []done, ok bool) {
	t.Helper()
	h := &history{beginsNs: beginsNs}
	for i, d := range operations {
		h.noteUntil(i, d.what, d.began, d.ended, d.out)
	}
	failed, undecided := h.check()
	require.Empty(t, undecided)
	assert.Equal(t, ok, len(failed) == 0, name)
}

// A key expires by the clock of one node, which is ahead. That is known to the others, or not, when the next one writes
// to the key, and is gone.
func TestTheCheckerKnowsWhatHadExpiredBeforeATakeover(t *testing.T) {
	const begin = int64(2e18)
	limits := []naive.Limit{{Kind: naive.Fixed, Count: 3, Period: time.Second}}
	subject := one{key: "key", limits: limits}
	o := naive.Options{Cost: 1}
	take := subject.asks("CL.LIMIT", o, func(m *naive.Model, nowNs int64) naive.Reply { return m.Take(nowNs, limits, o) })
	// What a node answers that finds a key which somebody has taken so many units from, the last of them at an instant.
	finds := func(node, taken int, atNs, nowNs int64) *outcome {
		object := subject.begin()
		for range taken {
			object = take.run(object, atNs)[0].object
		}
		return &outcome{node: node, reply: take.run(object, nowNs)[0].reply}
	}
	const first, ahead, later = begin + 5e9, int64(5e9), begin + 15e8 // the key expires at first + 1s
	for name, test := range map[string]struct {
		found *outcome
		ok    bool
	}{
		"it knows nothing of the next":              {finds(3, 0, 0, later), true},
		"it knows all":                              {finds(3, 1, later, later), true},
		"it does not know that the key had expired": {finds(3, 1, first, later), true},
		"it knows of more than there was":           {finds(3, 2, later, later), false},
	} {
		h := &history{beginsNs: begin, ahead: []int64{0, ahead, 0, 0}}
		for i, d := range []done{
			{take, 0, 10, finds(1, 0, 0, first)}, {&replication{}, 12, 15, &outcome{}}, {&clockMove{later}, 20, 30, &outcome{}},
			{take, 40, 50, finds(2, 0, 0, later)},
			{&succession{node: 3, former: 2}, 60, 70, &outcome{}}, {take, 80, 90, test.found},
		} {
			h.noteUntil(i, d.what, d.began, d.ended, d.out)
		}
		failed, undecided := h.check()
		require.Empty(t, undecided)
		assert.Equal(t, test.ok, len(failed) == 0, name)
	}
}

// So it does where the clock of the former master is set back before a replica takes over whose clock is behind.
func TestTheCheckerKnowsWhatHadExpiredBeforeAClockStep(t *testing.T) {
	const begin, later, behind = int64(2e18), int64(2e18) + 15e8, int64(-1e9) // the key expires at begin + 1s
	limits := []naive.Limit{{Kind: naive.Fixed, Count: 3, Period: time.Second}}
	subject := one{key: "key", limits: limits}
	o := naive.Options{Cost: 1}
	take := subject.asks("CL.LIMIT", o, func(m *naive.Model, nowNs int64) naive.Reply { return m.Take(nowNs, limits, o) })
	finds := func(node, taken int, nowNs int64) *outcome {
		object := subject.begin()
		for range taken {
			object = take.run(object, begin)[0].object
		}
		return &outcome{node: node, reply: take.run(object, nowNs)[0].reply}
	}
	for name, test := range map[string]struct {
		taken int
		ok    bool
	}{"the key has gone": {0, true}, "it has not": {1, true}, "nobody took so much": {2, false}} {
		h := &history{beginsNs: begin, ahead: []int64{0, 0, 0, behind}}
		for i, d := range []done{
			{take, 0, 10, finds(2, 0, begin)}, {&replication{}, 12, 15, &outcome{}}, {&clockMove{later}, 20, 30, &outcome{}},
			{take, 40, 50, finds(2, 0, later)}, {&nodeClockStep{2, -10e9}, 52, 55, &outcome{}},
			{&succession{node: 3, former: 2}, 60, 70, &outcome{}}, {take, 80, 90, finds(3, test.taken, later+behind)},
		} {
			h.noteUntil(i, d.what, d.began, d.ended, d.out)
		}
		failed, undecided := h.check()
		require.Empty(t, undecided)
		assert.Equal(t, test.ok, len(failed) == 0, name)
	}
}

// Histories of calls for one slot, for leases of ten seconds.
func TestTheCheckerTellsHistoriesOfLeasesApart(t *testing.T) {
	const ttl, begin = 10 * time.Second, int64(2e18)
	l := &leased{key: "key", slots: 1}
	take := func(id string) *call { return l.lease(id, 1, ttl) }
	waitsAt := func(id string, place naive.Turn) *call { return l.waits(id, 1, ttl, time.Minute, place) }
	waits := func(id string) *call { return waitsAt(id, naive.Turn{}) }
	lists := func(waiting int64) *outcome { return &outcome{reply: []int64{1, waiting, asInteger("a"), 10_000}} }
	urgent, ofX, ofY := naive.Turn{Priority: 1}, naive.Turn{Group: "x"}, naive.Turn{Group: "y"}

	out := func(reply ...int64) *outcome { return &outcome{reply: reply} }
	granted, limited := out(0, 1, 0, -1, 10_000, 0), out(1, 1, 0, 10_000, 0, 0)
	inTurn, renewed := out(0, 1, 0, -1, 10_000, 7), out(0, -1, -1, -1, 10_000, 0)
	none, lost, refused := out(1, -1, -1, -1, 0, 0), &outcome{unknown: true}, &outcome{refused: true}
	free := out(1, 1, 0, 1, 0, 0) // limited, but only because another caller is about to be let in
	over := &clockMove{begin + int64(ttl)}
	forgotten := &succession{}
	// b and c come one after the other, and the slot of a is released once they are in line.
	inLine := func(b, c done, then ...done) []done {
		return append([]done{{take("a"), 0, 10, granted}, b, {l.list(), 14, 16, lists(1)}, c, {l.list(), 22, 24, lists(2)},
			{l.release("a"), 30, 40, out(1)}}, then...)
	}
	for name, test := range map[string]struct {
		history []done
		ok      bool
	}{
		"one of two":                        {[]done{{take("a"), 0, 10, granted}, {take("b"), 5, 15, limited}}, true},
		"both of two: one too many":         {[]done{{take("a"), 0, 10, granted}, {take("b"), 5, 15, granted}}, false},
		"the same again":                    {[]done{{take("a"), 0, 10, granted}, {take("a"), 20, 30, granted}}, true},
		"after a release":                   {[]done{{take("a"), 0, 10, granted}, {l.release("a"), 20, 30, out(1)}, {take("b"), 40, 50, granted}}, true},
		"released twice":                    {[]done{{take("a"), 0, 10, granted}, {l.release("a"), 20, 30, out(1)}, {l.release("a"), 40, 50, out(1)}}, false},
		"after a lapse":                     {[]done{{take("a"), 0, 10, granted}, {over, 20, 30, lost}, {take("b"), 40, 50, granted}}, true},
		"held beyond its lapse":             {[]done{{take("a"), 0, 10, granted}, {over, 20, 30, lost}, {take("b"), 40, 50, limited}}, false},
		"renewed":                           {[]done{{take("a"), 0, 10, granted}, {l.renew("a", ttl), 20, 30, renewed}}, true},
		"lost":                              {[]done{{take("a"), 0, 10, granted}, {over, 20, 30, lost}, {l.renew("a", ttl), 40, 50, none}}, true},
		"revived":                           {[]done{{take("a"), 0, 10, granted}, {over, 20, 30, lost}, {l.renew("a", ttl), 40, 50, renewed}}, false},
		"revived, and another has its slot": {[]done{{take("a"), 0, 10, granted}, {over, 20, 30, lost}, {take("b"), 40, 50, granted}, {l.renew("a", ttl), 60, 70, renewed}}, false},
		"let in after a release":            {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, inTurn}, {l.release("a"), 30, 40, out(1)}}, true},
		"let in without a release":          {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, inTurn}}, false},
		"let in before the release":         {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 25, inTurn}, {l.release("a"), 30, 40, out(1)}}, false},
		"let in after a lapse":              {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, inTurn}, {over, 30, 40, lost}}, true},
		"in order of arrival":               {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, inTurn}, {l.release("a"), 30, 40, out(1)}, {take("c"), 35, 60, limited}}, true},
		"overtaken": {[]done{{take("a"), 0, 10, granted}, {waits("b"), 12, 90, inTurn},
			{l.list(), 14, 16, out(1, 1, asInteger("a"), 10_000)}, {l.release("a"), 30, 40, out(1)}, {take("c"), 50, 60, granted},
			{l.release("c"), 70, 80, out(1)}}, false},
		"not overtaken": {[]done{{take("a"), 0, 10, granted}, {waits("b"), 12, 90, inTurn},
			{l.list(), 14, 16, out(1, 1, asInteger("a"), 10_000)}, {l.release("a"), 30, 40, out(1)}, {take("c"), 50, 60, free}}, true},
		"the higher priority first": {inLine(done{waits("b"), 12, 90, inTurn}, done{waitsAt("c", urgent), 18, 50, inTurn}, done{l.release("c"), 70, 80, out(1)}), true},
		"the lower priority first":  {inLine(done{waits("b"), 12, 50, inTurn}, done{waitsAt("c", urgent), 18, 90, inTurn}, done{l.release("b"), 70, 80, out(1)}), false},
		"groups take turns": {inLine(done{waitsAt("b", ofX), 12, 45, inTurn}, done{waitsAt("c", ofX), 18, 90, inTurn},
			done{waitsAt("d", ofY), 25, 55, inTurn}, done{l.list(), 27, 29, lists(3)}, done{l.release("b"), 46, 50, out(1)},
			done{l.release("d"), 70, 80, out(1)}), true},
		"a group has two turns": {inLine(done{waitsAt("b", ofX), 12, 45, inTurn}, done{waitsAt("c", ofX), 18, 55, inTurn},
			done{waitsAt("d", ofY), 25, 90, inTurn}, done{l.list(), 27, 29, lists(3)}, done{l.release("b"), 46, 50, out(1)},
			done{l.release("c"), 70, 80, out(1)}), false},
		"sent away before its time": {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, limited}}, false},
		"refused, and not let in": {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, refused},
			{l.release("a"), 30, 40, out(1)}, {take("c"), 60, 70, granted}}, true},
		"refused, but let in": {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, refused},
			{l.release("a"), 30, 40, out(1)}, {take("c"), 60, 70, limited}}, false},
		"without a reply, and let in": {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, lost}, {l.release("a"), 30, 40, out(1)}, {take("c"), 60, 70, limited}}, true},
		"a takeover forgets a lease":  {[]done{{take("a"), 0, 10, granted}, {forgotten, 20, 30, lost}, {take("b"), 40, 50, granted}}, true},
		"a takeover ends the line": {[]done{{take("a"), 0, 10, granted}, {waits("b"), 12, 35, lost}, {forgotten, 20, 30, lost},
			{l.list(), 40, 50, out(1, 0, asInteger("a"), 10_000)}}, true},
		"a takeover does not lapse what it kept": {[]done{{take("a"), 0, 10, granted}, {forgotten, 20, 30, lost}, {take("b"), 40, 50, limited}, {take("c"), 60, 70, granted}}, false},
	} {
		requireTold(t, name, begin, test.history, test.ok)
	}
}
