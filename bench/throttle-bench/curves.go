package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
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
	Points []point `json:"points"`

	name, axis string
	metrics    []metric // in the table
	charted    []metric
}

// point is one place on the scale. What it leaves open is as in the table, with
// lastingContenders.
type point struct {
	Label      string      `json:"label"`
	Contenders []contender `json:"contenders"` // with their figures, once it was measured

	keys       int
	clients    int // that do not pipeline
	serverArgs []string
	replicas   int
}

var (
	pipelinedMetrics = []metric{metricExec, metricCPU, metricRate}
	latencyMetrics   = []metric{metricP50, metricP95, metricP99, metricRate}
)

var lastingSet = contender{Name: baseline, Group: groupBaseline, Kind: "ok", Call: "SET {key} 1700000000000000000 PX 86400000"}

// lastingContenders are set up once, so that ten million keys can be. The bucket of the
// allowed calls needs half an hour to refill, and has room for sixteen hours' worth; to
// the denied ones, whose limit is one per hour, the same bucket has no room.
var lastingContenders = []contender{
	lastingSet,
	{Name: "CL.THROTTLE allowed", Group: groupThrottle, Kind: "allowed", Call: "CL.THROTTLE {key} 1000000 1000 60 1", Setup: []string{"CL.THROTTLE {key} 1000000 1000 60 30000"}},
	{Name: "CL.THROTTLE denied", Group: groupThrottle, Kind: "denied", Call: "CL.THROTTLE {key} 0 1 3600 1", Setup: []string{}, KeysOf: "CL.THROTTLE allowed"},
}

// quantityContenders take n units a call: within a million a second, or from a bucket of
// a million that is empty and regains one an hour.
func quantityContenders(n int) []contender {
	return []contender{
		lastingSet,
		{Name: "CL.THROTTLE allowed", Group: groupThrottle, Kind: "allowed", Call: fmt.Sprintf("CL.THROTTLE {key} 1000000000 1000000 1 %d", n)},
		{Name: "CL.THROTTLE denied", Group: groupThrottle, Kind: "denied", Call: fmt.Sprintf("CL.THROTTLE {key} 1000000 1 3600 %d", n), Setup: []string{"CL.THROTTLE {key} 1000000 1 3600 1000001"}},
	}
}

// allCurves is every curve, in the order they run.
func allCurves() []curve {
	keys := curve{name: "keys", axis: "keys", metrics: pipelinedMetrics, charted: pipelinedMetrics[:1]}
	for n := 1_000; n <= 10_000_000; n *= 10 {
		keys.Points = append(keys.Points, point{Label: strconv.Itoa(n), keys: n})
	}
	clients := curve{name: "clients", axis: "clients", metrics: latencyMetrics, charted: []metric{metricP50, metricP99}}
	for _, n := range []int{1, 3, 10, 30, 100, 300, 1000} {
		clients.Points = append(clients.Points, point{Label: strconv.Itoa(n), clients: n})
	}
	quantity := curve{name: "quantity", axis: "quantity", metrics: pipelinedMetrics, charted: pipelinedMetrics[:1]}
	for n := 1; n <= 1_000_000; n *= 10 {
		quantity.Points = append(quantity.Points, point{Label: strconv.Itoa(n), Contenders: quantityContenders(n)})
	}
	aof := []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	durability := curve{name: "durability", axis: "where writes go", metrics: pipelinedMetrics, charted: pipelinedMetrics[:2], Points: []point{
		{Label: "memory"},
		{Label: "AOF", serverArgs: aof},
		{Label: "2 replicas", replicas: 2},
		{Label: "both", serverArgs: aof, replicas: 2},
	}}
	return []curve{keys, clients, quantity, durability}
}

// curves measures the curves that are named, or all.
func curves(ctx context.Context, o options) {
	all := allCurves()
	for _, name := range o.Curve.Names {
		if !slices.ContainsFunc(all, func(c curve) bool { return c.name == name }) {
			must.Fail("there is no curve %q; --help names them", name)
		}
	}
	for _, c := range all {
		if len(o.Curve.Names) > 0 && !slices.Contains(o.Curve.Names, c.name) {
			continue
		}
		c.Points = c.Points[:min(o.Points, len(c.Points))]
		var about []string
		for i := range c.Points {
			about = c.Points[i].measure(ctx, o, c.name)
		}
		o.publish("curve-"+c.name, results{About: append(about, o.rounds()), Curve: &c}, c.table())
		drawCurve(filepath.Join(o.Out, "curve-"+c.name+".svg"), about[0], c)
	}
}

// measure fills in the figures, and says what they are of.
func (p *point) measure(ctx context.Context, o options, name string) (about []string) {
	defer must.Name("curve %s, %s", name, p.Label)
	l := lineup{options: o, keys: cmp.Or(p.keys, o.Keys), lasting: true}
	defer l.close()
	if p.Contenders == nil {
		p.Contenders = lastingContenders
	}
	l.assemble(ctx, p.Contenders, p.serverArgs...)
	if len(l.skipped) > 0 {
		must.Fail("%s", strings.Join(l.skipped, "; "))
	}
	for _, e := range l.entrants {
		e.each(ctx, l.keys, e.Setup...)
	}
	// Each look-up moves a growing hash table on, and as many as there are keys finish it.
	for _, e := range l.entrants {
		e.each(ctx, l.keys, "EXISTS {key}")
	}
	master := l.hosts[hostMain]
	for i := range p.replicas {
		must.Do(master.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err())
		replica := &host{Server: server.Start(ctx, server.Spec{Program: o.Server, Args: []string{"--replicaof", "127.0.0.1", strconv.Itoa(master.Port)}})}
		l.hosts[fmt.Sprintf("replica %d", i)] = replica
		for replica.Fields(ctx)["master_link_status"] != "up" {
			pause(ctx, 50*time.Millisecond)
		}
	}
	s := o.pipelined()
	if p.clients > 0 {
		s = o.latency(p.clients)
		s.prefix = "" // there is no other shape
	}
	l.measure(ctx, s)
	p.Contenders = l.contenders()
	return l.about(ctx)
}

// table has a row for each contender at each point.
func (c curve) table() table.Writer {
	columns := []column{{"x " + baseline + ", " + c.metrics[0].title(), c.metrics[0], ratioRange}}
	for _, m := range c.metrics {
		columns = append(columns, column{m.title(), m, medianRangeRatio})
	}
	header := table.Row{c.axis, ""}
	for _, column := range columns {
		header = append(header, column.title)
	}
	t := newTable(fmt.Sprintf("By %s, and times %s", c.axis, baseline), 2, header...)
	for _, p := range c.Points {
		label := p.Label
		for _, contender := range p.Contenders {
			t.AppendRow(append(table.Row{label}, row(contender, p.Contenders, columns)...))
			label = ""
		}
		t.AppendSeparator()
	}
	return t
}
