// Package offline decides requests by the files of the gateway, without a gateway and without Redis: on keys in memory,
// at instants that the caller names. It is what throttle-replay tries such files on a log with. Files, descriptors and
// decisions are those of the gateway.
//
// Batches are left out, by which a gateway takes units in advance: each request takes its own.
package offline

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/policies"
)

// Entry is a part of a descriptor.
type Entry = config.Entry

// Never is the RetryAfter of a request that no wait makes possible.
const Never = ratelimit.Never

// Domain is the rules of one domain, and the state of all its keys. It is not safe for concurrent use.
type Domain struct {
	// Name comes from the file. Doubts are what is no mistake in it, but hardly what its author wanted.
	Name   string
	Doubts []string

	domain  *config.Domain
	memory  *memory
	decider decide.Decider
}

// Outcome is what came of a request.
type Outcome struct {
	// Denied says that the gateway would have answered with status 429.
	Denied bool
	// RetryAfter is until the same request would have been let through if nobody else asked, or Never.
	RetryAfter time.Duration
	// Rules are those that the request was subject to; none if no rule applies to it.
	Rules []RuleOutcome
}

// RuleOutcome is what one rule said.
type RuleOutcome struct {
	Rule       string // with the field of the hash by which its limits are, if they are not those of the file
	Limits     string // as the file or the hash has them
	Denied     bool   // it is over its limit
	Shadow     bool   // it denies nothing
	RetryAfter time.Duration
}

// Read reads files, and the files in folders. With "" for a name it takes the only domain, or the only one with routes.
// All mistakes are reported at once.
func Read(name string, paths ...string) (*Domain, error) {
	c, err := config.ReadOnce(paths...).Parse(true)
	if err != nil {
		return nil, err
	}
	domain, err := choose(c, name)
	if err != nil {
		return nil, err
	}
	m := &memory{}
	m.limiter = ratelimit.New(m, ratelimit.Options{})
	return &Domain{
		Name: domain.Name, Doubts: c.Doubts, domain: domain, memory: m,
		decider: decide.Decider{Redis: m, Lost: func(int64, error) {}},
	}, nil
}

func choose(c *config.Config, name string) (*config.Domain, error) {
	var names []string
	var only, routed []*config.Domain
	for _, d := range c.Domains {
		names, only = append(names, d.Name), append(only, d)
		if d.Routes != nil {
			routed = append(routed, d)
		}
	}
	slices.Sort(names)
	switch {
	case name != "" && c.Domains[name] == nil:
		return nil, fmt.Errorf("there is no domain %q: there are %s", name, strings.Join(names, ", "))
	case name != "":
		return c.Domains[name], nil
	case len(only) == 1:
		return only[0], nil
	case len(routed) == 1:
		return routed[0], nil
	}
	return nil, fmt.Errorf("which domain? There are %s", strings.Join(names, ", "))
}

// Policies are the names of the policies of the domain's rules.
func (d *Domain) Policies() []string { return d.domain.Policies() }

// SetPolicies has requests from now on decided by what a hash says of policies. told is called with each field that
// cannot take the place of a rule's limits, and why.
func (d *Domain) SetPolicies(rules *policies.Rules, told func(field string, err error)) {
	d.decider.InForce = func(_ context.Context, rule *config.Rule, key string) *config.Rule {
		return decide.By(rules, rule, key, told)
	}
}

// HasRoutes reports whether the file says which descriptors a request has.
func (d *Domain) HasRoutes() bool { return d.domain.Routes != nil }

// Headers are the names of the header fields that routes read.
func (d *Domain) Headers() []string {
	if d.domain.Routes == nil {
		return nil
	}
	return d.domain.Routes.Headers
}

// Request returns a request as the gateway sees it that a proxy asks about. peer is an address, target the path with
// the query.
func Request(method, host, target, peer string, header http.Header) *http.Request {
	return &http.Request{Method: method, Host: host, URL: config.Target(target), RequestURI: target, RemoteAddr: peer, Header: header}
}

// DecideRequest decides a request by the routes of the file, as /check does.
func (d *Domain) DecideRequest(nowNs int64, q *http.Request) (Outcome, error) {
	if d.domain.Routes == nil {
		return Outcome{}, fmt.Errorf("the domain %q has no routes", d.Name)
	}
	return d.decide(nowNs, decide.AsksOf(d.domain, q))
}

// DecideDescriptors decides a request with descriptors, as the Rate Limit Service does.
func (d *Domain) DecideDescriptors(nowNs int64, descriptors [][]Entry, hits int64) (Outcome, error) {
	asks := make([]decide.Ask, len(descriptors))
	for i, entries := range descriptors {
		asks[i] = decide.Ask{Match: d.domain.Match(entries), Hits: hits}
	}
	return d.decide(nowNs, asks)
}

func (d *Domain) decide(nowNs int64, asks []decide.Ask) (o Outcome, err error) {
	if len(asks) == 0 {
		return o, nil
	}
	d.memory.nowNs = nowNs
	verdict, err := d.decider.Decide(context.Background(), d.domain, asks)
	if err != nil {
		return o, err
	}
	o.Denied = verdict.Over
	for i, s := range verdict.Statuses {
		rule := asks[i].Rule
		if rule == nil {
			continue
		}
		name := rule.String()
		if rule.Field != "" {
			name += " by " + rule.Field
		}
		o.Rules = append(o.Rules, RuleOutcome{name, rule.Words(), s.Over, s.Shadow, s.RetryAfter})
		if o.Denied && s.Over && !s.Shadow {
			o.RetryAfter = longer(o.RetryAfter, s.RetryAfter)
		}
	}
	return o, nil
}

func longer(a, b time.Duration) time.Duration {
	if a == Never || b == Never {
		return Never
	}
	return max(a, b)
}

// memory is a Redis that is asked at instants of the caller's.
type memory struct {
	nowNs   int64
	host    embedded.Host
	limiter *ratelimit.Limiter
}

// Of returns the limiter in memory, whatever happens in an outage: there is none. It is of the interface decide.Redis.
func (m *memory) Of(guard.Policy, int64) ratelimit.Decider { return m.limiter }

// Each decides calls one after the other. It is of the interface decide.Redis.
func (m *memory) Each(ctx context.Context, _ guard.Policy, calls []ratelimit.Call) ([]ratelimit.Result, []error) {
	results, errs := make([]ratelimit.Result, len(calls)), make([]error, len(calls))
	for i, call := range calls {
		results[i], errs[i] = m.limiter.Decide(ctx, call)
	}
	return results, errs
}

// Cluster is of decide.Redis.
func (m *memory) Cluster() bool { return false }

// Process runs a command of the Limiter.
func (m *memory) Process(_ context.Context, cmd redis.Cmder) error {
	args := cmd.Args()
	words := make([][]byte, len(args))
	for i, arg := range args {
		words[i] = fmt.Append(nil, arg)
	}
	reply := m.host.Do(embedded.Call{NowNs: m.nowNs, Words: words})
	if reply.Kind == command.ReplyError {
		err := errors.New(reply.Error)
		cmd.SetErr(err)
		return err
	}
	cmd.(interface{ SetVal(any) }).SetVal(reply.Value()) // a Limiter sends nothing but *redis.Cmd
	return nil
}
