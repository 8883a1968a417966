package config

import (
	"maps"
	"regexp"
	"slices"
	"sync"

	"go.yaml.in/yaml/v4"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/policies"
)

// policyName is what the name of a policy looks like.
var policyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// policy reads the name of a policy.
func (r *reader) policy(n *yaml.Node) string {
	name := r.text(n)
	if n != nil && !policyName.MatchString(name) {
		r.fail(resolve(n), "policy: %q is no name of a policy: expected 1 to 64 of A-Z a-z 0-9 . _ -", name)
		return ""
	}
	return name
}

// Policies are the names of the policies that rules of the domain have.
func (d *Domain) Policies() []string {
	names := map[string]bool{}
	d.root.policies(names)
	return slices.Sorted(maps.Keys(names))
}

func (n *node) policies(to map[string]bool) {
	if n.rule != nil && n.rule.Policy != "" {
		to[n.rule.Policy] = true
	}
	for _, child := range n.children {
		child.policies(to)
	}
}

// forced are the rules that fields of the hash made of one of the file.
type forced struct {
	mu sync.Mutex
	by map[string]made // fields
}

type made struct {
	value string
	rule  *Rule
}

// mostForced bounds the rules that are kept of fields that may be gone.
const mostForced = 20_000

// By is the rule with what a field of the hash says instead of its own limits, or the rule itself where that is not for
// it. As long as the field says the same it is the same rule, and told is called once.
func (rule *Rule) By(of *policies.Rule, told func(field string, err error)) *Rule {
	rule.forced.mu.Lock()
	defer rule.forced.mu.Unlock()
	if known, ok := rule.forced.by[of.Field]; ok && known.value == of.Text {
		return known.rule
	}
	by, err := rule.by(of)
	if err != nil {
		told(of.Field, err)
		by = rule
	}
	if rule.forced.by == nil || len(rule.forced.by) >= mostForced {
		rule.forced.by = map[string]made{}
	}
	rule.forced.by[of.Field] = made{of.Text, by}
	return by
}

func (rule *Rule) by(of *policies.Rule) (*Rule, error) {
	by := *rule
	by.Field, by.file, by.forced = of.Field, rule, nil
	by.Limits, by.Shadows, by.Shown, by.Policies = nil, nil, nil, nil
	if by.None = of.None; of.None {
		by.Unlimited, by.Ban, by.BanAfter = true, 0, ""
		return &by, nil
	}
	call, err := of.Apply(ratelimit.Call{Keys: []ratelimit.Key{{Limits: rule.Limits}}, Ban: rule.Ban, BanAfter: rule.BanAfter})
	if err != nil {
		return nil, err
	}
	by.Limits, by.Ban, by.BanAfter = slices.Clone(call.Keys[0].Limits), call.Ban, call.BanAfter
	for _, l := range by.Limits {
		by.Shown = append(by.Shown, shownOf(l))
	}
	return &by, by.finish(rule.Policy)
}

// Unfit is why a field of the hash is not for the rule; nil if it is.
func (rule *Rule) Unfit(of *policies.Rule) error {
	_, err := rule.by(of)
	return err
}

// File is the rule as the file has it.
func (rule *Rule) File() *Rule {
	if rule.file != nil {
		return rule.file
	}
	return rule
}
