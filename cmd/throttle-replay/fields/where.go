package fields

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"redis-throttle/cmd/throttle-replay/logs"
)

// Where are conditions on requests, all of which have to hold for one that counts.
type Where []condition

// condition is one of them, such as path ~ ^/api.
type condition struct {
	field   string
	negated bool
	holds   func(value []byte) bool
	text    string
}

// comparison is how a condition is written.
var comparison = regexp.MustCompile(`(?s)^\s*([^\s=!~<>]+)\s*(=|!=|~|!~|<=|>=|<|>|(?:\s(?:!?in))\s)\s*(.*?)\s*$`)

// ParseWhere reads conditions.
//
//	path ~ ^/api/       the field matches a regular expression (Go's RE2); !~ does not
//	method = POST       it is this text; != is not
//	status >= 500       it is a number; also <, <=, >
//	remote_addr in 10.0.0.0/8, 192.168.0.0/16    it is an address of these networks; !in is not
func ParseWhere(texts []string) (all Where, err error) {
	for _, text := range texts {
		c, err := parseCondition(text)
		if err != nil {
			return nil, fmt.Errorf("--where %q: %w", text, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// Texts are the conditions as they were written.
func (w Where) Texts() (all []string) {
	for _, c := range w {
		all = append(all, c.text)
	}
	return all
}

func parseCondition(text string) (condition, error) {
	m := comparison.FindStringSubmatch(text)
	if m == nil {
		return condition{}, fmt.Errorf("expected a field, one of = != ~ !~ < <= > >= in !in, and a value, such as: path ~ ^/api/")
	}
	operator, value := strings.TrimSpace(m[2]), m[3]
	c := condition{field: m[1], text: text}
	if rest, ok := strings.CutPrefix(operator, "!"); ok {
		c.negated, operator = true, rest
	}
	switch operator {
	case "=":
		c.holds = func(have []byte) bool { return string(have) == value }
	case "~":
		expression, err := regexp.Compile(value)
		if err != nil {
			return c, err
		}
		c.holds = expression.Match
	case "in":
		networks, err := ParseNetworks(strings.Split(value, ","))
		if err != nil {
			return c, err
		}
		c.holds = func(have []byte) bool { return isWithin(networks, have) }
	default:
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return c, fmt.Errorf("%s compares with a number, which %q is not", operator, value)
		}
		c.holds = func(have []byte) bool { return compares(operator, have, number) }
	}
	return c, nil
}

// compares is false for what is no number.
func compares(operator string, have []byte, number float64) bool {
	n, err := strconv.ParseFloat(string(bytes.TrimSpace(have)), 64)
	if err != nil {
		return false
	}
	switch operator {
	case "<":
		return n < number
	case "<=":
		return n <= number
	case ">":
		return n > number
	}
	return n >= number
}

// ParseNetworks reads networks, such as 10.0.0.0/8, and addresses.
func ParseNetworks(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		text = strings.TrimSpace(text)
		network, err := netip.ParsePrefix(text)
		if err != nil {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("%q: expected a network, such as 10.0.0.0/8", text)
			}
			network = netip.PrefixFrom(addr, addr.BitLen())
		}
		all = append(all, network)
	}
	return all, nil
}

func isWithin(networks []netip.Prefix, text []byte) bool {
	addr, err := netip.ParseAddr(string(text))
	if err != nil {
		port, err := netip.ParseAddrPort(string(text))
		if err != nil {
			return false
		}
		addr = port.Addr()
	}
	addr = addr.Unmap().WithZone("")
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// Bind has a layout read what the conditions are about.
func (w Where) Bind(l logs.Layout) (BoundWhere, error) {
	b := BoundWhere{all: w}
	for _, c := range w {
		at, err := wants(l, "--where", c.field)
		if err != nil {
			return b, err
		}
		b.fields = append(b.fields, at)
	}
	return b, nil
}

// BoundWhere tells which records of one layout count.
type BoundWhere struct {
	all    Where
	fields []int
}

// Holds reports whether a record counts.
func (w *BoundWhere) Holds(r *logs.Record) bool {
	for i := range w.all {
		if c := &w.all[i]; c.holds(r.Fields[w.fields[i]]) == c.negated {
			return false
		}
	}
	return true
}
