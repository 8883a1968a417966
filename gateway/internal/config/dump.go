package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Dump writes a line for each rule, as envoyproxy/ratelimit does at /rlconfig. What its files cannot say comes behind
// that.
func (c *Config) Dump(w io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(c.Domains)) {
		c.Domains[name].root.dump(w)
	}
}

func (n *node) dump(w io.Writer) {
	if n.rule != nil {
		fmt.Fprintln(w, n.rule.line())
	}
	for _, key := range slices.Sorted(maps.Keys(n.children)) {
		n.children[key].dump(w)
	}
}

func (rule *Rule) line() string {
	first := Shown{}
	if len(rule.Shown) > 0 {
		first = rule.Shown[0]
	}
	unit := rls.RateLimitResponse_RateLimit_Unit_name[int32(first.Unit)]
	line := fmt.Sprintf("%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t", rule.path, unit, first.Requests, rule.Shadow, rule.Quota)
	if words := rule.Words(); words != rule.upstreams() {
		line += ", limits: " + words
	}
	if rule.Ban > 0 {
		line += ", ban: " + rule.BanWords()
	}
	if rule.Policy != "" {
		line += ", policy: " + rule.Policy
	}
	return strings.Map(func(c rune) rune { // a key of the file may hold a line feed
		if c < ' ' || c == 0x7f {
			return '_'
		}
		return c
	}, line)
}

// upstreams is what Words says of a rule that upstream's files can have, too.
func (rule *Rule) upstreams() string {
	if rule.Unlimited || len(rule.Shown) != 1 || rule.Shown[0].Unit == 0 {
		return ""
	}
	limits, _, err := limitOf(fixed, rule.Shown[0].Requests, rule.Shown[0].Unit, 1)
	if err != nil {
		return ""
	}
	if rule.Shadow {
		limits[0] = limits[0].Shadow()
	}
	return limits.String()
}

// BanWords are how the file bans, such as "BAN 1h0m0s AFTER 10/1h"; "" if it does not.
func (rule *Rule) BanWords() string {
	switch {
	case rule.Ban == 0:
		return ""
	case rule.BanAfter == "":
		return "BAN " + rule.Ban.String()
	}
	return "BAN " + rule.Ban.String() + " AFTER " + rule.BanAfter
}
