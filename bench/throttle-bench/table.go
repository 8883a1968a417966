package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"redis-throttle/bench/throttle-bench/internal/result"
	"redis-throttle/bench/throttle-bench/internal/stat"
)

// column is one figure of every contender.
type column struct {
	title  string
	metric result.Metric
	parts  part
}

// part is what a column shows of its figure, bits of it.
type part int

const (
	partRange part = 1 << iota // least and greatest of the rounds, with each median
	partRatio                  // to the baseline: the median of the rounds' ratios
	partMedian
)

// section is a table with one row for each contender.
type section struct {
	title   string
	columns []column
}

func benchSections() []section {
	sections := []section{{
		fmt.Sprintf("Execution time in the server (INFO commandstats), calls and processor time of the whole server, pipelined by %d; bytes per key", pipelineDepth),
		[]column{
			{"exec us", result.Exec, partMedian | partRange},
			{"x " + baseline, result.Exec, partRatio | partRange},
			{"calls/s", result.Rate, partMedian | partRange},
			{"cpu us", result.CPU, partMedian},
			{"50 clients", result.CPU.With(50), partMedian},
			{"bytes: 1 call", result.BytesOneCall, partMedian},
			{"100 calls", result.BytesHundred, partMedian},
		},
	}}
	for _, latency := range []struct {
		clients int
		source  string
	}{
		{1, "by this program, since redis-benchmark counts in steps of 8 us"},
		{50, "by redis-benchmark"},
	} {
		clients := latency.clients
		const all = partMedian | partRange | partRatio
		sections = append(sections, section{
			fmt.Sprintf("Latency in us, %s, not pipelined; %s", unpipelined(clients).name, latency.source),
			[]column{
				{"p50", result.P50.With(clients), all},
				{"p95", result.P95.With(clients), all},
				{"p99", result.P99.With(clients), all},
				{"p99.9", result.P999.With(clients), partMedian | partRatio},
			},
		})
	}
	return sections
}

// newTable is an empty table in the style of them all.
func newTable(title string, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetTitle(title)
	t.SetStyle(table.StyleLight)
	t.Style().Title.Align = text.AlignLeft
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.SeparateColumns = false
	t.AppendHeader(header)
	return t
}

// alignFigures aligns the columns after the first ones to the right.
func alignFigures(t table.Writer, first, columns int) {
	var configs []table.ColumnConfig
	for number := first + 1; number <= columns; number++ {
		configs = append(configs, table.ColumnConfig{Number: number, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(configs)
}

// sectionTable lays the figures out, and leaves out contenders without any of them.
func sectionTable(s section, list []result.Contender) table.Writer {
	header := table.Row{""}
	for _, c := range s.columns {
		header = append(header, c.title)
	}
	t := newTable(s.title, header...)
	alignFigures(t, 1, len(header))
	base := samplesOf(list, baseline)
	group := ""
	for _, c := range list {
		row := table.Row{c.Name}
		measured := false
		for _, col := range s.columns {
			samples := c.Samples[col.metric]
			measured = measured || len(samples) > 0
			row = append(row, col.parts.cell(samples, base[col.metric]))
		}
		if !measured {
			continue
		}
		if group != "" && c.Group != group {
			t.AppendSeparator()
		}
		group = c.Group
		t.AppendRow(row)
	}
	return t
}

func samplesOf(list []result.Contender, name string) map[result.Metric]result.Samples {
	for _, c := range list {
		if c.Name == name {
			return c.Samples
		}
	}
	return nil
}

// cell is empty where there is nothing to show.
func (p part) cell(samples, base result.Samples) string {
	var words []string
	show := func(samples []float64, format func(float64) string) {
		s := stat.Summarize(samples)
		if math.IsNaN(s.Median) {
			return
		}
		words = append(words, format(s.Median))
		// A ratio that stands beside its figure goes without: the cell would be too wide.
		if p&partRange != 0 && len(words) == 1 {
			words = append(words, "("+format(s.Min)+".."+format(s.Max)+")")
		}
	}
	if p&partMedian != 0 {
		show(samples, number)
	}
	if p&partRatio != 0 {
		show(stat.Ratios(samples, base), ratio)
	}
	return strings.Join(words, " ")
}

func ratio(v float64) string { return fmt.Sprintf("%.2fx", v) }

// number shows three digits or so: the rest is noise.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 10_000:
		return fmt.Sprintf("%.0fk", v/1000)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// writeTables prints sections for people, or as Markdown.
func writeTables(w io.Writer, f result.File, tables []table.Writer, markdown bool) {
	fmt.Fprintln(w, strings.Join(heading(f), separator(markdown)))
	for _, t := range tables {
		fmt.Fprintln(w)
		if markdown {
			fmt.Fprintln(w, t.RenderMarkdown())
		} else {
			fmt.Fprintln(w, t.Render())
		}
	}
	for _, note := range f.Notes {
		fmt.Fprintf(w, "\nNot measured: %s\n", note)
	}
}

// heading says where the figures come from.
func heading(f result.File) []string {
	e, s := f.Environment, f.Settings
	parts := []string{
		e.Server, e.Module, e.Load,
		fmt.Sprintf("%s, %d cores, %s", e.CPU, e.Cores, e.Kernel),
		f.Started.Format("2006-01-02"),
	}
	if f.Kind != result.KindWakeups {
		parts = append(parts, fmt.Sprintf("median (least..greatest) of %d rounds", s.Rounds))
	}
	return parts
}

func separator(markdown bool) string {
	if markdown {
		return "; "
	}
	return "\n"
}
