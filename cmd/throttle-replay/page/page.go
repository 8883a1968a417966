// Package page writes a report as a page: one HTML file that needs no other, and asks nobody for anything.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"redis-throttle/cmd/throttle-replay/replay"
	"redis-throttle/cmd/throttle-replay/table"
)

//go:embed page.html
var layout string

//go:embed page.css
var style string

//go:embed page.js
var script string

// Write writes a report. Times are shown in zone; nil is UTC.
func Write(w io.Writer, r *replay.Report, zone *time.Location) error {
	if zone == nil {
		zone = time.UTC
	}
	parsed, err := template.New("page").Funcs(template.FuncMap{
		"number": table.Number, "percent": table.Percent, "duration": table.Duration, "plain": table.Plain,
		"waits":   func(s replay.Result) []string { return table.Waits(&s) },
		"time":    func(t time.Time) string { return shown(t, zone) },
		"named":   func(all []replay.Result) results { return results{true, all} },
		"unnamed": func(all []replay.Result) results { return results{false, all} },
	}).Parse(layout)
	if err != nil {
		return err
	}
	var b bytes.Buffer // a page that was written half is none
	if err := parsed.Execute(&b, newContent(r, zone)); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

func shown(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05 MST")
}

// results is a table of results, which have names where they were given some.
type results struct {
	Named bool
	All   []replay.Result
}

// content is what the template shows.
type content struct {
	*replay.Report
	Title       string
	HasRequests bool
	Notices     []notice
	Shares      []string
	Snippets    []Snippet
	Suggestions []suggestion
	Timelines   []timeline
	Total       timeline
	Policy      string
	Standing    string // of the clients that stand out
	Advice      string // about the suggestion to begin with
	Style       template.CSS
	Script      template.JS
	Data        data
}

// notice is a sentence about the log. Loud is one that makes the numbers wrong if nobody minds it.
type notice struct {
	Text string
	Loud bool
}

// suggestion is one with its line of the chart.
type suggestion struct {
	Point, Share int
	Spares       string
	Notes        []string
	Result       replay.Result
}

// data is what the script reads.
type data struct {
	Points    []replay.CurvePoint `json:"points"`
	Shares    []string            `json:"shares"`
	Requests  int64               `json:"requests"`
	Clients   int64               `json:"clients"`
	Snippets  []Snippet           `json:"snippets"`
	Suggested struct {
		Point int `json:"point"`
		Share int `json:"share"`
	} `json:"suggested"` // what is chosen at first
}

func newContent(r *replay.Report, zone *time.Location) *content {
	c := &content{
		Report: r, Title: titleOf(r.Files), HasRequests: len(r.Curve.Points) > 0, Snippets: snippetsOf(r), Style: template.CSS(style),
		Script: template.JS(script),
		Policy: "default-src 'none'; base-uri 'none'; form-action 'none'; style-src '" + hashOf(style) + "'; script-src '" + hashOf(script) + "'",
	}
	c.notices()
	for i, share := range r.Curve.Shares {
		if i == len(r.Curve.Shares)-1 {
			share = "all"
		}
		if share == replay.Ordinary {
			share = "all ordinary"
		}
		c.Shares = append(c.Shares, share)
	}
	for _, s := range r.Suggestions {
		one := suggestion{Point: s.Point, Share: slices.Index(r.Curve.Shares, s.Share), Spares: table.Spares(r, &s), Notes: table.Details(&s.Result),
			Result: s.Result}
		c.Suggestions = append(c.Suggestions, one)
	}
	c.Standing = table.Standing(r)
	c.Total = newTimeline(r, nil, zone)
	for i := range r.Sets {
		c.Timelines = append(c.Timelines, newTimeline(r, &r.Sets[i], zone))
	}
	c.Data = data{Points: r.Curve.Points, Shares: r.Curve.Shares, Requests: r.Requests, Clients: r.Clients, Snippets: c.Snippets}
	c.Advice = table.NothingToCopy
	if len(c.Suggestions) > 0 {
		copied := table.Copied(r)
		if copied >= 0 {
			c.Advice = table.WhatItDoes(r, &r.Suggestions[copied])
		}
		first := c.Suggestions[max(copied, 0)]
		c.Data.Suggested.Point, c.Data.Suggested.Share = first.Point, first.Share
	}
	return c
}

// titleOf names the log without its folder.
func titleOf(files []string) string {
	if len(files) == 0 {
		return "a log"
	}
	name := table.Plain(filepath.Base(files[0]))
	if files[0] == "-" {
		name = "standard input"
	}
	if len(files) > 1 {
		name += fmt.Sprintf(" and %d more", len(files)-1)
	}
	return name
}

// hashOf is how a policy names a style or a script.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (c *content) notices() {
	for _, text := range table.Notices(c.Report) {
		c.Notices = append(c.Notices, notice{text.Text, text.Loud})
	}
}

// timeline is the time of the log as bars.
type timeline struct {
	replay.Result
	Notes             []string
	Bars              []bar
	Width             int
	Label             string
	First, Last, Most string
}

// bar is a part of the time.
type bar struct {
	X, AllY, AllHeight, DeniedY, DeniedHeight string
	Width                                     string
	Text                                      string
}

// newTimeline draws the requests of a log, and those that a set denies; nil is none.
func newTimeline(r *replay.Report, set *replay.Result, zone *time.Location) timeline {
	t := timeline{Width: len(r.Time.Requests) * 4}
	if set != nil {
		t.Result = *set
		t.Name = table.Plain(set.Name)
		t.Notes = table.Details(set)
		t.Rules = table.Rules(set)
	}
	most := slices.Max(append([]int64{1}, r.Time.Requests...))
	width := time.Duration(r.Time.WidthNs)
	for i, n := range r.Time.Requests {
		denied := int64(0)
		if set != nil {
			denied = set.Series[i]
		}
		at := r.Time.Start.Add(time.Duration(i) * width)
		text := fmt.Sprintf("%s: %s requests", shown(at, zone), table.Number(n))
		if set != nil {
			text += fmt.Sprintf(", %s denied", table.Number(denied))
		}
		all, out := float64(n)/float64(most)*100, float64(denied)/float64(most)*100
		if denied > 0 {
			out = max(out, 1.5) // is seen
		}
		b := bar{X: fmt.Sprint(i * 4), Width: "3.4", AllY: decimal(100 - all), AllHeight: decimal(all), Text: text}
		if denied > 0 {
			b.DeniedY, b.DeniedHeight = decimal(100-out), decimal(out)
		}
		t.Bars = append(t.Bars, b)
	}
	t.First, t.Last = shown(r.Time.Start, zone), shown(r.Time.Start.Add(time.Duration(len(r.Time.Requests))*width), zone)
	t.Most = fmt.Sprintf("%s each, at most %s requests", table.Duration(r.Time.WidthNs/1e6), table.Number(most))
	t.Label = strings.TrimPrefix(t.Name+": requests by time", ": ")
	if set != nil {
		t.Label += ", and those that are denied"
	}
	return t
}

func decimal(n float64) string { return fmt.Sprintf("%.2f", n) }
