package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// column is one figure of every contender, and what its cells show of it.
type column struct {
	title  string
	metric metric
	cells  []cell
}

// cell shows something of the rounds' figures, or of their ratios to the baseline's.
type cell func(samples, base []float64) string

func median(samples, _ []float64) string { return number(summarize(samples).median) }

func quartiles(samples, _ []float64) string {
	s := summarize(samples)
	return fmt.Sprintf("(%s..%s)", number(s.low), number(s.high))
}

func ratio(samples, base []float64) string {
	return fmt.Sprintf("%.2fx", summarize(ratios(samples, base)).median)
}

func ratioQuartiles(samples, base []float64) string {
	s := summarize(ratios(samples, base))
	return fmt.Sprintf("(%.2fx..%.2fx)", s.low, s.high)
}

var (
	medianRange      = []cell{median, quartiles}
	ratioRange       = []cell{ratio, ratioQuartiles}
	medianRangeRatio = []cell{median, quartiles, ratio}
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
			{"exec us", metricExec, medianRange},
			{"x " + baseline, metricExec, ratioRange},
			{"calls/s", metricRate, medianRange},
			{"cpu us", metricCPU, []cell{median}},
			{"50 clients", "clients_50_" + metricCPU, []cell{median}},
			{"bytes: 1 call", metricBytesOneCall, []cell{median}},
			{"100 calls", metricBytesHundred, []cell{median}},
		},
	},
	latencySection("1 client", "clients_1_"),
	latencySection("50 clients", "clients_50_"),
}

func latencySection(clients string, prefix metric) section {
	return section{fmt.Sprintf("Latency in us, %s, not pipelined", clients), []column{
		{"p50", prefix + metricP50, medianRangeRatio},
		{"p95", prefix + metricP95, medianRangeRatio},
		{"p99", prefix + metricP99, medianRangeRatio},
		{"p99.9", prefix + metricP999, []cell{median, ratio}},
	}}
}

// newTable is an empty table in the style of them all: first words columns of words,
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

// benchTables are a table for each section, and the pairs. Other builds have a row in those only.
func benchTables(list []contender) []table.Writer {
	ours := withoutTwins(list)
	tables := []table.Writer{sectionTable(sections[0], ours), besideTable(list)}
	for _, s := range sections[1:] {
		tables = append(tables, sectionTable(s, ours))
	}
	return tables
}

// sectionTable lays the figures out, and leaves out contenders without the first of them. A row of another build stands
// below that of this one.
func sectionTable(s section, list []contender) table.Writer {
	header := table.Row{""}
	for _, c := range s.columns {
		header = append(header, c.title)
	}
	t := newTable(s.title, 1, header...)
	group := ""
	for _, c := range list {
		if len(c.Samples[s.columns[0].metric]) == 0 {
			continue
		}
		if !c.isBuild() {
			if group != "" && c.Group != group {
				t.AppendSeparator()
			}
			group = c.Group
		}
		t.AppendRow(row(c, list, s.columns))
	}
	return t
}

// row is a contender's name and its figures; a cell without any is empty.
func row(c contender, list []contender, columns []column) table.Row {
	r, base := table.Row{c.Name}, samplesOf(list, baseline)
	for _, col := range columns {
		var words []string
		for _, show := range col.cells {
			if samples := c.Samples[col.metric]; len(samples) > 0 {
				words = append(words, show(samples, base[col.metric]))
			}
		}
		r = append(r, strings.Join(words, " "))
	}
	return r
}

// besideTable sets what belongs together side by side: the commands and the floor, this
// build and another.
func besideTable(list []contender) table.Writer {
	t := newTable("Execution time side by side; the floor is the least that a module can do for such a call", 2, "", "beside", "exec us", "exec us", "ratio")
	for _, c := range list {
		name, other := c.Name, c.Beside
		if c.isBuild() { // the other build is what there was before
			name, other = other, name
		}
		own, base := samplesOf(list, name)[metricExec], samplesOf(list, other)[metricExec]
		if len(own) > 0 && len(base) > 0 {
			t.AppendRow(table.Row{name, other, median(own, nil), median(base, nil), ratio(own, base) + " " + ratioQuartiles(own, base)})
		}
	}
	return t
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

// writeTables writes tables, and what their figures are of.
func writeTables(w io.Writer, r results, tables []table.Writer, separator string, render func(table.Writer) string) {
	fmt.Fprintln(w, strings.Join(r.About, separator))
	for _, t := range tables {
		fmt.Fprintf(w, "\n%s\n", render(t))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\nNot measured: %s\n", note)
	}
}
