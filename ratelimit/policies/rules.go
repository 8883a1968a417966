package policies

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/about"
	"redis-throttle/ratelimit/internal/policyname"
)

// Field is what a field of the hash is about: a policy, or some keys of it.
type Field struct {
	Name string // of the policy
	Keys Scope
	Key  string // the key, or what the keys begin with
}

// Scope says which keys a Field is about.
type Scope int

// The scopes.
const (
	Everybody Scope = iota // name
	OneKey                 // name/key
	Prefix                 // name/prefix*
)

// ParseField reads a field of the hash.
func ParseField(field string) (Field, error) {
	name, key, keyed := strings.Cut(field, "/")
	if !policyname.Valid(name) {
		return Field{}, fmt.Errorf("%q is not the name of a policy", field)
	}
	switch prefix, many := strings.CutSuffix(key, "*"); {
	case !keyed:
		return Field{Name: name}, nil
	case many:
		return Field{Name: name, Keys: Prefix, Key: prefix}, nil
	}
	return Field{Name: name, Keys: OneKey, Key: key}, nil
}

// Rule is a field of the hash that can be read, and its value.
type Rule struct {
	Field string
	Value
	name      string              // of the policy
	applied   []ratelimit.Applied // what it is for a call on one key, of which the code says nothing else
	onlyRates bool                // units of it can be reserved
	throttles bool                // CL.THROTTLE takes it
	shadows   bool                // a limit of it is a rehearsal
	told      sync.Map            // why it is not for some calls
}

func newRule(name, field string, value Value) *Rule {
	rule := &Rule{Field: field, Value: value, name: name, onlyRates: true, throttles: len(value.Limits) == 1}
	rule.applied = []ratelimit.Applied{{Name: name, Field: field, Limits: value.Limits}}
	for i := range value.Limits {
		l := about.Of(&value.Limits[i])
		rule.onlyRates = rule.onlyRates && l.Rate
		rule.shadows = rule.shadows || l.Shadow
		rule.throttles = rule.throttles && l.Rate && l.Count > 0 && !l.Shadow
	}
	return rule
}

// Rules are all that a hash says. They never change, so any number of goroutines may ask them.
type Rules struct {
	policies map[string]*policy
	count    int
}

// policy are the rules of one name.
type policy struct {
	own      *Rule
	exact    map[string]*Rule
	prefixes map[int]map[string]*Rule // by their length
	lengths  []int                    // of prefixes, the longest first
}

// Parse reads a hash. Errors are those of fields that cannot be read, by field; Rules has the others. Fields that begin
// with @ are no policies, and are left out.
func Parse(hash map[string]string) (*Rules, map[string]error) {
	errs := map[string]error{}
	rules := &Rules{policies: map[string]*policy{}}
	for field, text := range hash {
		if isMeta(field) {
			continue
		}
		of, err := ParseField(field)
		if err != nil {
			errs[field] = err
			continue
		}
		value, err := ParseValue(of.Name, text)
		if err != nil {
			errs[field] = err
			continue
		}
		rules.add(of, newRule(of.Name, field, value))
	}
	return rules, errs
}

// isMeta says whether a field is about the hash itself.
func isMeta(field string) bool { return strings.HasPrefix(field, "@") }

func (r *Rules) add(of Field, rule *Rule) {
	p := r.policies[of.Name]
	if p == nil {
		p = &policy{exact: map[string]*Rule{}, prefixes: map[int]map[string]*Rule{}}
		r.policies[of.Name] = p
	}
	r.count++
	switch of.Keys {
	case Everybody:
		p.own = rule
	case OneKey:
		p.exact[of.Key] = rule
	case Prefix:
		length := len(of.Key)
		if p.prefixes[length] == nil {
			p.prefixes[length] = map[string]*Rule{}
			p.lengths = append(p.lengths, length)
			slices.SortFunc(p.lengths, func(a, b int) int { return b - a })
		}
		p.prefixes[length][of.Key] = rule
	}
}

// Len is how many rules there are.
func (r *Rules) Len() int { return r.count }

// Choose is the rule that counts for a key of a policy: that of the exact key, then that of the longest prefix, then
// that of the name. Nil is the default of the code.
func (r *Rules) Choose(name, key string) *Rule {
	if len(r.policies) == 0 {
		return nil
	}
	p := r.policies[name]
	if p == nil {
		return nil
	}
	if rule := p.exact[key]; rule != nil {
		return rule
	}
	for _, length := range p.lengths {
		if length > len(key) {
			continue
		}
		if rule := p.prefixes[length][key[:length]]; rule != nil {
			return rule
		}
	}
	return p.own
}
