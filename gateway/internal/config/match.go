package config

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"redis-throttle/ratelimit/keyby"
)

// Entry is a part of a descriptor of a request.
type Entry struct {
	Key, Value string
	// address is that of a client whose Value is a network, since it has all addresses of that: networks of the file
	// hold the address.
	address netip.Addr
}

// Match is the rule of a descriptor.
type Match struct {
	Rule *Rule
	// Key is where Redis keeps its state. Tag is the part of it that picks the slot in a cluster.
	Key, Tag string
	// Value is what overrides of the rule's policy call the key: the value of the last entry.
	Value string
	// Path names it in metrics: at most two levels, as upstream's do. Open says that a client can choose a part of it.
	Path [2]string
	Open bool
}

// Match finds the rule of a descriptor: at each level that of its value, then that of the smallest network that
// holds it, then that of a wildcard, then that of its key alone.
// The descriptor needs as many entries as there are levels. Rule is nil if there is none.
func (d *Domain) Match(entries []Entry) Match {
	var buffer [8]*node
	way, at := d.walk(entries, buffer[:0])
	if at == nil || at.rule == nil {
		return Match{}
	}
	m := Match{Rule: at.rule}
	m.Key, m.Tag = d.key(entries, way)
	if at.rule.Policy != "" {
		m.Value = at.shared(&entries[len(entries)-1])
	}
	for i := range min(len(way), len(m.Path)) {
		m.Path[i] = way[i].metric(&entries[i], at.rule.detailed)
		m.Open = m.Open || m.Path[i] != way[i].key
	}
	return m
}

// walk appends the nodes that entries lead to, level by level, as far as there are any. at is that of the last entry,
// nil if there is none.
func (d *Domain) walk(entries []Entry, way []*node) (all []*node, at *node) {
	at = d.root
	for i := range entries {
		if at = at.next(&entries[i]); at == nil {
			break
		}
		way = append(way, at)
	}
	return way, at
}

// next is the node below n that an entry leads to.
func (n *node) next(e *Entry) *node {
	var buffer [128]byte
	whole := append(append(append(buffer[:0], e.Key...), '_'), e.Value...)
	if !e.address.IsValid() { // otherwise the value is a network, and may not be the smallest
		if child := n.children[string(whole)]; child != nil {
			return child
		}
	}
	if child := n.networks.smallest(e); child != nil {
		return child
	}
	if len(n.wildcards) > 0 {
		text := string(whole)
		for _, child := range n.wildcards {
			if matches(child.parts, text) {
				return child
			}
		}
	}
	return n.children[e.Key]
}

// matches says whether text is parts with anything between them.
func matches(parts []string, text string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return text == first
	}
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
func (n *node) metric(e *Entry, detailed bool) string {
	switch {
	case n.share, !detailed && !n.valueToMetric:
		return n.key
	case e.Value == "":
		return e.Key
	}
	return e.Key + "_" + e.Value
}

// longest is how long a value in a key can be. A longer one is hashed, so that clients do not fill the memory of Redis.
const longest = 200

// key is {DOMAIN|KEY=VALUE}|KEY=VALUE..., where the part in braces picks the slot. Way are the nodes of the entries, if
// they have any.
func (d *Domain) key(entries []Entry, way []*node) (key, tag string) {
	tagged := slices.IndexFunc(entries, func(e Entry) bool { return d.tag == "" || (d.tag != hashTagDomain && d.tag == e.Key) })
	var buffer [512]byte
	b := appendPlain(append(buffer[:0], '{'), d.Name)
	appendEntry := func(i int) {
		value := entries[i].Value
		if i < len(way) {
			value = way[i].shared(&entries[i])
		}
		b = append(appendPlain(append(b, '|'), entries[i].Key), '=')
		b = appendPlain(b, value)
	}
	if tagged >= 0 {
		appendEntry(tagged)
	}
	ends := len(b)
	b = append(b, '}')
	for i := range entries {
		if i != tagged {
			appendEntry(i)
		} else if i > 0 { // which of the entries is in the tag tells keys apart
			b = append(b, "|="...)
		}
	}
	key = string(b)
	return key, key[1:ends]
}

// shared is the value of an entry, or the address, wildcard or network that all values have one state of. A network
// that is a part of the value's is one: the value is also that of clients outside of it.
func (n *node) shared(e *Entry) string {
	if n.share || n.isAddress || (n.inNetwork && e.address.IsValid() && n.isWithin(e.Value)) {
		return strings.TrimPrefix(n.key, e.Key+"_")
	}
	return e.Value
}

// isWithin says whether the network of n is a part of another one.
func (n *node) isWithin(other string) bool {
	whole, ok := networkOf(other)
	return ok && n.network.Bits() > whole.Bits() && whole.Contains(n.network.Addr())
}

// ProbeKey is a key that no descriptor of a file has, to find out whether Redis decides. Those of other n are in other
// slots, if any of the domain's keys may be.
func (d *Domain) ProbeKey(n int) string {
	key, _ := d.key([]Entry{{Key: cmp.Or(d.tag, "throttle-gateway"), Value: "probe" + strconv.Itoa(n)}}, nil)
	return key
}

// hashTagDomain has all keys of a domain in one slot.
const hashTagDomain = "domain"

// appendPlain appends text without the characters that separate the parts of a key.
func appendPlain(b []byte, text string) []byte {
	text = keyby.Shorten(longest, text)
	plain := 0 // where what is appended as it is begins
	for i := range len(text) {
		if c := text[i]; c == '%' || c == '|' || c == '=' || c == '{' || c == '}' || c < ' ' || c == 0x7f {
			b = append(append(b, text[plain:i]...), '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
			plain = i + 1
		}
	}
	return append(b, text[plain:]...)
}

// Override is the match of a descriptor that brings its own limit, which is not shared with the file's. Its key does
// not hold its number: what was charged stays charged when that is raised.
// The limit is requests in each interval of units times unit.
func (d *Domain) Override(entries []Entry, requests uint32, unit Unit, units uint32) (Match, error) {
	limits, shown, err := limitOf(d.kind, requests, unit, units)
	if err != nil {
		return Match{}, err
	}
	rule := &Rule{Limits: limits, Shown: []Shown{shown}}
	if err := rule.finish("request"); err != nil {
		return Match{}, err
	}
	m := Match{Rule: rule, Open: true}
	m.Key, m.Tag = d.key(entries, nil)
	m.Key += "|" + strconv.Itoa(int(unit))
	if units > 1 {
		m.Key += "*" + strconv.FormatUint(uint64(units), 10)
	}
	for i := range min(len(entries), len(m.Path)) {
		m.Path[i] = entries[i].Key // its value is the client's
	}
	return m, nil
}
