package linearizability

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/resp"
)

// Histories of admissions with two units of a hundred in an hour and the only slot, for ten seconds, settled at three units.
func TestTheCheckerTellsHistoriesOfAdmissionsApart(t *testing.T) {
	const ttl, begin = 10 * time.Second, int64(2e18)
	of := admit("{key}", 1, []naive.Limit{{Kind: naive.Fixed, Count: 100, Period: time.Hour}})
	units, running := of.members[0], of.running
	two, three := amounts{{2}}, amounts{{3}}
	enter := func(id string) *call { return of.admit(of.members, two, id, ttl, false) }
	settle := func(id string) *call { return of.settle(of.members, two, three, id) }
	charge := func(cost int64) *call {
		o := naive.Options{Cost: cost}
		return of.ofUnits(units.asks("CL.LIMIT", o, func(m *naive.Model, nowNs int64) naive.Reply { return m.Take(nowNs, units.limits, o) }))
	}
	show := of.ofUnits(units.asks("CL.PEEK", naive.Options{}, func(m *naive.Model, nowNs int64) naive.Reply { return m.Peek(nowNs, units.limits, 0) }))
	list := of.ofLeases(running.list())
	lease := func(id string) *call { return of.ofLeases(running.lease(id, 1, ttl)) }
	release := func(id string) *call { return of.ofLeases(running.release(id)) }
	waits := func(id string) *call { return of.ofLeases(running.waits(id, 1, ttl, time.Minute, naive.Turn{})) }
	over := &clockMove{begin + int64(ttl)}
	safe, forgotten := &replication{}, &succession{}
	lost := &outcome{unknown: true}
	inTurn := &outcome{reply: []int64{0, 1, 0, -1, 10_000, 7}}
	// What a call answers after others, at the beginning, or once the lease has lapsed.
	saysAt := func(nowNs int64, what *call, after ...*call) *outcome {
		object := of.begin()
		for _, o := range after {
			object = o.run(object, begin)[0].object
		}
		return &outcome{reply: what.run(object, nowNs)[0].reply}
	}
	says := func(what *call, after ...*call) *outcome { return saysAt(begin, what, after...) }
	in, settled, tooLate := says(enter("a")), says(settle("a"), enter("a")), says(settle("a"), charge(3))
	again, denied := says(enter("a"), enter("a")), says(enter("b"), enter("a"))
	// a is admitted, and then it settles.
	entered, left := done{enter("a"), 0, 10, in}, done{settle("a"), 20, 30, settled}
	type history = []done
	for name, test := range map[string]struct {
		history history
		ok      bool
	}{
		"settled":                                     {history{entered, left, {show, 40, 50, says(show, charge(3))}, {list, 60, 70, says(list)}}, true},
		"the slot and the units are there again":      {history{entered, left, {enter("b"), 40, 50, says(enter("b"), charge(3))}}, true},
		"one of two":                                  {history{entered, {enter("b"), 5, 15, denied}}, true},
		"both of two: one too many":                   {history{entered, {enter("b"), 5, 15, says(enter("b"), charge(2))}}, false},
		"admitted again":                              {history{entered, {enter("a"), 20, 30, again}, {show, 40, 50, says(show, charge(2))}}, true},
		"a retry is charged":                          {history{entered, {enter("a"), 20, 30, again}, {show, 40, 50, says(show, charge(4))}}, false},
		"a retry after the settlement is charged":     {history{entered, left, {enter("a"), 40, 50, says(enter("a"), charge(3))}, {show, 60, 70, says(show, charge(5))}}, true},
		"a retry after the settlement is not charged": {history{entered, left, {enter("a"), 40, 50, says(enter("a"), charge(3))}, {show, 60, 70, says(show, charge(3))}}, false},
		"admitted by half, units without a lease":     {history{entered, {list, 20, 30, says(list)}}, false},
		"admitted by half, and another has the slot":  {history{entered, {enter("b"), 20, 30, says(enter("b"), charge(2))}}, false},
		"admitted by half, a lease without units":     {history{entered, {show, 20, 30, says(show)}}, false},
		"denied, and charged":                         {history{entered, {enter("b"), 20, 30, denied}, {show, 40, 50, says(show, charge(4))}}, false},
		"half of it is seen meanwhile":                {history{{enter("a"), 0, 90, in}, {list, 10, 20, says(list, lease("a"))}, {show, 30, 40, says(show)}}, false},
		"no reply, and admitted":                      {history{{enter("a"), 0, 10, lost}, {enter("a"), 20, 30, again}, {show, 40, 50, says(show, charge(2))}}, true},
		"no reply, and not admitted":                  {history{{enter("a"), 0, 10, lost}, {enter("a"), 20, 30, in}, {show, 40, 50, says(show, charge(2))}}, true},
		"no reply, and admitted twice":                {history{{enter("a"), 0, 10, lost}, {enter("a"), 20, 30, again}, {show, 40, 50, says(show, charge(4))}}, false},
		"settled once":                                {history{entered, left, {settle("a"), 40, 50, tooLate}, {show, 60, 70, says(show, charge(3))}}, true},
		"one of two settles":                          {history{entered, {settle("a"), 20, 40, tooLate}, {settle("a"), 25, 35, settled}}, true},
		"settled twice":                               {history{entered, left, {settle("a"), 40, 50, says(settle("a"), charge(3), lease("a"))}}, false},
		"both of two settle":                          {history{entered, {settle("a"), 20, 40, settled}, {settle("a"), 25, 35, settled}}, false},
		"settled twice, and called too late":          {history{entered, left, {settle("a"), 40, 50, says(settle("a"), charge(4))}, {show, 60, 70, says(show, charge(4))}}, false},
		"the difference is charged twice":             {history{entered, left, {settle("a"), 40, 50, tooLate}, {show, 60, 70, says(show, charge(4))}}, false},
		"the lease ended, the difference not charged": {history{entered, left, {show, 40, 50, says(show, charge(2))}}, false},
		"the difference charged, the lease not ended": {history{entered, left, {list, 40, 50, says(list, lease("a"))}}, false},
		"half of a settlement is seen meanwhile":      {history{entered, {settle("a"), 20, 90, settled}, {list, 30, 40, says(list)}, {show, 50, 60, says(show, charge(2))}}, false},
		"no reply, and settled":                       {history{entered, {settle("a"), 20, 30, lost}, {settle("a"), 40, 50, tooLate}, {show, 60, 70, says(show, charge(3))}}, true},
		"no reply, and not settled":                   {history{entered, {settle("a"), 20, 30, lost}, {settle("a"), 40, 50, settled}, {show, 60, 70, says(show, charge(3))}}, true},
		"no reply, and settled by half":               {history{entered, {settle("a"), 20, 30, lost}, {settle("a"), 40, 50, says(settle("a"), charge(2))}}, false},
		"settled before it was admitted":              {history{{settle("a"), 0, 10, settled}, {enter("a"), 20, 30, in}}, false},
		"too late, though it holds its lease":         {history{entered, {settle("a"), 20, 30, says(settle("a"), charge(2))}}, false},
		"too late after a release":                    {history{entered, {release("a"), 20, 30, says(release("a"), lease("a"))}, {settle("a"), 40, 50, says(settle("a"), charge(2))}}, true},
		"settled after a release":                     {history{entered, {release("a"), 20, 30, says(release("a"), lease("a"))}, {settle("a"), 40, 50, settled}}, false},
		"too late after a lapse":                      {history{entered, {over, 20, 30, lost}, {settle("a"), 40, 50, saysAt(over.nowNs, settle("a"), charge(2))}}, true},
		"settled after a lapse":                       {history{entered, {over, 20, 30, lost}, {settle("a"), 40, 50, settled}}, false},
		"too late, and charged":                       {history{entered, {over, 20, 30, lost}, {settle("a"), 40, 50, saysAt(over.nowNs, settle("a"), charge(2))}, {show, 60, 70, saysAt(over.nowNs, show, charge(3))}}, false},
		"let in after a settlement":                   {history{entered, {waits("b"), 20, 50, inTurn}, {settle("a"), 30, 40, settled}}, true},
		"let in before the settlement":                {history{entered, {waits("b"), 20, 25, inTurn}, {settle("a"), 30, 40, settled}}, false},
		"a takeover forgets an admission":             {history{entered, {forgotten, 20, 30, lost}, {list, 40, 50, says(list)}, {show, 60, 70, says(show)}}, true},
		"a takeover forgets the units of one":         {history{entered, {forgotten, 20, 30, lost}, {list, 40, 50, says(list, lease("a"))}, {show, 60, 70, says(show)}}, false},
		"a takeover forgets the lease of one":         {history{entered, {forgotten, 20, 30, lost}, {list, 40, 50, says(list)}, {show, 60, 70, says(show, charge(2))}}, false},
		"a takeover forgets a settlement":             {history{entered, {safe, 12, 15, lost}, left, {forgotten, 40, 50, lost}, {settle("a"), 60, 70, settled}}, true},
		"a takeover forgets that a lease ended":       {history{entered, {safe, 12, 15, lost}, left, {forgotten, 40, 50, lost}, {settle("a"), 60, 70, says(settle("a"), charge(3), lease("a"))}}, false},
		"a settlement that is safe is forgotten":      {history{entered, left, {safe, 32, 35, lost}, {forgotten, 40, 50, lost}, {settle("a"), 60, 70, settled}}, false},
	} {
		requireTold(t, name, begin, test.history, test.ok)
	}
}

// Servers that change half of what an admission or a settlement changes, or change it twice, and answer as if they had not.
func TestAdmissionsAndSettlementsByHalfOrTwiceAreFoundOut(t *testing.T) {
	for name, test := range map[string]struct {
		of    func(words []string) bool
		means int64 // the first field of a reply to a call that is spoilt
		spoil func(do func(words ...string), words []string, slots, id string)
	}{
		"an admission without its lease": {isAdmission, 0, func(do func(...string), _ []string, slots, id string) {
			do("CL.RELEASE", slots, "ID", id)
		}},
		"an admission that is charged twice": {isAdmission, 0, func(do func(...string), words []string, slots, id string) {
			do("CL.RELEASE", slots, "ID", id)
			do(words...)
		}},
		"a settlement that ends no lease": {isSettlement, 1, func(do func(...string), _ []string, slots, id string) {
			do("CL.LEASE", slots, "SLOTS", "1000", "TTL", "20ms", "ID", id)
		}},
		"a settlement that is charged twice": {isSettlement, 1, func(do func(...string), words []string, slots, id string) {
			do("CL.LEASE", slots, "SLOTS", "1000", "TTL", "20ms", "ID", id)
			do(words...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			requireNotLinearizable(t, func(s *scene) *history {
				s.load.send = func(c *resp.Conn, words []string) (resp.Value, error) {
					v, err := c.Do(words...)
					if err != nil || !test.of(words) || len(v.Elems) == 0 || v.Elems[0].Int != test.means {
						return v, err
					}
					keys, _ := strconv.Atoi(words[1])
					do := func(words ...string) {
						if err == nil {
							_, err = c.Do(words...)
						}
					}
					test.spoil(do, words, words[1+keys], words[slices.Index(words, "ID")+1])
					return v, err
				}
				return s.run(s.clock.Start(), nothing)
			})
		})
	}
}

// isAdmission says whether a call takes slots together with units.
func isAdmission(words []string) bool {
	return words[0] == "CL.MLIMIT" && slices.Contains(words, "SLOTS")
}

func isSettlement(words []string) bool { return words[0] == "CL.SETTLE" }
