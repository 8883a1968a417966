package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
)

// curve is a scale along which SET and CL.THROTTLE are compared.
type curve struct {
	curveResult
	points []curvePoint
}

// curveResult is how figures change along one scale.
type curveResult struct {
	Name    string     `json:"name"`
	Axis    string     `json:"axis"`    // what the scale is
	Log     bool       `json:"log"`     // spaced by powers of ten; otherwise the points have labels
	Metrics []metric   `json:"metrics"` // in the table
	Charted []metric   `json:"charted"` // in the chart
	Points  []curvedAt `json:"points"`
}

// curvedAt is what was measured at one place on the scale.
type curvedAt struct {
	X          float64           `json:"x"`
	Label      string            `json:"label"`
	Contenders []contenderResult `json:"contenders"`
}

// curvePoint is one place on the scale. What it leaves open is as in the table, with
// lastingContenders.
type curvePoint struct {
	x          float64
	label      string
	keys       int
	shape      shape
	contenders []Contender
	serverArgs []string
	replicas   int
}

var (
	pipelinedMetrics = []metric{metricExec, metricCPU, metricRate}
	latencyMetrics   = []metric{metricP50, metricP95, metricP99, metricRate}
)

// lastingContenders are set up once, so that ten million keys can be. The bucket of the
// allowed calls needs half an hour to refill, and has room for sixteen hours' worth; to
// the denied ones, whose limit is one per hour, the same bucket has no room.
var lastingContenders = []Contender{
	{Name: baseline, Group: groupBaseline, Args: callSetLong, Lasting: true, Verify: is("OK"), Writes: writesAlways},
	{
		Name: "CL.THROTTLE allowed", Group: groupThrottle, Args: "CL.THROTTLE {key} 1000000 1000 60 1",
		Setup: []string{"CL.THROTTLE {key} 1000000 1000 60 30000"}, Lasting: true, Verify: isAllowed, Writes: writesAlways,
	},
	{
		Name: "CL.THROTTLE denied", Group: groupThrottle, Args: callDenied,
		KeysOf: "CL.THROTTLE allowed", Verify: isDenied, Writes: writesNever,
	},
}

// quantityContenders take n units a call: within a million a second, or from a bucket of
// a million that is empty and regains one an hour.
func quantityContenders(n int) []Contender {
	return []Contender{
		{Name: baseline, Group: groupBaseline, Args: callSetLong, Verify: is("OK"), Writes: writesAlways},
		{
			Name: "CL.THROTTLE allowed", Group: groupThrottle, Verify: isAllowed, Writes: writesAlways,
			Args: fmt.Sprintf("CL.THROTTLE {key} 1000000000 1000000 1 %d", n),
		},
		{
			Name: "CL.THROTTLE denied", Group: groupThrottle, Verify: isDenied, Writes: writesNever,
			Args:  fmt.Sprintf("CL.THROTTLE {key} 1000000 1 3600 %d", n),
			Setup: []string{"CL.THROTTLE {key} 1000000 1 3600 1000001"},
		},
	}
}

// allCurves is every curve, in the order they run.
func allCurves() []curve {
	newCurve := func(name, axis string, metrics []metric, charted int) curve {
		return curve{curveResult: curveResult{Name: name, Axis: axis, Log: true, Metrics: metrics, Charted: metrics[:charted]}}
	}
	keys := newCurve("keys", "keys", pipelinedMetrics, 1)
	for n := 1_000; n <= 10_000_000; n *= 10 {
		keys.points = append(keys.points, curvePoint{x: float64(n), keys: n})
	}
	clients := newCurve("clients", "clients", latencyMetrics, 1)
	clients.Charted = []metric{metricP50, metricP99}
	for _, n := range []int{1, 3, 10, 30, 100, 300, 1000} {
		clients.points = append(clients.points, curvePoint{x: float64(n), shape: unpipelined(n)})
	}
	quantity := newCurve("quantity", "quantity", pipelinedMetrics, 1)
	for n := 1; n <= 1_000_000; n *= 10 {
		quantity.points = append(quantity.points, curvePoint{x: float64(n), contenders: quantityContenders(n)})
	}
	durability := newCurve("durability", "where writes go", pipelinedMetrics, 2)
	durability.Log = false
	aof := []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	durability.points = []curvePoint{
		{x: 0, label: "memory"},
		{x: 1, label: "AOF", serverArgs: aof},
		{x: 2, label: "2 replicas", replicas: 2},
		{x: 3, label: "both", serverArgs: aof, replicas: 2},
	}
	return []curve{keys, clients, quantity, durability}
}

func curveNames() string {
	var names []string
	for _, c := range allCurves() {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// curves measures the curves that are named, or all, and publishes each.
func curves(ctx context.Context, o options) {
	all := allCurves()
	for _, name := range o.args {
		if !slices.ContainsFunc(all, func(c curve) bool { return c.Name == name }) {
			must.Fail("there is no curve %q, only %s", name, curveNames())
		}
	}
	for _, c := range all {
		if len(o.args) > 0 && !slices.Contains(o.args, c.Name) {
			continue
		}
		f := newFile(o, kindCurve)
		f.Curve = &c.curveResult
		if o.quick {
			c.points = c.points[:2]
		}
		for _, p := range c.points {
			if p.label == "" {
				p.label = strconv.Itoa(int(p.x))
			}
			f.Curve.Points = append(f.Curve.Points, curvedAt{p.x, p.label, p.run(ctx, o, &f)})
		}
		publish(o, "curve-"+c.Name, f)
	}
}

func (p curvePoint) run(ctx context.Context, o options, f *file) []contenderResult {
	defer must.Name("curve %s, %s", f.Curve.Name, p.label)
	l := lineup{options: o, keys: cmp.Or(p.keys, o.keys)}
	defer l.close()
	if p.contenders == nil {
		p.contenders = lastingContenders
	}
	l.assemble(ctx, p.contenders, p.serverArgs...)
	if len(l.skipped) > 0 {
		must.Fail("%v", l.skipped)
	}
	for _, e := range l.entrants {
		e.prepare(ctx, l.keys)
	}
	// Each look-up moves a growing hash table on, and as many as there are keys finish it.
	for _, e := range l.entrants {
		e.each(ctx, l.keys, "EXISTS {key}")
	}
	master := l.hosts[hostMain]
	for i := range p.replicas {
		must.Do(master.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err())
		replica := &host{Server: server.Start(ctx, server.Spec{Program: o.server, Args: []string{"--replicaof", "127.0.0.1", strconv.Itoa(master.Port)}})}
		l.hosts[fmt.Sprintf("replica %d", i)] = replica
		for replica.Fields(ctx)["master_link_status"] != "up" {
			pause(ctx, 50*time.Millisecond)
		}
	}
	l.measure(ctx, cmp.Or(p.shape, pipelined))
	l.describe(ctx, f)
	return l.results()
}

// curveTable has a row for each contender at each point.
func curveTable(c curveResult) table.Writer {
	columns := []column{{"x " + baseline + ", " + c.Metrics[0].title(), c.Metrics[0], partRatio | partRange}}
	header := table.Row{c.Axis, "", columns[0].title}
	for _, m := range c.Metrics {
		columns = append(columns, column{m.title(), m, partMedian | partRange | partRatio})
		header = append(header, m.title())
	}
	t := newTable(fmt.Sprintf("By %s, and times %s", c.Axis, baseline), 2, header...)
	for _, point := range c.Points {
		label := point.Label
		for _, contender := range point.Contenders {
			t.AppendRow(append(table.Row{label}, row(contender, point.Contenders, columns)...))
			label = ""
		}
		t.AppendSeparator()
	}
	return t
}
