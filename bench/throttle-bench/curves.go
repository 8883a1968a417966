package main

import (
	"cmp"
	"context"
	_ "embed"
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
	Name       string      `json:"-"`
	Axis       string      `json:"-"`
	Metrics    []metric    `json:"-"` // in the table
	Contenders []contender `json:"-"`
	Points     []point     `json:"points"`
}

// point is one place on the scale.
type point struct {
	Label      string      `json:"label"`
	Contenders []contender `json:"contenders" yaml:"-"` // once it was measured

	Keys     int      `json:"-"`
	Clients  int      `json:"-"` // that do not pipeline
	Args     []string `json:"-"` // of the server
	Replicas int      `json:"-"`
}

//go:embed curves.yaml
var curvesSource []byte

var allCurves = decode[[]curve](curvesSource)

// curves measures the curves that are named, or all.
func curves(ctx context.Context, o options) {
	for _, name := range o.Curve.Names {
		if !slices.ContainsFunc(allCurves, func(c curve) bool { return c.Name == name }) {
			must.Fail("there is no curve %q; --help names them", name)
		}
	}
	for _, c := range allCurves {
		if len(o.Curve.Names) > 0 && !slices.Contains(o.Curve.Names, c.Name) {
			continue
		}
		c.Points = slices.Clone(c.Points[:min(o.Points, len(c.Points))])
		var about []string
		for i := range c.Points {
			about = c.Points[i].measure(ctx, o, c)
		}
		o.publish("curve-"+c.Name, results{About: append(about, o.rounds()), Curve: &c}, c.table())
	}
}

// measure fills in the figures, and says what they are of.
func (p *point) measure(ctx context.Context, o options, c curve) (about []string) {
	defer must.Name("curve %s, %s", c.Name, p.Label)
	l := lineup{options: o, keys: cmp.Or(p.Keys, o.Keys), lasting: true}
	defer l.close()
	l.assemble(ctx, slices.Clone(c.Contenders), p.Args...)
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
	for i := range p.Replicas {
		must.Do(master.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err())
		replica := &host{Server: server.Start(ctx, o.Server, "--replicaof", "127.0.0.1", strconv.Itoa(master.Port))}
		l.hosts[fmt.Sprintf("replica %d", i)] = replica
		for replica.Fields(ctx)["master_link_status"] != "up" {
			pause(ctx, 50*time.Millisecond)
		}
	}
	s := o.pipelined()
	if p.Clients > 0 {
		s = o.latency(p.Clients)
		s.prefix = "" // there is no other shape
	}
	l.measure(ctx, s)
	p.Contenders = l.contenders()
	return l.about(ctx)
}

// table has a row for each contender at each point.
func (c curve) table() table.Writer {
	columns := []column{{"x " + baseline + ", " + c.Metrics[0].title(), c.Metrics[0], ratioRange}}
	for _, m := range c.Metrics {
		columns = append(columns, column{m.title(), m, medianRangeRatio})
	}
	header := table.Row{c.Axis, ""}
	for _, column := range columns {
		header = append(header, column.title)
	}
	t := newTable(fmt.Sprintf("By %s, and times %s", c.Axis, baseline), 2, header...)
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
