package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// column is one figure of every contender.
type column struct {
	title  string
	metric metric
	parts  part
}

// part is what a column shows of its figure, bits of it.
type part int

const (
	partRange part = 1 << iota // quartiles of the rounds, with each median
	partRatio                  // to the baseline: the median of the rounds' ratios
	partMedian
)

// section is a table with one row for each contender.
type section struct {
	title   string
	columns []column
}

var sections = []section{
	{
		fmt.Sprintf("Execution time in the server (INFO commandstats), calls and processor time of the whole server, pipelined by %d; bytes per key", pipelineDepth),
		[]column{
			{"exec us", metricExec, partMedian | partRange},
			{"x " + baseline, metricExec, partRatio | partRange},
			{"calls/s", metricRate, partMedian | partRange},
			{"cpu us", metricCPU, partMedian},
			{"50 clients", metricCPU.with(50), partMedian},
			{"bytes: 1 call", metricBytesOneCall, partMedian},
			{"100 calls", metricBytesHundred, partMedian},
		},
	},
	latencySection(1),
	latencySection(50),
}

func latencySection(clients int) section {
	const all = partMedian | partRange | partRatio
	return section{fmt.Sprintf("Latency in us, %v, not pipelined", unpipelined(clients)), []column{
		{"p50", metricP50.with(clients), all},
		{"p95", metricP95.with(clients), all},
		{"p99", metricP99.with(clients), all},
		{"p99.9", metricP999.with(clients), partMedian | partRatio},
	}}
}

// newTable is an empty table in the style of them all: first so many columns of words,
// then figures.
func newTable(title string, words int, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetTitle(title)
	t.SetStyle(table.StyleLight)
	t.Style().Title.Align = text.AlignLeft
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.SeparateColumns = false
	t.AppendHeader(header)
	var configs []table.ColumnConfig
	for number := words + 1; words > 0 && number <= len(header); number++ {
		configs = append(configs, table.ColumnConfig{Number: number, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(configs)
	return t
}

// benchTables are a table for each section, and the pairs.
func benchTables(f file) []table.Writer {
	tables := []table.Writer{sectionTable(sections[0], f.Contenders), besideTable(f.Contenders)}
	for _, s := range sections[1:] {
		tables = append(tables, sectionTable(s, f.Contenders))
	}
	return tables
}

// sectionTable lays the figures out, and leaves out contenders without any of them. Other
// builds have a row in besideTable only.
func sectionTable(s section, list []contenderResult) table.Writer {
	header := table.Row{""}
	for _, c := range s.columns {
		header = append(header, c.title)
	}
	t := newTable(s.title, 1, header...)
	group := ""
	for _, c := range list {
		if c.Group == groupBuild || len(c.Samples[s.columns[0].metric]) == 0 {
			continue
		}
		if group != "" && c.Group != group {
			t.AppendSeparator()
		}
		group = c.Group
		t.AppendRow(row(c, list, s.columns))
	}
	return t
}

// row is a contender's name and its figures.
func row(c contenderResult, list []contenderResult, columns []column) table.Row {
	r, base := table.Row{c.Name}, samplesOf(list, baseline)
	for _, col := range columns {
		r = append(r, col.parts.cell(c.Samples[col.metric], base[col.metric]))
	}
	return r
}

// besideTable sets what belongs together side by side: the commands and the floor, this
// build and another.
func besideTable(list []contenderResult) table.Writer {
	t := newTable("Execution time side by side; the floor is the least that a module can do for such a call", 2, "", "beside", "exec us", "exec us", "ratio")
	for _, c := range list {
		own, other := c.Samples[metricExec], samplesOf(list, c.Beside)[metricExec]
		row := table.Row{c.Name, c.Beside}
		if c.Group == groupBuild { // the other build is what there was before
			row, own, other = table.Row{c.Beside, c.Name}, other, own
		}
		if len(other) > 0 && len(own) > 0 {
			t.AppendRow(append(row, partMedian.cell(own, nil), partMedian.cell(other, nil), (partRatio|partRange).cell(own, other)))
		}
	}
	return t
}

// cell is empty where there is nothing to show.
func (p part) cell(samples, base []float64) string {
	var words []string
	show := func(samples []float64, format func(float64) string) {
		s := summarize(samples)
		if math.IsNaN(s.median) {
			return
		}
		words = append(words, format(s.median))
		// A ratio that stands beside its figure goes without: the cell would be too wide.
		if p&partRange != 0 && len(words) == 1 {
			words = append(words, "("+format(s.low)+".."+format(s.high)+")")
		}
	}
	if p&partMedian != 0 {
		show(samples, number)
	}
	if p&partRatio != 0 {
		show(ratios(samples, base), func(v float64) string { return fmt.Sprintf("%.2fx", v) })
	}
	return strings.Join(words, " ")
}

// number shows three digits or so: the rest is noise.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 10_000:
		return fmt.Sprintf("%.0fk", v/1000)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// writeTables prints tables for people, or as Markdown, and where their figures are from.
func writeTables(w io.Writer, f file, tables []table.Writer, markdown bool) {
	e, s := f.Environment, f.Settings
	heading := []string{e.Server, e.Module, fmt.Sprintf("%s, %d cores, %s", e.CPU, e.Cores, e.Kernel), f.Started.Format(time.DateOnly)}
	if f.Kind != kindWakeups {
		heading = append(heading, fmt.Sprintf("median (quartiles) of %d rounds of %d calls, %d for latencies", s.Rounds, s.Calls, s.LatencyRounds))
	}
	separator, render := "\n", table.Writer.Render
	if markdown {
		separator, render = "; ", table.Writer.RenderMarkdown
	}
	fmt.Fprintln(w, strings.Join(heading, separator))
	for _, t := range tables {
		fmt.Fprintf(w, "\n%s\n", render(t))
	}
	for _, note := range f.Notes {
		fmt.Fprintf(w, "\nNot measured: %s\n", note)
	}
}
