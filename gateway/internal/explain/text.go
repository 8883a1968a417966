package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"redis-throttle/internal/quote"
)

// Text is the explanation as a person reads it.
func (x Explanation) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", x.Outcome, x.Because)
	if x.Redis.Error != "" {
		fmt.Fprintf(&b, "Redis: %s\n", shown(x.Redis.Error))
	}
	for _, note := range x.Notes {
		fmt.Fprintf(&b, "note: %s\n", shown(note))
	}
	if len(x.Routes) > 0 {
		fmt.Fprintf(&b, "\nroutes of domain %s\n", shown(x.Domain))
		for _, r := range x.Routes {
			switch {
			case !r.Matched:
				fmt.Fprintf(&b, "  no   %s: %s\n", shown(r.Match), shown(r.Because))
			default:
				fmt.Fprintf(&b, "  yes  %s, as %s, costs %s\n", shown(r.Match), shown(r.As), counted(int(r.Cost), "unit", "units"))
			}
		}
		if x.MoreRoutes > 0 {
			fmt.Fprintf(&b, "  no   %d more\n", x.MoreRoutes)
		}
	}
	for _, d := range x.Descriptors {
		d.text(&b)
	}
	return b.String()
}

func (d *Descriptor) text(b *strings.Builder) {
	var entries []string
	for _, e := range d.Entries {
		entries = append(entries, pair(e))
	}
	head := strings.Join(entries, ", ")
	if d.Route != "" {
		head = strings.TrimSuffix(shown(d.Route)+": "+head, ": ")
	}
	fmt.Fprintf(b, "\n%s\n", head)
	line := func(what, format string, args ...any) {
		fmt.Fprintf(b, "  %-7s%s\n", what, fmt.Sprintf(format, args...))
	}
	if d.Because != "" {
		line("why", "%s", shown(d.Because))
	}
	if len(d.There) > 0 {
		there := strings.Join(each(d.There, shown), ", ")
		if d.MoreThere > 0 {
			there += fmt.Sprintf(" and %d more", d.MoreThere)
		}
		line("there", "%s", there)
	}
	if d.Rule == nil {
		return
	}
	r := d.Rule
	name := shown(r.Path)
	if r.Name != "" {
		name += ", named " + shown(r.Name)
	}
	line("rule", "%s", name)
	var way []string
	for _, l := range d.Levels {
		text := shown(l.Matched) + " by its " + l.By
		if len(l.Instead) > 0 {
			text += ", before " + strings.Join(each(l.Instead, shown), " and ")
		}
		way = append(way, text)
	}
	if len(way) > 0 {
		line("found", "%s", strings.Join(way, "; "))
	}
	r.text(line)
	switch {
	case d.Quoted != "":
		line("key", "%s", d.Quoted)
	case d.Key != "":
		line("key", "%s", shown(d.Key))
	}
	if d.Refund {
		line("gives", "%s back", counted(int(d.Hits), "unit", "units"))
	} else if d.Hits != 1 {
		line("takes", "%s", counted(int(d.Hits), "unit", "units"))
	}
	if d.Now != nil {
		d.Now.text(line)
	}
}

func (r *Rule) text(line func(what, format string, args ...any)) {
	switch {
	case r.Unlimited && len(r.Limits) == 0:
		line("limits", "unlimited")
	case len(r.Limits) > 0:
		line("limits", "%s", strings.Join(r.Limits, "; "))
	}
	if r.Ban != "" {
		line("ban", "%s", r.Ban)
	}
	var modes []string
	for _, m := range []struct {
		is   bool
		text string
	}{
		{r.Shadow, "a shadow, which denies nothing"}, {r.Quota, "a quota, which denies when all quotas of the request do"},
		{r.Batch > 0, fmt.Sprintf("taken in batches of %d", r.Batch)},
	} {
		if m.is {
			modes = append(modes, m.text)
		}
	}
	if len(r.Replaces) > 0 {
		modes = append(modes, "replaces "+strings.Join(each(r.Replaces, shown), ", "))
	}
	if len(modes) > 0 {
		line("is", "%s", strings.Join(modes, "; "))
	}
	switch p := r.Policy; {
	case p == nil:
	case p.Field == "":
		line("policy", "%s, whose limits are those of the file", p.Name)
	case p.Unused != "":
		line("policy", "%s, but %s %q does not count: %s", p.Name, shown(p.Field), p.Value, shown(p.Unused))
	default:
		line("policy", "%s, by %s %q instead of %s", p.Name, shown(p.Field), p.Value, strings.Join(p.File, "; "))
	}
}

func (n *Now) text(line func(what, format string, args ...any)) {
	if n.Banned {
		line("banned", "for %s", lengthOf(n.RetryAfterMs))
	}
	for _, l := range n.Left {
		text := fmt.Sprintf("%d of %d, %s", l.Remaining, l.Of, l.Limit)
		switch {
		case l.Over && l.RetryAfterMs < 0:
			text += ": never enough"
		case l.Over:
			text += ": enough in " + lengthOf(l.RetryAfterMs)
		case l.ResetAfterMs > 0:
			text += ": full in " + lengthOf(l.ResetAfterMs)
		}
		if l.Shadow {
			text += " (a shadow)"
		}
		line("left", "%s", text)
	}
}

func lengthOf(ms int64) string {
	if ms < 0 {
		return "ever"
	}
	d := time.Duration(ms) * time.Millisecond
	if d > time.Second {
		d = (d + time.Second - 1).Truncate(time.Second)
	}
	return d.String()
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func each(all []string, of func(string) string) []string {
	all = slices.Clone(all)
	for i, one := range all {
		all[i] = of(one)
	}
	return all
}

func pair(e Entry) string { return shown(e.Key) + "=" + shown(e.Value) }

// longestShown bounds what a line shows of a text that a client may have chosen.
const longestShown = 400

// shown is text as a line can hold it: a long one cut, and one with other than printable characters as redis-cli quotes
// it.
func shown(text string) string {
	rest := ""
	if len(text) > longestShown {
		rest = fmt.Sprintf("... (%d bytes)", len(text))
		text = text[:longestShown]
		for n := 0; n < utf8.UTFMax && !utf8.ValidString(text[max(len(text)-utf8.UTFMax, 0):]); n++ { // not in the midst of a character
			text = text[:len(text)-1]
		}
	}
	for _, c := range text {
		if !quote.IsPlain(c) || c == utf8.RuneError {
			return quote.CLI(text) + rest
		}
	}
	return text + rest
}
