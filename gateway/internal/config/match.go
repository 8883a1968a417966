package config

import (
	"strconv"
	"strings"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/keyby"
)

// Entry is a part of a descriptor of a request.
type Entry struct{ Key, Value string }

// Match is the rule of a descriptor.
type Match struct {
	Rule *Rule
	// Key is where Redis keeps its state. Tag is the part of it that picks the slot in a cluster.
	Key, Tag string
	// Path names it in metrics: at most two levels, as upstream's do.
	Path [2]string
}

// Match finds the rule of a descriptor: at each level that of its value, then that of a wildcard, then that of its key alone.
// The descriptor needs as many entries as there are levels. Rule is nil if there is none.
func (d *Domain) Match(entries []Entry) Match {
	at := &d.root
	var way [8]step
	steps := way[:0]
	for i := range entries {
		s := at.step(&entries[i])
		if s.node == nil {
			return Match{}
		}
		steps, at = append(steps, s), s.node
		if i < len(entries)-1 && len(at.children) == 0 {
			return Match{}
		}
	}
	if len(steps) == 0 || at.rule == nil {
		return Match{}
	}
	m := Match{Rule: at.rule}
	m.Key, m.Tag = d.key(entries, steps)
	for i := range min(len(steps), len(m.Path)) {
		m.Path[i] = steps[i].metric(&entries[i], at.rule.detailed)
	}
	return m
}

// step is how an entry was matched.
type step struct {
	node  *node
	exact bool // by its value
}

func (n *node) step(e *Entry) step {
	var buffer [128]byte
	whole := append(append(append(buffer[:0], e.Key...), '_'), e.Value...)
	if child := n.children[string(whole)]; child != nil {
		return step{child, true}
	}
	if len(n.wildcards) > 0 {
		text := string(whole)
		for _, child := range n.wildcards {
			if matches(child.parts, text) {
				return step{child, false}
			}
		}
	}
	return step{n.children[e.Key], false}
}

// matches says whether text is parts with anything between them.
func matches(parts []string, text string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	rest := text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return true
}

// metric is what metrics call an entry. With detailed it holds the value, which the file may not list.
func (s step) metric(e *Entry, detailed bool) string {
	switch {
	case s.node.share:
		return s.node.key
	case s.exact, !detailed && !s.node.valueToMetric:
		return s.node.key
	case e.Value == "":
		return e.Key
	}
	return e.Key + "_" + e.Value
}

// pattern is the value of an entry whose state is shared by all that the wildcard matches.
func (s step) pattern(e *Entry) string {
	if s.node.share && s.node.parts != nil && !s.exact {
		return strings.TrimPrefix(s.node.key, e.Key+"_")
	}
	return e.Value
}

// longest is how long a value in a key can be. A longer one is hashed, so that clients do not fill the memory of Redis.
const longest = 200

// key is {DOMAIN|KEY=VALUE}|KEY=VALUE..., where the part in braces picks the slot.
func (d *Domain) key(entries []Entry, steps []step) (key, tag string) {
	var buffer [512]byte
	b := appendPlain(buffer[:0], d.Name)
	tagged := -1
	for i := range entries {
		if d.tag == "" || (d.tag != hashTagDomain && entries[i].Key == d.tag) {
			tagged = i
			break
		}
	}
	value := func(i int) string {
		if steps == nil {
			return entries[i].Value
		}
		return steps[i].pattern(&entries[i])
	}
	if tagged >= 0 {
		b = appendEntry(b, entries[tagged].Key, value(tagged))
	}
	tag = string(b)
	b = append(append(append(buffer[:0], '{'), tag...), '}')
	for i := range entries {
		if i != tagged {
			b = appendEntry(b, entries[i].Key, value(i))
		} else if i > 0 { // which of the entries is in the tag tells keys apart
			b = append(b, "|="...)
		}
	}
	return string(b), tag
}

// hashTagDomain has all keys of a domain in one slot.
const hashTagDomain = "domain"

func appendEntry(b []byte, key, value string) []byte {
	b = append(appendPlain(append(b, '|'), key), '=')
	return appendPlain(b, value)
}

// appendPlain appends text without the characters that separate the parts of a key.
func appendPlain(b []byte, text string) []byte {
	text = keyby.Shorten(longest, text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '%' || c == '|' || c == '=' || c == '{' || c == '}' || c < ' ' || c == 0x7f:
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

// Override is the match of a descriptor that brings its own limit, which is not shared with the file's.
func (d *Domain) Override(entries []Entry, requests uint32, unit Unit) (Match, error) {
	rule := &Rule{path: d.Name, Shown: []Shown{{Requests: requests, Unit: unit}}}
	if requests == 0 {
		rule.Blocked = true
	} else {
		rule.Limits = named(ratelimit.Limits{limitOf(d.kind, int64(requests), unit)}, "request")
		if err := rule.Limits.Validate(); err != nil {
			return Match{}, err
		}
		rule.Shadows = ratelimit.Limits{rule.Limits[0].Shadow()}
		rule.Policies, _ = httplimit.NewPolicies(rule.Limits)
	}
	m := Match{Rule: rule}
	m.Key, m.Tag = d.key(entries, nil)
	m.Key += "|" + strconv.Itoa(int(unit))
	for i := range min(len(entries), len(m.Path)) {
		m.Path[i] = entries[i].Key // its value is the client's
	}
	return m, nil
}

// named gives limits the name of their rule, in the characters that header fields can hold.
func named(limits ratelimit.Limits, name string) ratelimit.Limits {
	plain := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '_'
		}
		return c
	}, name)
	all := make(ratelimit.Limits, len(limits))
	for i := range limits {
		text := limits[i : i+1].String()
		switch {
		case strings.Contains(text, " NAME "):
			all[i] = limits[i]
		case len(limits) == 1:
			all[i] = limits[i].Named(plain)
		default:
			all[i] = limits[i].Named(plain + "-" + strconv.Itoa(i+1))
		}
	}
	return all
}
