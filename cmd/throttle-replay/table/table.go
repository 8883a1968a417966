// Package table writes a report for a terminal.
package table

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"redis-throttle/cmd/throttle-replay/replay"
)

// Options say how a report is written.
type Options struct {
	Zone   *time.Location // of the times that it shows
	Colors bool
}

// Write writes a report.
func Write(w io.Writer, r *replay.Report, o Options) error {
	p := &printer{out: w, Options: o, report: r}
	p.head()
	if r.Lines.Requests > 0 {
		p.peaks()
		p.top()
		p.outliers()
		p.results("Limits", r.Sets)
		for i := range r.Sets {
			p.details(&r.Sets[i])
		}
		p.policies()
		p.results("The same limit as RATE, WINDOW and FIXED", r.Kinds)
		p.curve()
		p.suggestions()
	}
	return p.err
}

// printer writes lines and keeps the first error.
type printer struct {
	Options
	out    io.Writer
	report *replay.Report
	err    error
}

func (p *printer) line(format string, args ...any) {
	if _, err := fmt.Fprintf(p.out, format+"\n", args...); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) title(text, note string) {
	p.line("")
	if note != "" {
		note = "  " + p.dim(note)
	}
	p.line("%s%s", p.bold(text), note)
}

func (p *printer) bold(text string) string { return p.colored("1", text) }
func (p *printer) dim(text string) string  { return p.colored("2", text) }

func (p *printer) colored(code, text string) string {
	if !p.Colors || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// grid writes rows in columns: the first one to the left, as those are that begin with "<", the others to the right.
func (p *printer) grid(rows ...[]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(strings.TrimPrefix(cell, "<")))
		}
	}
	for n, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			text, isLeft := strings.CutPrefix(cell, "<")
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if isLeft || i == 0 {
				b.WriteString("  " + text + gap)
			} else {
				b.WriteString("  " + gap + text)
			}
		}
		text := strings.TrimRight(b.String(), " ")
		if n == 0 {
			text = p.dim(text)
		}
		p.line("%s", text)
	}
}

func (p *printer) head() {
	r := p.report
	p.line("%s %s", p.bold("throttle-replay"), Plain(strings.Join(r.Files, " ")))
	if r.Lines.Requests == 0 {
		p.line("  No request was read.")
	} else {
		p.line("  %s of %s, by %s, %s to %s", plural(r.Lines.Requests, "request"), plural(r.Clients, "client"), Plain(r.Key), p.time(r.From), p.time(r.To))
	}
	for _, n := range Notices(r) {
		p.line("  %s", n.Text)
	}
}

// Notice is a sentence about how a log was read. Loud is one without which the numbers mislead.
type Notice struct {
	Text string
	Loud bool
}

// Notices says what is to be known of a log before its numbers.
func Notices(r *replay.Report) (all []Notice) {
	add := func(isLoud bool, format string, args ...any) {
		all = append(all, Notice{fmt.Sprintf(format, args...), isLoud})
	}
	if r.Interrupted {
		add(true, "Interrupted: the log goes on. This is what was read of it.")
	}
	l := &r.Lines
	for _, left := range []struct {
		count  int64
		isLoud bool
		why    string
	}{
		{l.Filtered, false, "--where leaves them out"},
		{l.Keyless, true, "without a field of the key, so that no limit applies to them"},
		{l.NoAddress, true, "without an address where the key asks for one, and left out"},
		{l.NoCost, true, "without a number in the field of --cost"},
		{l.Late, true, "out of order by more than --late, and left out: " + Percent(l.Late, l.All) + " of all. Give files that follow each other one by one, or say --late 24h"},
	} {
		if left.count > 0 {
			add(left.isLoud, "%s: %s.", plural(left.count, "line"), left.why)
		}
	}
	if l.Chapters > 0 {
		add(false, "The log goes back in time %s, as files do that do not follow each other. The requests were put in order.", plural(l.Chapters, "time"))
	}
	for _, u := range l.Unreadable {
		text := ""
		if u.Text != "" {
			text = ": " + Plain(u.Text)
		}
		add(true, "%s could not be read: %s. The first is %s:%d%s", plural(u.Count, "line"), u.Why, Plain(u.File), u.Line, text)
	}
	for _, d := range l.Damaged {
		add(true, "%s ends after line %d: %s", Plain(d.File), d.Line, Plain(d.Why))
	}
	if r.Shortened {
		add(true, "There are too many requests a second to wait for late lines as long as --late says.")
	}
	if r.Requests == 0 {
		return all
	}
	if r.ResolutionNs == 1e9 {
		add(false, "Times are to the second. A burst can be off by what the rate allows in a second.")
	}
	if s := r.Sampling; s != nil {
		add(true, "There are more clients than --max-clients. Clients with %d requests or more are all here. Of the others, one in %s is, and counts for as many: %s by others are left out.",
			s.AtLeast, Number(s.OneIn), plural(s.LeftOut, "request"))
	}
	if r.Cost != "" {
		add(false, "Each request takes what its field %s says: %s in all.", Plain(r.Cost), plural(r.Units, "unit"))
	}
	return all
}

func (p *printer) peaks() {
	p.title("What clients do at their peak", p.units()+" in the fullest second, minute and hour of each")
	rows := [][]string{{"", "half do up to", "90 %", "99 %", "largest", "<when", "<client"}}
	for _, peak := range p.report.Peaks {
		rows = append(rows, []string{"in a " + peak.Period, Number(peak.P50), Number(peak.P90), Number(peak.P99), Number(peak.Max),
			"<" + p.time(peak.At), "<" + Plain(peak.Client)})
	}
	rows[len(rows)-1][0] = "in an hour"
	p.grid(rows...)
}

func (p *printer) units() string {
	if p.report.Cost != "" {
		return "units"
	}
	return "requests"
}

func (p *printer) top() {
	p.title("The largest clients", "")
	rows := [][]string{{"client", "requests", "in a second", "in a minute", "in an hour"}}
	for _, c := range p.report.Top {
		rows = append(rows, []string{Plain(c.Name), Number(c.Requests), Number(c.PerSecond), Number(c.PerMinute), Number(c.PerHour)})
	}
	p.grid(rows...)
}

// Standing says how far from the others the clients are that stand out; "" where nobody does.
func Standing(r *replay.Report) string {
	o := &r.Outliers
	if o.Clients == 0 {
		return ""
	}
	who := plural(o.Clients, "client") + " stand out: they"
	if o.Clients == 1 {
		who = "1 client stands out: it"
	}
	text := who + " made " + Percent(o.Requests, r.Requests) + " of the requests"
	if len(o.List) > 0 {
		text += ", the largest " + Number(o.List[0].Times) + " x the median"
		if o.Clients == 1 {
			text = strings.Replace(text, ", the largest ", ", ", 1)
		}
	}
	if o.Networks > 0 && o.Clients > 1 {
		text += ", from " + plural(o.Networks, "network")
	}
	return text + "."
}

// outliers names the clients that stand out.
func (p *printer) outliers() {
	text := Standing(p.report)
	if text == "" {
		return
	}
	p.title("Clients that stand out", "")
	p.line("  %s", text)
	rows := [][]string{{"client", "requests", "", "in a minute", "in an hour", "x the median"}}
	for _, c := range p.report.Outliers.List {
		rows = append(rows, []string{Plain(c.Name), Number(c.Requests), Percent(c.Requests, p.report.Requests), Number(c.PerMinute),
			Number(c.PerHour), Number(c.Times)})
	}
	p.grid(rows...)
	p.line("  Is one of them known to you? Name it, and suggestions spare it: --known NAME=CONDITION")
}

func (p *printer) results(title string, all []replay.Result) {
	if len(all) == 0 {
		return
	}
	p.title(title, "what each would have denied")
	rows := [][]string{{"", "<limits", "requests", "", "clients", "", "wait: half", "90 %", "99 %", "longest"}}
	for i := range all {
		rows = append(rows, resultRow(&all[i]))
	}
	p.grid(rows...)
}

func resultRow(s *replay.Result) []string {
	name := Plain(s.Name)
	if name == s.Words || strings.HasPrefix(s.Words, name+" ") {
		name = ""
	}
	row := []string{name, "<" + Plain(s.Words), Number(s.Denied), Percent(s.Denied, s.Requests), Number(s.DeniedClients), Percent(s.DeniedClients, s.Clients)}
	if s.Denied == 0 {
		return row
	}
	return append(row, Waits(s)...)
}

// Waits lists how long half, 90 % and 99 % of the denied requests wait at most, and the longest wait. Requests that no
// wait makes possible are left out, unless there are no others.
func Waits(s *replay.Result) (all []string) {
	for _, ms := range []int64{s.Waits.P50, s.Waits.P90, s.Waits.P99, s.Waits.Max} {
		if s.Waits.Never == s.Denied {
			ms = -1
		}
		all = append(all, Duration(ms))
	}
	return all
}

// Rules returns the rules that a result tells apart: none if there is one, which its words name already.
func Rules(s *replay.Result) []replay.Rule {
	if len(s.Rules) == 1 && strings.HasPrefix(strings.ToUpper(s.Words), strings.ToUpper(s.Rules[0].Words)) {
		return nil
	}
	return s.Rules
}

// Details are what there is to say of a result beside what it denies.
func Details(s *replay.Result) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if s.Errors > 0 {
		add("%s could not be decided: %s", plural(s.Errors, "request"), Plain(s.Example))
	}
	if s.Delayed > 0 {
		add("%s had to wait: half up to %s, 99 %% up to %s, the longest %s", plural(s.Delayed, "request"), Duration(s.Delays.P50), Duration(s.Delays.P99), Duration(s.Delays.Max))
	}
	if s.Shadowed > 0 {
		add("%s (%s) were let through although a SHADOW would have denied them", plural(s.Shadowed, "request"), Percent(s.Shadowed, s.Requests))
	}
	if s.Unlimited > 0 {
		add("%s (%s) are subject to no rule", plural(s.Unlimited, "request"), Percent(s.Unlimited, s.Requests))
	}
	for _, g := range s.Groups {
		if g.Denied > 0 {
			add("hits %s: %s of %s, %s of their requests", Plain(g.Name), Number(g.DeniedClients), Number(g.Clients), Percent(g.Denied, g.Requests))
		}
	}
	if s.Waits.Never > 0 {
		add("%s cost more than the limit ever has, so that no wait helps", plural(s.Waits.Never, "request"))
	}
	return all
}

// mostRules is how many rules of a result are listed.
const mostRules = 50

// details are what there is to say of one set.
func (p *printer) details(s *replay.Result) {
	name := Plain(s.Name)
	for _, text := range Details(s) {
		p.line("  %s: %s", name, text)
	}
	if rules := Rules(s); len(rules) > 0 {
		note := ""
		if len(rules) > mostRules {
			note = Number(mostRules) + " of " + Number(int64(len(rules)))
			rules = rules[:mostRules]
		}
		p.title(name+": which limit", note)
		rows := [][]string{{"limit", "denied", "", "would have by itself", ""}}
		for _, rule := range rules {
			rows = append(rows, []string{Plain(rule.Words), Number(rule.Denied), Percent(rule.Denied, s.Requests), Number(rule.Alone),
				Percent(rule.Alone, s.Requests)})
		}
		p.grid(rows...)
	}
	if s.Denied == 0 {
		return
	}
	series, together := shorten(s.Series)
	p.title(name+": when", "denied requests, "+Duration(p.report.Time.WidthNs/1e6*together)+" a column, from "+p.time(p.report.Time.Start))
	p.line("  %s", spark(series))
	p.title(name+": whom most", "")
	rows := [][]string{{"client", "requests", "denied", "", "longest wait"}}
	for _, c := range s.Top {
		rows = append(rows, []string{Plain(c.Name), Number(c.Requests), Number(c.Denied), Percent(c.Denied, c.Requests), Duration(c.LongestMs)})
	}
	p.grid(rows...)
}

// policies has the commands that set what was tried.
func (p *printer) policies() {
	if len(p.report.Policies) == 0 {
		return
	}
	p.title("What was tried, for redis-cli", "")
	for _, command := range p.report.Policies {
		p.line("  %s", command)
	}
}

// widest is how many columns a line of blocks has at most.
const widest = 72

// shorten adds neighbours up until there are few enough numbers. It returns how many of them each is now.
func shorten(all []int64) (short []int64, together int64) {
	together = 1
	for ; len(all) > widest; together *= 2 {
		half := make([]int64, (len(all)+1)/2)
		for i, n := range all {
			half[i/2] += n
		}
		all = half
	}
	return all, together
}

// spark draws numbers as blocks of different heights.
func spark(all []int64) string {
	most := int64(1)
	for _, n := range all {
		most = max(most, n)
	}
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, n := range all {
		height := (n*8 + most - 1) / most
		b.WriteRune(blocks[height])
	}
	return b.String() + "  most: " + Number(most)
}

func (p *printer) curve() {
	c := &p.report.Curve
	p.title("The burst that clients need never to be denied anything", "by rate; --html draws it, with a slider")
	rows := [][]string{{"rate"}}
	for _, share := range c.Shares {
		switch {
		case strings.HasSuffix(share, "%"):
			share += " of clients"
		case share == replay.Ordinary:
			share += " clients"
		}
		rows[0] = append(rows[0], share)
	}
	rows[0][len(rows[0])-1] = "all"
	for _, i := range some(len(c.Points), 12) {
		point := &c.Points[i]
		row := []string{point.Rate}
		for _, burst := range point.Bursts {
			row = append(row, Number(burst))
		}
		rows = append(rows, row)
	}
	p.grid(rows...)
}

// some are the indexes of up to most of n things, spread evenly, the first and the last among them.
func some(n, most int) (all []int) {
	if n <= most {
		most = n
	}
	for i := range most {
		all = append(all, i*(n-1)/max(most-1, 1))
	}
	return all
}

func (p *printer) suggestions() {
	all := p.report.Suggestions
	if len(all) == 0 {
		return
	}
	p.title("Limits to begin with", "at knees of that curve. Nothing is set: try one as a SHADOW first")
	rows := [][]string{{"", "<limit", "requests", "", "clients", "", "wait: half", "90 %", "99 %", "longest"}}
	for i := range all {
		row := resultRow(&all[i].Result)
		row[0] = Spares(p.report, &all[i])
		rows = append(rows, row)
	}
	p.grid(rows...)
	for i := range all {
		for _, text := range Details(&all[i].Result) {
			p.line("  %s: %s", Plain(all[i].Result.Words), text)
		}
	}
	p.line("")
	copied := Copied(p.report)
	if copied < 0 {
		p.line("  %s", NothingToCopy)
		return
	}
	p.line("  CL.LIMIT key %s%s SHADOW", all[copied].Result.Words, costOf(p.report))
	p.line("  %s", WhatItDoes(p.report, &all[copied]))
}

// NothingToCopy stands where a line to copy would be.
const NothingToCopy = "There is no line to copy: what denies nothing may be the rate of somebody who should be denied. Look at the largest clients first."

func costOf(r *replay.Report) string {
	if r.Cost == "" {
		return ""
	}
	return " COST <" + Plain(r.Cost) + ">"
}

// Copied is the index of the suggestion to begin with, -1 if there is none.
func Copied(r *replay.Report) int {
	return slices.IndexFunc(r.Suggestions, func(s replay.Suggestion) bool { return s.Copy })
}

// Spares says whom a suggestion spares.
func Spares(r *replay.Report, s *replay.Suggestion) string {
	switch {
	case s.Share == replay.Ordinary && r.Outliers.Clients == 1:
		return "spares all but the one that stands out"
	case s.Share == replay.Ordinary:
		return "spares all but the " + Number(r.Outliers.Clients) + " that stand out"
	case s.Result.Denied == 0:
		return "denies nobody"
	}
	return "spares " + s.Share
}

// WhatItDoes says whom the suggestion to begin with denies what.
func WhatItDoes(r *replay.Report, s *replay.Suggestion) string {
	o := &r.Outliers
	if s.Share != replay.Ordinary {
		return fmt.Sprintf("Nobody stands out. It denies %s: see that they are not those whom you want.", plural(s.Result.DeniedClients, "client"))
	}
	whom := "the clients that stand out"
	if o.Clients == 1 {
		whom = "the client that stands out"
	}
	return fmt.Sprintf("It denies %s %s of their requests, and nobody else anything.", whom, Percent(s.OutliersDenied, o.Requests))
}

func (p *printer) time(t time.Time) string {
	if p.Zone != nil {
		t = t.In(p.Zone)
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// Number is n with commas between thousands.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Number(n) + " " + noun + "s"
}

// Percent is a share. One that is neither nothing nor everything is not shown as if it were.
func Percent(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	share := 100 * float64(part) / float64(whole)
	switch {
	case part == 0:
		return "0 %"
	case share < 0.01:
		return "<0.01 %"
	case part < whole && share > 99.99:
		return ">99.99 %"
	case share < 1:
		return fmt.Sprintf("%.2f %%", share)
	}
	return fmt.Sprintf("%.1f %%", share)
}

// Duration is a length of time in ms, in the largest unit that leaves it two digits or so. A negative one is never
// over.
func Duration(ms int64) string {
	if ms < 0 {
		return "never"
	}
	for _, u := range []struct {
		ms   int64
		name string
	}{{86_400_000, "d"}, {3_600_000, "h"}, {60_000, "min"}, {1000, "s"}} {
		if ms >= u.ms {
			whole := float64(ms) / float64(u.ms)
			if whole >= 10 || ms%u.ms == 0 {
				return fmt.Sprintf("%.0f %s", whole, u.name)
			}
			return fmt.Sprintf("%.1f %s", whole, u.name)
		}
	}
	return fmt.Sprintf("%d ms", ms)
}

// Plain is text that a terminal shows and does not obey: of what a client may have sent, what is no printable character
// is escaped, and so are marks that turn the direction of text.
func Plain(text string) string {
	var b strings.Builder
	for _, c := range text {
		if c == utf8.RuneError || !unicode.IsPrint(c) || unicode.Is(unicode.Bidi_Control, c) {
			quoted := strconv.QuoteRuneToASCII(c)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}
