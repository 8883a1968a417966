package replay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
)

// A mixture is a log with a known truth: who is ordinary, and who is not.
type mixture struct {
	ordinary int
	does     behaviour
	shared   int // addresses that many people share, who do the same
	attacker map[string]behaviour
}

// behaviour is when a client asks for something.
type behaviour func(random *rand.Rand) []time.Duration

// steady asks so often a second, for a while, from an instant of the day on.
func steady(perSecond float64, from, length time.Duration) behaviour {
	return func(random *rand.Rand) (all []time.Duration) {
		every := time.Duration(float64(time.Second) / perSecond)
		for at := from; at < from+length; at += every {
			all = append(all, at+time.Duration(random.Int64N(int64(every)/2+1)))
		}
		return all
	}
}

// logsIn asks once or twice a day.
func logsIn(random *rand.Rand) (all []time.Duration) {
	for range 1 + random.IntN(2) {
		all = append(all, time.Duration(random.Int64N(int64(24*time.Hour))))
	}
	return all
}

// reads loads pages: a burst each, at some instants of the day.
func reads(random *rand.Rand) (all []time.Duration) {
	for range 1 + random.IntN(6) {
		at := time.Duration(random.Int64N(int64(23 * time.Hour)))
		for range 1 + random.IntN(4) {
			for range 2 + random.IntN(12) {
				all = append(all, at+time.Duration(random.Int64N(int64(1800*time.Millisecond))))
			}
			at += time.Duration(3+random.IntN(40)) * time.Second
		}
	}
	return all
}

func several(n int, name string, is func(i int) behaviour) map[string]behaviour {
	all := map[string]behaviour{}
	for i := range n {
		all[fmt.Sprintf("192.0.2.%d", i+1)+name] = is(i)
	}
	return all
}

var mixtures = map[string]mixture{
	"50 people log in, one guesses at 25/s":     {ordinary: 50, does: logsIn, attacker: several(1, "", func(int) behaviour { return steady(25, 14*time.Hour, 800*time.Second) })},
	"500 people log in, one guesses at 25/s":    {ordinary: 500, does: logsIn, attacker: several(1, "", func(int) behaviour { return steady(25, 14*time.Hour, 800*time.Second) })},
	"5,000 people log in, one guesses at 25/s":  {ordinary: 5000, does: logsIn, attacker: several(1, "", func(int) behaviour { return steady(25, 14*time.Hour, 800*time.Second) })},
	"50,000 people log in, one guesses at 25/s": {ordinary: 50_000, does: logsIn, attacker: several(1, "", func(int) behaviour { return steady(25, 14*time.Hour, 800*time.Second) })},
	"49 at 10/m, one at 50/s": {ordinary: 49, does: steady(1.0/6, 0, time.Hour),
		attacker: several(1, "", func(int) behaviour { return steady(50, 10*time.Minute, 20*time.Minute) })},
	"two people log in, one guesses at 1/s":         {ordinary: 2, does: logsIn, attacker: several(1, "", func(int) behaviour { return steady(1, time.Hour, 20*time.Minute) })},
	"ten people log in, one guesses all day at 1/m": {ordinary: 10, does: logsIn, attacker: several(1, "", func(int) behaviour { return steady(1.0/60, 0, 23*time.Hour) })},
	"1,000 people log in, one guesses all day, 6/h": {ordinary: 1000, does: logsIn, attacker: several(1, "", func(int) behaviour { return steady(6.0/3600, 0, 23*time.Hour) })},
	"200 people read, one crawls at 20/s":           {ordinary: 200, does: reads, attacker: several(1, "", func(int) behaviour { return steady(20, 9*time.Hour, 10*time.Minute) })},
	"1,500 people read, thirty at 4/s to 33/s":      {ordinary: 1500, does: reads, attacker: several(30, "", func(i int) behaviour { return steady(float64(i+4), 9*time.Hour, 10*time.Minute) })},
	"500 people log in, eighty bots at 1/s":         {ordinary: 500, does: logsIn, attacker: several(80, "", func(int) behaviour { return steady(1, 9*time.Hour, 10*time.Minute) })},
	"300 people log in, one at 50/s and one at 1/m": {ordinary: 300, does: logsIn, attacker: several(2, "", func(i int) behaviour {
		return steady([]float64{50, 1.0 / 60}[i], 0, []time.Duration{10 * time.Minute, 23 * time.Hour}[i])
	})},
	"a burst of 500 at once": {ordinary: 100, does: logsIn,
		attacker: several(1, "", func(int) behaviour { return steady(1000, time.Hour, 500*time.Millisecond) })},
	"1,500 people read, three shared addresses, one bot": {ordinary: 1500, does: reads, shared: 3, attacker: several(1, "", func(int) behaviour { return steady(30, 9*time.Hour, 10*time.Minute) })},
	"1,500 people read, one as fast as they, all day":    {ordinary: 1500, does: reads, attacker: several(1, "", func(int) behaviour { return steady(1.0/6, 0, 23*time.Hour) })},
	"100 programs at 1/s to 10/s, one at 100/s":          {ordinary: 100, does: calls, attacker: several(1, "", func(int) behaviour { return steady(100, 9*time.Hour, time.Minute) })},
	"100 jobs, 60 at once each hour, one at 10/s":        {ordinary: 100, does: runsHourly, attacker: several(1, "", func(int) behaviour { return steady(10, 9*time.Hour, 10*time.Minute) })},
	"500 people log in, one job each hour":               {ordinary: 500, does: logsIn, attacker: several(1, "", func(int) behaviour { return runsHourly })},
	"eight people log in, four guess": {ordinary: 8, does: logsIn, attacker: several(4, "", func(i int) behaviour {
		return steady([]float64{20, 2}[i%2], 9*time.Hour, 10*time.Minute)
	})},
	"800 people log in, five shared addresses, three bots": {ordinary: 800, does: logsIn, shared: 5, attacker: several(3, "", func(i int) behaviour {
		return steady([]float64{1, 5}[i%2], 9*time.Hour, 20*time.Minute)
	})},
	"1,200 people read, three bots of three kinds": {ordinary: 1200, does: reads, attacker: several(3, "", func(i int) behaviour {
		return []behaviour{steady(100, 9*time.Hour, time.Minute), steady(5, 3*time.Hour, 30*time.Minute), steady(0.5, 0, 20*time.Hour)}[i]
	})},
}

// calls is a program that asks at a rate of its own, for a while.
func calls(random *rand.Rand) []time.Duration {
	return steady(1+9*random.Float64(), time.Duration(random.Int64N(int64(time.Hour))), 3*time.Minute)(random)
}

// runsHourly is a job that asks for much at once, each hour.
func runsHourly(random *rand.Rand) (all []time.Duration) {
	for hour := range 24 {
		for range 60 {
			all = append(all, time.Duration(hour)*time.Hour+time.Duration(random.Int64N(int64(time.Second))))
		}
	}
	return all
}

// log writes what the clients of a mixture ask for.
func (m mixture) log(random *rand.Rand) (lines []string) {
	type request struct {
		at            time.Duration
		client, agent string
	}
	var all []request
	add := func(client, agent string, is behaviour) {
		for _, at := range is(random) {
			all = append(all, request{at, client, agent})
		}
	}
	for i := range m.ordinary {
		add(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "browser", m.does)
	}
	for i := range m.shared {
		for person := range 40 {
			add(fmt.Sprintf("198.51.100.%d", i+1), fmt.Sprint("browser ", person), m.does)
		}
	}
	for name, is := range m.attacker {
		add(name, "curl", is)
	}
	slices.SortFunc(all, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	for _, r := range all {
		lines = append(lines, fmt.Sprintf(`{"time":%q,"remote_addr":%q,"user_agent":%q}`, autumn.Add(r.at).Format(time.RFC3339Nano), r.client, r.agent))
	}
	return lines
}

// The suggestion to copy denies nothing to ordinary clients, and most of what they ask for to the others, which the
// report names.
func TestTheSuggestionSparesOrdinaryClientsAndDeniesTheOthers(t *testing.T) {
	t.Parallel()
	for name, m := range mixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := usual(t)
			o.Top, o.ShowKeys = 10_000, true
			o.Files = []string{access(t, "access.log", m.log(chance.New(t))...)}
			r := reported(t, o)
			copied := copyOf(t, r)
			denied := map[string]bool{}
			for _, c := range copied.Result.Top {
				denied[c.Name] = true
				assert.Contains(t, m.attacker, c.Name, "an ordinary client is denied %d of %d by %s", c.Denied, c.Requests, copied.Result.Words)
				assert.GreaterOrEqual(t, 2*c.Denied, c.Requests, "%s by %s", c.Name, copied.Result.Words)
			}
			for attacker := range m.attacker {
				assert.True(t, denied[attacker], "%s by %s", attacker, copied.Result.Words)
			}
			assert.Equal(t, int64(len(m.attacker)), r.Outliers.Clients)
			assert.Equal(t, int64(1), r.Outliers.Networks)
			assert.Contains(t, m.attacker, r.Outliers.List[0].Name)
			assert.Equal(t, copied.Result.Denied, copied.OutliersDenied)
			assert.GreaterOrEqual(t, r.Outliers.List[0].Times, int64(10))
		})
	}
}

func copyOf(t testing.TB, r *Report) (copied Suggestion) {
	t.Helper()
	for _, s := range r.Suggestions {
		if s.Copy {
			require.Empty(t, copied.Result.Words, "there is one line to copy")
			copied = s
		}
	}
	require.NotEmpty(t, copied.Result.Words, "there is a line to copy")
	return copied
}

// Where nobody stands out, no line to copy denies nothing. Of few clients, the largest one, two and five are left out.
func TestWhatDeniesNothingIsNoSuggestionToCopy(t *testing.T) {
	t.Parallel()
	for _, m := range []mixture{{ordinary: 1, does: logsIn}, {ordinary: 2, does: reads}, {ordinary: 10, does: steady(1.0/6, 0, time.Hour)},
		{ordinary: 40, does: reads}, {ordinary: 2000, does: reads}} {
		o := usual(t)
		o.Files = []string{access(t, "access.log", m.log(chance.New(t))...)}
		r := reported(t, o)
		assert.Zero(t, r.Outliers.Clients, m.ordinary)
		for _, s := range r.Suggestions {
			assert.True(t, !s.Copy || s.Result.Denied > 0, "%s denies nothing", s.Result.Words)
		}
		if m.ordinary == 40 {
			assert.Equal(t, []string{"50 %", "all but 5", "all but 2", "all but 1", "all"}, r.Curve.Shares)
		}
	}
}

// A suggestion says which known groups it would hit. A group that the user names never stands out, so that what spares
// the others spares it.
func TestResultsSayWhichGroupsTheyHit(t *testing.T) {
	t.Parallel()
	m := mixture{ordinary: 500, does: reads, shared: 3,
		attacker: several(2, "", func(i int) behaviour { return steady(float64(10*i+10), 9*time.Hour, 10*time.Minute) })}
	lines := m.log(chance.New(t))
	for i, line := range lines {
		if i%20 == 0 {
			lines[i] = strings.Replace(line, `"user_agent":"browser"`, `"user_agent":"Mozilla/5.0 (compatible; bingbot/2.0)"`, 1)
		}
	}
	o := usual(t)
	o.Files, o.Sets = []string{access(t, "access.log", lines...)}, []Set{{Name: "strict", Words: "RATE 1/m BURST 2"}}
	known, err := ParseKnown([]string{"monitor=remote_addr in 192.0.2.2"})
	require.NoError(t, err)
	o.Known = known
	r := reported(t, o)
	groups := map[string]Group{}
	for _, g := range r.Sets[0].Groups {
		groups[g.Name] = g
	}
	shared := groups["addresses that several people share"]
	assert.Equal(t, int64(3), shared.Clients)
	assert.Equal(t, int64(3), shared.DeniedClients)
	assert.Positive(t, shared.Denied)
	assert.Less(t, shared.Denied, shared.Requests)
	assert.Positive(t, groups["search engines, by what they call themselves"].Clients)
	assert.Equal(t, int64(1), groups["monitor"].DeniedClients)
	assert.Equal(t, int64(1), r.Outliers.Clients, "the monitor is known")
	for _, s := range r.Suggestions {
		for _, g := range s.Result.Groups {
			if s.Share == Ordinary && g.Name == "monitor" {
				assert.Zero(t, g.Denied)
			}
		}
	}
	for _, text := range []string{"monitor", "=path ~ x", "a=path", "a=status < x"} {
		_, err := ParseKnown([]string{text})
		assert.ErrorContains(t, err, "--known", text)
	}
	_, err = ParseKnown(slices.Repeat([]string{"a=path = x"}, 15))
	assert.ErrorContains(t, err, "at most 14")
}
