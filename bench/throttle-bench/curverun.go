package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"redis-throttle/bench/throttle-bench/internal/chart"
	"redis-throttle/bench/throttle-bench/internal/result"
	"redis-throttle/bench/throttle-bench/internal/server"
	"redis-throttle/bench/throttle-bench/internal/stat"
)

// quickPoints is how much of a curve a smoke test draws.
const quickPoints = 2

// curves measures the curves that were asked for, and publishes each.
func curves(ctx context.Context, o options) error {
	chosen, err := chooseCurves(o.args)
	if err != nil {
		return err
	}
	for _, c := range chosen {
		if o.quick {
			c.points = c.points[:quickPoints]
		}
		if err := c.run(ctx, o); err != nil {
			return fmt.Errorf("curve %s: %w", c.name, err)
		}
	}
	return nil
}

// run takes the points one after the other; within a point, SET and CL.THROTTLE take
// turns.
func (c curve) run(ctx context.Context, o options) error {
	started := time.Now()
	planned := 0.0
	for _, p := range c.points {
		planned += p.setupSeconds(o) + o.plannedSeconds(1, len(p.contenders))
	}
	progress := newProgress(o.stderr, planned)
	defer progress.finish()
	file := result.File{
		Kind: result.KindCurve, Started: started.UTC().Truncate(time.Second), Settings: o.settings(),
		Curve: &result.Curve{Name: c.name, Axis: c.axis, Log: c.log, Metrics: c.metrics, Charted: c.charted},
	}
	for _, p := range c.points {
		progress.step(fmt.Sprintf("%s %s, setting up", c.axis, p.label), p.setupSeconds(o))
		point, env, err := p.run(ctx, o, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", p.label, err)
		}
		file.Environment = env
		file.Curve.Points = append(file.Curve.Points, point)
	}
	progress.finish()
	return publish(o, "curve-"+c.name, file)
}

func (p curvePoint) run(ctx context.Context, o options, progress *progress) (result.Point, result.Environment, error) {
	fail := func(err error) (result.Point, result.Environment, error) {
		return result.Point{}, result.Environment{}, err
	}
	l, err := assemble(ctx, o, p.keyCount(o), p.contenders, p.serverArgs...)
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	if len(l.skipped) > 0 {
		return fail(fmt.Errorf("%v", l.skipped))
	}
	for _, e := range l.entrants {
		if err := e.prepare(ctx, l.keys); err != nil {
			return fail(err)
		}
	}
	// Each look-up moves a growing hash table on, and as many as there are keys finish it.
	for _, e := range l.entrants {
		if err := e.each(ctx, l.keys, []string{"EXISTS {key}"}); err != nil {
			return fail(err)
		}
	}
	main := l.hosts[hostMain]
	for range p.replicas {
		replica, err := attachReplica(ctx, o, main)
		if err != nil {
			return fail(err)
		}
		defer replica.Close()
	}
	if err := l.rounds(ctx, progress, []sliceKind{p.kind}); err != nil {
		return fail(err)
	}
	env, err := environment(ctx, o, main)
	return result.Point{X: p.x, Label: p.label, Contenders: l.results()}, env, err
}

func (p curvePoint) keyCount(o options) int {
	if p.keys > 0 {
		return p.keys
	}
	return o.keys
}

// setupSeconds is what filling the keys is thought to take.
func (p curvePoint) setupSeconds(o options) float64 {
	const callsPerSecond = 500_000
	return 0.3 + 2*float64(p.keyCount(o)*len(p.contenders))/callsPerSecond
}

// attachReplica starts a replica, which needs no module, and waits until it is in step.
func attachReplica(ctx context.Context, o options, master *server.Server) (*server.Server, error) {
	if err := master.Client.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err(); err != nil {
		return nil, err
	}
	replica, err := server.Start(ctx, server.Spec{
		Program: o.server, Args: []string{"--replicaof", "127.0.0.1", strconv.Itoa(master.Port)},
	})
	if err != nil {
		return nil, err
	}
	const patience = 2 * time.Minute
	deadline := time.Now().Add(patience)
	for {
		info, err := replica.Info(ctx)
		if err == nil && info.Text("master_link_status") == "up" {
			return replica, nil
		}
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("a replica did not get in step within %v", patience)
		}
		if err == nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		replica.Close()
		return nil, err
	}
}

// curveTable has a row for each contender at each point.
func curveTable(c result.Curve) table.Writer {
	header := table.Row{c.Axis, "", "x " + baseline + ", " + c.Metrics[0].Title()}
	for _, m := range c.Metrics {
		header = append(header, m.Title())
	}
	t := newTable(fmt.Sprintf("By %s, and times %s", c.Axis, baseline), header...)
	alignFigures(t, 2, len(header))
	for _, point := range c.Points {
		base := samplesOf(point.Contenders, baseline)
		for i, contender := range point.Contenders {
			label := point.Label
			if i > 0 {
				label = ""
			}
			first := c.Metrics[0]
			row := table.Row{label, contender.Name, (partRatio | partRange).cell(contender.Samples[first], base[first])}
			for _, m := range c.Metrics {
				row = append(row, (partMedian|partRange|partRatio).cell(contender.Samples[m], base[m]))
			}
			t.AppendRow(row)
		}
		t.AppendSeparator()
	}
	return t
}

// drawCurve draws each charted figure, and beside it its ratio to the baseline.
func drawCurve(stem string, f result.File) ([]string, error) {
	c := *f.Curve
	var rows [][]chart.Panel
	for _, m := range c.Charted {
		value := chart.Panel{Title: m.Title() + ", " + f.Environment.Server, XAxis: c.Axis, YAxis: m.Title(), Log: c.Log}
		times := chart.Panel{Title: m.Title() + ", times " + baseline, XAxis: c.Axis, YAxis: "times " + baseline, Log: c.Log}
		if !c.Log {
			for _, p := range c.Points {
				value.Names = append(value.Names, p.Label)
			}
			times.Names = value.Names
		}
		for i, contender := range c.Points[0].Contenders {
			values, ratios := chart.Series{Name: contender.Name}, chart.Series{Name: contender.Name}
			for _, p := range c.Points {
				samples, base := p.Contenders[i].Samples[m], samplesOf(p.Contenders, baseline)[m]
				values.Points = append(values.Points, chartPoint(p.X, samples))
				ratios.Points = append(ratios.Points, chartPoint(p.X, stat.Ratios(samples, base)))
			}
			value.Series, times.Series = append(value.Series, values), append(times.Series, ratios)
		}
		rows = append(rows, []chart.Panel{value, times})
	}
	path := stem + ".svg"
	return []string{path}, chart.DrawPanels(path, rows)
}

func chartPoint(x float64, samples []float64) chart.Point {
	s := stat.Summarize(samples)
	return chart.Point{X: x, Y: s.Median, Min: s.Min, Max: s.Max}
}
