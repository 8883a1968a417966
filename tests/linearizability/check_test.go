package linearizability

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/naive"
)

// Histories made by hand: of calls for the only unit that there is in an hour.
func TestTheCheckerTellsHistoriesApart(t *testing.T) {
	hour := []naive.Limit{{Kind: naive.Fixed, Count: 1, Period: time.Hour}}
	key := one{key: "key", limits: hour}
	ask := key.asks("CL.LIMIT", naive.Options{Cost: 1}, func(m *naive.Model, nowNs int64) naive.Reply {
		return m.Take(nowNs, hour, naive.Options{Cost: 1})
	})
	// What the model says at the beginning of the first hour and of the second.
	const second = int64(time.Hour)
	first := ask.run(key.begin(), 0)[0]
	yes, no := &outcome{reply: first.reply}, &outcome{reply: ask.run(first, 0)[0].reply}
	yesLater, lost := &outcome{reply: ask.run(first, second)[0].reply}, &outcome{unknown: true}
	clock, take, safe := &clockMove{second}, &succession{}, &replication{}
	for name, test := range map[string]struct {
		history []done
		ok      bool
	}{
		"one of two":                             {[]done{{ask, 0, 10, yes}, {ask, 5, 15, no}}, true},
		"one of two, the later one":              {[]done{{ask, 0, 10, no}, {ask, 5, 15, yes}}, true},
		"both of two: one too many":              {[]done{{ask, 0, 10, yes}, {ask, 5, 15, yes}}, false},
		"limited before anybody took it":         {[]done{{ask, 0, 10, no}, {ask, 20, 30, yes}}, false},
		"limited by a call that happened twice":  {[]done{{ask, 0, 10, no}}, false},
		"limited by a call without a reply":      {[]done{{ask, 0, 5, lost}, {ask, 20, 30, no}}, true},
		"a call without a reply did not happen":  {[]done{{ask, 0, 5, lost}, {ask, 20, 30, yes}}, true},
		"limited by a call that came afterwards": {[]done{{ask, 0, 10, no}, {ask, 20, never, lost}}, false},
		"one in each hour":                       {[]done{{ask, 0, 10, yes}, {clock, 20, 30, lost}, {ask, 25, 35, yesLater}}, true},
		"one in each hour, before that came":     {[]done{{ask, 0, 10, yes}, {ask, 12, 18, yesLater}, {clock, 20, 30, lost}}, false},
		"one in each hour, in time":              {[]done{{ask, 0, 10, yes}, {ask, 12, 21, yesLater}, {clock, 20, 30, lost}}, true},
		"a takeover forgets the last write":      {[]done{{ask, 0, 10, yes}, {take, 20, 30, lost}, {ask, 40, 50, yes}}, true},
		"a takeover forgets nothing":             {[]done{{ask, 0, 10, yes}, {take, 20, 30, lost}, {ask, 40, 50, no}}, true},
		"nothing is forgotten before a takeover": {[]done{{ask, 0, 10, yes}, {ask, 12, 18, yes}, {take, 20, 30, lost}}, false},
		"what is replicated is not forgotten":    {[]done{{ask, 0, 10, yes}, {safe, 11, 12, lost}, {take, 20, 30, lost}, {ask, 40, 50, yes}}, false},
	} {
		requireTold(t, name, 0, test.history, test.ok)
	}
}

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

// Histories of calls that ban their key for a day with the second denial.
func TestTheCheckerTellsHistoriesOfDenialsApart(t *testing.T) {
	hour := []naive.Limit{{Kind: naive.Fixed, Count: 1, Period: time.Hour}}
	o := naive.Options{Cost: 1, Ban: 24 * time.Hour, After: naive.After{Count: 2, Period: time.Hour}}
	key := one{key: "key", limits: hour}
	ask := key.asks("CL.LIMIT", o, func(m *naive.Model, nowNs int64) naive.Reply { return m.Take(nowNs, hour, o) })
	var says [4]*outcome // let through, denied, denied and banned, denied by the ban
	object := key.begin()
	for i := range says {
		r := ask.run(object, 0)[0]
		object, says[i] = r.object, &outcome{reply: r.reply}
	}
	yes, no, last, banned := says[0], says[1], says[2], says[3]
	require.NotEqual(t, no.reply, last.reply)
	require.NotEqual(t, last.reply, banned.reply)
	take, safe, lost := &succession{}, &replication{}, &outcome{unknown: true}
	for name, test := range map[string]struct {
		history []done
		ok      bool
	}{
		"the second denial bans":             {[]done{{ask, 0, 10, yes}, {ask, 20, 30, no}, {ask, 40, 50, last}, {ask, 60, 70, banned}}, true},
		"both denials at once":               {[]done{{ask, 0, 10, yes}, {ask, 20, 30, last}, {ask, 20, 30, no}}, true},
		"a denial that is not counted":       {[]done{{ask, 0, 10, yes}, {ask, 20, 30, no}, {ask, 40, 50, no}}, false},
		"a ban that begins with the first":   {[]done{{ask, 0, 10, yes}, {ask, 20, 30, last}}, false},
		"a ban after the first":              {[]done{{ask, 0, 10, yes}, {ask, 20, 30, no}, {ask, 40, 50, banned}}, false},
		"a denial that nobody was told of":   {[]done{{ask, 0, 10, yes}, {ask, 12, 14, lost}, {ask, 20, 30, last}}, true},
		"a takeover forgets a denial":        {[]done{{ask, 0, 10, yes}, {ask, 20, 30, no}, {take, 35, 36, lost}, {ask, 40, 50, no}}, true},
		"a takeover forgets what was safe":   {[]done{{ask, 0, 10, yes}, {ask, 20, 30, no}, {safe, 31, 32, lost}, {take, 35, 36, lost}, {ask, 40, 50, no}}, false},
		"a takeover forgets a ban, no units": {[]done{{ask, 0, 10, yes}, {ask, 20, 30, no}, {ask, 40, 50, last}, {take, 55, 56, lost}, {ask, 60, 70, last}}, true},
	} {
		requireTold(t, name, 0, test.history, test.ok)
	}
}

// Histories of calls on two keys, of which one holds one unit and the other two.
func TestTheCheckerTellsHistoriesOfSeveralKeysApart(t *testing.T) {
	const hour = time.Hour
	j := join("{key}", []naive.Limit{{Kind: naive.Fixed, Count: 1, Period: hour}}, []naive.Limit{{Kind: naive.Fixed, Count: 2, Period: hour}})
	o := naive.Options{Cost: 1}
	calls := []naive.Call{{Limits: j.members[0].limits}, {Limits: j.members[1].limits}}
	both, either := j.asks(j.members, calls, false, o), j.asks(j.members, calls, true, o)
	second := j.members[1].asks("CL.LIMIT", o, func(m *naive.Model, nowNs int64) naive.Reply { return m.Take(nowNs, j.members[1].limits, o) })
	take, safe, lost := &succession{}, &replication{}, &outcome{unknown: true}
	// What the calls answer, by how many units are left of each key.
	left := func(what *call, first, second int) *outcome {
		object := j.begin()
		for i, used := range []int{1 - first, 2 - second} {
			for range used {
				m := j.members[i]
				object = m.asks("CL.LIMIT", o, func(model *naive.Model, nowNs int64) naive.Reply { return model.Take(nowNs, m.limits, o) }).run(object, 0)[0].object
			}
		}
		return &outcome{reply: what.run(object, 0)[0].reply}
	}
	for name, test := range map[string]struct {
		history []done
		ok      bool
	}{
		"all of both":                        {[]done{{both, 0, 10, left(both, 1, 2)}, {both, 20, 30, left(both, 0, 1)}, {second, 40, 50, left(second, 0, 1)}}, true},
		"the second is charged by half":      {[]done{{both, 0, 10, left(both, 1, 2)}, {second, 20, 30, left(second, 0, 2)}}, false},
		"the first is charged by half":       {[]done{{both, 0, 10, left(both, 1, 2)}, {both, 20, 30, left(both, 1, 1)}}, false},
		"a limited call charges the second":  {[]done{{both, 0, 10, left(both, 1, 2)}, {both, 20, 30, left(both, 0, 1)}, {second, 40, 50, left(second, 0, 0)}}, false},
		"half of it is seen meanwhile":       {[]done{{both, 0, 10, left(both, 1, 2)}, {second, 2, 3, left(second, 1, 2)}, {both, 20, 30, left(both, 0, 0)}}, true},
		"one of both":                        {[]done{{either, 0, 10, left(either, 1, 2)}, {either, 20, 30, left(either, 0, 2)}, {second, 40, 50, left(second, 0, 1)}}, true},
		"one of both charges both":           {[]done{{either, 0, 10, left(either, 1, 2)}, {second, 20, 30, left(second, 0, 1)}}, false},
		"a takeover forgets both":            {[]done{{both, 0, 10, left(both, 1, 2)}, {take, 20, 30, lost}, {both, 40, 50, left(both, 1, 2)}}, true},
		"a takeover forgets one of both":     {[]done{{both, 0, 10, left(both, 1, 2)}, {take, 20, 30, lost}, {second, 40, 50, left(second, 0, 2)}, {both, 60, 70, left(both, 0, 1)}}, false},
		"a takeover forgets an earlier call": {[]done{{both, 0, 10, left(both, 1, 2)}, {second, 12, 15, left(second, 0, 1)}, {take, 20, 30, lost}, {second, 40, 50, left(second, 1, 1)}, {both, 60, 70, left(both, 1, 0)}}, false},
		"a takeover forgets what was safe":   {[]done{{both, 0, 10, left(both, 1, 2)}, {safe, 12, 15, lost}, {take, 20, 30, lost}, {both, 40, 50, left(both, 1, 2)}}, false},
	} {
		requireTold(t, name, 0, test.history, test.ok)
	}
}

// A key expires by the clock of one node, which is ahead. That is known to the others, or not, when the next one writes to the key, and is gone.
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
			{take, 0, 10, finds(1, 0, 0, first)}, {&replication{}, 12, 15, &outcome{}}, {&clockMove{later}, 20, 30, &outcome{}}, {take, 40, 50, finds(2, 0, 0, later)},
			{&succession{node: 3, former: 2}, 60, 70, &outcome{}}, {take, 80, 90, test.found},
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
		return append([]done{{take("a"), 0, 10, granted}, b, {l.list(), 14, 16, lists(1)}, c, {l.list(), 22, 24, lists(2)}, {l.release("a"), 30, 40, out(1)}}, then...)
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
		"overtaken":                         {[]done{{take("a"), 0, 10, granted}, {waits("b"), 12, 90, inTurn}, {l.list(), 14, 16, out(1, 1, asInteger("a"), 10_000)}, {l.release("a"), 30, 40, out(1)}, {take("c"), 50, 60, granted}, {l.release("c"), 70, 80, out(1)}}, false},
		"not overtaken":                     {[]done{{take("a"), 0, 10, granted}, {waits("b"), 12, 90, inTurn}, {l.list(), 14, 16, out(1, 1, asInteger("a"), 10_000)}, {l.release("a"), 30, 40, out(1)}, {take("c"), 50, 60, free}}, true},
		"the higher priority first":         {inLine(done{waits("b"), 12, 90, inTurn}, done{waitsAt("c", urgent), 18, 50, inTurn}, done{l.release("c"), 70, 80, out(1)}), true},
		"the lower priority first":          {inLine(done{waits("b"), 12, 50, inTurn}, done{waitsAt("c", urgent), 18, 90, inTurn}, done{l.release("b"), 70, 80, out(1)}), false},
		"groups take turns": {inLine(done{waitsAt("b", ofX), 12, 45, inTurn}, done{waitsAt("c", ofX), 18, 90, inTurn},
			done{waitsAt("d", ofY), 25, 55, inTurn}, done{l.list(), 27, 29, lists(3)}, done{l.release("b"), 46, 50, out(1)}, done{l.release("d"), 70, 80, out(1)}), true},
		"a group has two turns": {inLine(done{waitsAt("b", ofX), 12, 45, inTurn}, done{waitsAt("c", ofX), 18, 55, inTurn},
			done{waitsAt("d", ofY), 25, 90, inTurn}, done{l.list(), 27, 29, lists(3)}, done{l.release("b"), 46, 50, out(1)}, done{l.release("c"), 70, 80, out(1)}), false},
		"sent away before its time":              {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, limited}}, false},
		"refused, and not let in":                {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, refused}, {l.release("a"), 30, 40, out(1)}, {take("c"), 60, 70, granted}}, true},
		"refused, but let in":                    {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, refused}, {l.release("a"), 30, 40, out(1)}, {take("c"), 60, 70, limited}}, false},
		"without a reply, and let in":            {[]done{{take("a"), 0, 10, granted}, {waits("b"), 20, 50, lost}, {l.release("a"), 30, 40, out(1)}, {take("c"), 60, 70, limited}}, true},
		"a takeover forgets a lease":             {[]done{{take("a"), 0, 10, granted}, {forgotten, 20, 30, lost}, {take("b"), 40, 50, granted}}, true},
		"a takeover ends the line":               {[]done{{take("a"), 0, 10, granted}, {waits("b"), 12, 35, lost}, {forgotten, 20, 30, lost}, {l.list(), 40, 50, out(1, 0, asInteger("a"), 10_000)}}, true},
		"a takeover does not lapse what it kept": {[]done{{take("a"), 0, 10, granted}, {forgotten, 20, 30, lost}, {take("b"), 40, 50, limited}, {take("c"), 60, 70, granted}}, false},
	} {
		requireTold(t, name, begin, test.history, test.ok)
	}
}
