package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is what came of a run.
type Report struct {
	Version      string    `json:"version"`
	Files        []string  `json:"files"`
	Key          string    `json:"key"`
	Cost         string    `json:"cost,omitempty"`  // the field; "" is one unit a request
	Where        []string  `json:"where,omitempty"` // conditions of the requests
	ShowsKeys    bool      `json:"showsKeys"`
	Lines        Lines     `json:"lines"`
	Interrupted  bool      `json:"interrupted"` // before the end of the log
	From         time.Time `json:"from"`
	To           time.Time `json:"to"`
	ResolutionNs int64     `json:"resolutionNs"` // of the times of the log: 1 s, 1 ms, 1 us or 1 ns
	Shortened    bool      `json:"shortened"`    // there was no room to wait for late lines as long as Options.Late
	Sampling     *Sampling `json:"sampling,omitempty"`

	Requests int64 `json:"requests"` // of the clients below; of a sample, an estimate
	Units    int64 `json:"units"`
	Clients  int64 `json:"clients"`

	Time        Series       `json:"time"`
	Peaks       []Peak       `json:"peaks"`
	Top         []Client     `json:"top"`
	Sets        []Result     `json:"sets"`
	Kinds       []Result     `json:"kinds"` // one limit as RATE, WINDOW and FIXED
	Curve       Curve        `json:"curve"`
	Outliers    Outliers     `json:"outliers"` // clients that stand out
	Suggestions []Suggestion `json:"suggestions"`

	// Policies are the commands that set what was tried of policies, one after the other.
	Policies []string `json:"policies,omitempty"`
}

// Sampling says which clients were kept, where there were too many.
type Sampling struct {
	OneIn   int64 `json:"oneIn"`   // of the clients with fewer requests than AtLeast
	AtLeast int64 `json:"atLeast"` // requests of a client that was kept in any case
	LeftOut int64 `json:"leftOut"` // requests of clients that were not
}

// Series is the time of the log in equal parts.
type Series struct {
	Start    time.Time `json:"start"`
	WidthNs  int64     `json:"widthNs"`
	Requests []int64   `json:"requests"`
}

// Peak says how many units clients take in their fullest second, minute or hour.
type Peak struct {
	Period string    `json:"period"`
	P50    int64     `json:"p50"` // half of the clients take no more
	P90    int64     `json:"p90"`
	P99    int64     `json:"p99"`
	Max    int64     `json:"max"`
	Client string    `json:"client"` // the client with the most
	At     time.Time `json:"at"`     // when it had them
}

// Client is a client in a list.
type Client struct {
	Name      string `json:"name"`
	Requests  int64  `json:"requests"`
	PerSecond int64  `json:"perSecond,omitempty"` // its peaks
	PerMinute int64  `json:"perMinute,omitempty"`
	PerHour   int64  `json:"perHour,omitempty"`
	Denied    int64  `json:"denied,omitempty"`
	LongestMs int64  `json:"longestMs,omitempty"` // the longest wait after a denied request, -1 for one that no wait makes possible
}

// Result is what limits did, or would have done.
type Result struct {
	Name  string `json:"name"`
	Words string `json:"words"` // of CL.LIMIT

	Requests      int64 `json:"requests"`
	Denied        int64 `json:"denied"`
	Units         int64 `json:"units"`
	DeniedUnits   int64 `json:"deniedUnits"`
	Clients       int64 `json:"clients"`
	DeniedClients int64 `json:"deniedClients"` // that were denied any request
	Shadowed      int64 `json:"shadowed"`      // let through although a SHADOW would have denied them
	Delayed       int64 `json:"delayed"`       // let through after a wait (MAXWAIT)
	Unlimited     int64 `json:"unlimited"`     // no rule of a gateway applies to them

	Waits  Waits    `json:"waits"`  // until a denied request would have been let through
	Delays Waits    `json:"delays"` // of delayed requests
	Rules  []Rule   `json:"rules"`
	Series []int64  `json:"series"` // denied requests, by the parts of Report.Time
	Top    []Client `json:"top"`    // those with the most denied requests

	Groups []Group `json:"groups"` // of known clients

	Errors  int64  `json:"errors,omitempty"` // requests that were not decided
	Example string `json:"example,omitempty"`
}

// Waits are lengths of time in ms, to three digits.
type Waits struct {
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P99   int64 `json:"p99"`
	Max   int64 `json:"max"`
	Never int64 `json:"never"` // requests that no wait makes possible: they cost more than the limit ever has
}

// Rule is one of several limits.
type Rule struct {
	Words    string `json:"words"`
	Requests int64  `json:"requests"` // that it applies to
	Denied   int64  `json:"denied"`   // requests that it denied, with the longest wait of all limits
	Alone    int64  `json:"alone"`    // requests that it would have denied by itself
}

// Curve says which burst clients need at each rate never to be denied anything.
type Curve struct {
	Shares []string     `json:"shares"` // of clients: "50 %", "99 %", "all but 2", "ordinary" (which do not stand out), ..., "all"
	Points []CurvePoint `json:"points"` // from the slowest rate to the fastest
}

// CurvePoint is a rate. The slices are by Shares.
type CurvePoint struct {
	Rate       string  `json:"rate"` // count/unit, as CL.LIMIT takes it
	Count      int64   `json:"count"`
	Unit       string  `json:"unit"`
	PerSecond  float64 `json:"perSecond"`
	EmissionNs int64   `json:"emissionNs"`
	Bursts     []int64 `json:"bursts"`
	Clients    []int64 `json:"clients"` // that are denied something with this burst
	Denied     []int64 `json:"denied"`  // requests
}

// Suggestion is a rate and a burst at a knee of the curve.
type Suggestion struct {
	Share string `json:"share"` // of clients that are never denied anything
	Point int    `json:"point"` // in Curve.Points
	Copy  bool   `json:"copy"`  // the one to begin with. None that denies nothing is
	// OutliersDenied is how many requests it denies of clients that stand out.
	OutliersDenied int64  `json:"outliersDenied"`
	Result         Result `json:"result"`
}

func (r *run) report() (*Report, error) {
	p := &Report{
		Files: r.Files, Key: r.Key.String(), Cost: r.Cost.String(), Where: r.Where.Texts(), ShowsKeys: r.ShowKeys, Lines: r.count, Interrupted: r.interrupted,
		From: time.Unix(0, r.firstNs).UTC(), To: time.Unix(0, r.lastNs).UTC(), ResolutionNs: r.finest, Shortened: r.order.shortened,
	}
	if r.count.Requests == 0 {
		return p, nil
	}
	if err := r.choose(); err != nil {
		return nil, err
	}
	s := newSeries(r.firstNs, r.lastNs)
	f, err := r.lookFirst(&s)
	if err != nil {
		return nil, err
	}
	if r.clients.level > 0 {
		p.Sampling = &Sampling{OneIn: 1 << r.clients.level, AtLeast: 2 * rare, LeftOut: r.clients.leftOut}
	}
	p.Requests, p.Units, p.Clients = f.requests, f.units, f.clients
	p.Time = Series{time.Unix(0, s.startNs).UTC(), s.widthNs, f.series}
	for i, name := range []string{"second", "minute", "hour"} {
		q := f.peaks[i].quantiles(share{50, 100}, share{90, 100}, share{99, 100})
		p.Peaks = append(p.Peaks, Peak{name, q[0], q[1], q[2], f.peaks[i].most, r.name(&f.fullest[i]), time.Unix(0, f.fullestAtNs[i]).UTC()})
	}
	p.Top = r.list(f.top.all)
	for _, t := range f.trials {
		p.Sets = append(p.Sets, r.result(t))
	}
	for _, g := range r.gateways {
		p.Sets = append(p.Sets, g.result(r, &s))
	}
	r.outliers = findOutliers(f)
	p.Outliers = r.describe(&r.outliers)
	columns := columnsOf(p.Clients, p.Outliers.Clients)
	points, err := r.curve(chooseRates(p.Peaks[2].P50, p.Peaks[0].Max, f.mostUnits), columns, &r.outliers)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		p.Curve.Shares = append(p.Curve.Shares, c.name)
	}
	for i := range points {
		at := &points[i]
		p.Curve.Points = append(p.Curve.Points, CurvePoint{at.String(), at.count, at.unit, at.perSecond(), at.emissionNs, at.bursts, at.clients, at.denied})
	}
	return p, r.suggest(p, points, columns, &s)
}

// suggest tries the points at the knees of the curve, and one limit as all kinds.
func (r *run) suggest(p *Report, points []point, columns []column, s *series) error {
	var sets []*compiled
	add := func(name, words string) error {
		c, err := Set{Name: name, Words: words}.compile(!r.Cost.IsOne())
		if err == nil {
			sets = append(sets, c)
		}
		return err
	}
	seen := map[string]bool{}
	for _, at := range suggestedOrder(columns) {
		column, i := columns[at], knee(points, at)
		if column.isOrdinary {
			stops, err := r.stops(&r.outliers, points, at)
			if err != nil {
				return err
			}
			if best, ok := stopping(points, stops, at); ok {
				i = best
			}
		}
		words := points[i].words(points[i].bursts[at])
		if _, ok := points[i].limit(points[i].bursts[at]); !ok || seen[words] {
			continue
		}
		seen[words] = true
		if err := add(words, words); err != nil {
			return err
		}
		p.Suggestions = append(p.Suggestions, Suggestion{Share: column.name, Point: i})
	}
	copied := toCopy(p, points, columns)
	quota, burst := r.quotaOf(p, sets, copied)
	if quota != "" {
		if burst != "" {
			if err := add("RATE", "RATE "+quota+" BURST "+burst); err != nil {
				return err
			}
		}
		for _, kind := range []string{"RATE", "WINDOW", "FIXED"} {
			if err := add(kind, kind+" "+quota); err != nil {
				return err
			}
		}
	}
	again := *r
	again.sets = sets
	f, err := again.lookFirst(s)
	if err != nil {
		return err
	}
	for i, t := range f.trials {
		if i < len(p.Suggestions) {
			p.Suggestions[i].Result, p.Suggestions[i].OutliersDenied = r.result(t), t.tally.outliersDenied
		} else {
			p.Kinds = append(p.Kinds, r.result(t))
		}
	}
	return nil
}

// suggestedOrder are the columns that make suggestions: what spares those who do not stand out comes first.
func suggestedOrder(columns []column) (order []int) {
	for i, c := range columns {
		switch {
		case c.isOrdinary:
			order = slices.Insert(order, 0, i)
		case c.isSuggested:
			order = append(order, i)
		}
	}
	return order
}

// toCopy marks the suggestion to begin with, and returns its index, -1 for none: what spares the clients that do not
// stand out, or else what spares most of those that deny anything. What denies nothing may be the rate of somebody who
// should be denied.
func toCopy(p *Report, points []point, columns []column) (best int) {
	best = -1
	for i, s := range p.Suggestions {
		at := slices.IndexFunc(columns, func(c column) bool { return c.name == s.Share })
		if points[s.Point].denied[at] == 0 {
			continue
		}
		if best = i; columns[at].isOrdinary {
			break
		}
	}
	if best >= 0 {
		p.Suggestions[best].Copy = true
	}
	return best
}

// quotaOf returns the count and the period that all kinds of limits are tried with, and the burst of a RATE: those of
// the first limit of the first set, or else of the suggestion to begin with. Limits with more words are not compared.
func (r *run) quotaOf(p *Report, suggested []*compiled, copied int) (quota, burst string) {
	limit := ""
	switch {
	case len(r.sets) > 0 && r.sets[0].keys == nil:
		limit = r.sets[0].limits[0]
	case len(suggested) > 0:
		limit = suggested[max(copied, 0)].limits[0]
	default:
		return "", ""
	}
	words := strings.Fields(limit)
	switch {
	case len(words) == 4 && strings.EqualFold(words[2], "BURST"):
		quota, burst = words[1], words[3]
	case len(words) == 2:
		quota = words[1]
	}
	count, period, _ := strings.Cut(quota, "/")
	if n, err := strconv.Atoi(count); err != nil || n < 1 || strings.TrimLeft(period, "0123456789") == "" {
		return "", ""
	}
	if unit := strings.TrimLeft(period, "0123456789"); lengths[unit] == 0 { // weeks and more are of the calendar
		return "", ""
	}
	return quota, burst
}

// lengths are the units that all kinds of limits take.
var lengths = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// name is what reports call a client.
func (r *run) name(c *topClient) string {
	if r.ShowKeys {
		return r.clients.keys[c.client]
	}
	return fmt.Sprintf("%012x", c.id>>16)
}

func (r *run) list(all []topClient) (list []Client) {
	for i := range all {
		c := &all[i]
		list = append(list, Client{r.name(c), c.lines, c.peaks[0], c.peaks[1], c.peaks[2], c.denied, c.longestMs})
	}
	return list
}

func (r *run) result(t *trial) Result {
	y := t.tally
	result := Result{
		Name: t.Name, Words: t.Words, Requests: y.requests, Denied: y.denied, Units: y.units, DeniedUnits: y.deniedUnits,
		Clients: y.clients, DeniedClients: y.deniedClients, Shadowed: y.shadowed, Delayed: y.delayed,
		Waits: y.retries.report(), Delays: y.delays.report(), Series: y.series, Top: r.list(y.top.all), Errors: y.errors, Example: y.example,
		Groups: r.groups(&y.groups), Unlimited: y.unlimited,
	}
	for i, words := range t.limits {
		if t.keys == nil || y.applied[i] > 0 {
			result.Rules = append(result.Rules, Rule{words, y.applied[i], y.decided[i], y.alone[i]})
		}
	}
	if t.keys != nil {
		slices.SortStableFunc(result.Rules, func(a, b Rule) int {
			return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Alone, a.Alone), cmp.Compare(a.Words, b.Words))
		})
	}
	return result
}

func (w *waits) report() Waits {
	return Waits{w.quantile(share{50, 100}), w.quantile(share{90, 100}), w.quantile(share{99, 100}), w.most, w.never}
}
