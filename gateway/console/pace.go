package console

import (
	"math"
	"time"
)

// Count is what was decided: Denied is a part of Total, and so is Shadowed, which shadows would have denied.
type Count struct {
	Total    float64 `json:"total"`
	Denied   float64 `json:"denied"`
	Shadowed float64 `json:"shadowed"`
}

func (c Count) less(o Count) Count {
	return Count{c.Total - o.Total, c.Denied - o.Denied, c.Shadowed - o.Shadowed}
}

// Pace is how many decisions there are a second.
type Pace struct {
	Now Count `json:"now"` // in the last seconds
	// Lines are those since each reading of the last minutes, the oldest first.
	Lines []Point `json:"lines"`
	Why   string  `json:"why,omitempty"` // nothing is known
}

// Point is a second's decisions at an instant.
type Point struct {
	AtMs int64 `json:"at_ms"`
	Count
}

// times are counts at instants of the last minutes.
type times struct {
	at     []time.Time
	counts []Count
}

const (
	// longPace is what the page draws.
	longPace = 5 * time.Minute
	// shortPace is what the figures are an average of.
	shortPace = 6 * time.Second
)

func (t *times) clear() { t.at, t.counts = nil, nil }

// add notes counts. Those of a server that has started anew begin anew.
func (t *times) add(now time.Time, c Count) {
	if n := len(t.counts); n > 0 && c.Total < t.counts[n-1].Total {
		t.clear()
	}
	t.at, t.counts = append(t.at, now), append(t.counts, c)
	for now.Sub(t.at[0]) > longPace {
		t.at, t.counts = t.at[1:], t.counts[1:]
	}
}

func (t *times) pace() Pace {
	p := Pace{Lines: []Point{}}
	n := len(t.at)
	if n < 2 {
		return p
	}
	from := n - 2
	for from > 0 && t.at[n-1].Sub(t.at[from]) < shortPace {
		from--
	}
	p.Now = t.between(from, n-1)
	for i := 1; i < n; i++ {
		p.Lines = append(p.Lines, Point{t.at[i].UnixMilli(), t.between(i-1, i)})
	}
	return p
}

// between is a second's share of what was counted between two instants.
func (t *times) between(a, b int) Count {
	seconds := t.at[b].Sub(t.at[a]).Seconds()
	c := t.counts[b].less(t.counts[a])
	each := func(x float64) float64 { return math.Round(x/seconds*100) / 100 }
	return Count{each(c.Total), each(c.Denied), each(c.Shadowed)}
}
