// Package field writes the RateLimit header fields of draft-ietf-httpapi-ratelimit-headers-11, structured fields (RFC
// 9651). Their names and their form are here and nowhere else in Go. spec/clients/fields.json has the rules as a table.
package field

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/about"
)

const (
	policyField    = "Ratelimit-Policy" // in the form in which http.Header has them
	rateLimitField = "Ratelimit"
)

// maxInteger is the largest integer of a structured field (RFC 9651, 3.3.1).
const maxInteger = 999_999_999_999_999

// policy is what the fields tell of a limit.
type policy struct {
	name   string
	text   string // the name as an item
	item   string // of RateLimit-Policy
	hidden bool   // a limit with Shadow is none for clients
}

// Policies writes the fields of some limits. What does not change is written once.
type Policies struct {
	policies []policy
	list     string // RateLimit-Policy without a partition key
	repeats  bool   // whether a name is there twice
}

// Valid refuses limits that the server would refuse, and names that a field cannot hold.
func Valid(limits ratelimit.Limits) (*Policies, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	return policiesOf(limits)
}

// policiesOf takes limits whose counts and periods are positive.
func policiesOf(limits ratelimit.Limits) (*Policies, error) {
	p := &Policies{policies: make([]policy, 0, len(limits))}
	for i := range limits {
		limit := about.Of(&limits[i])
		name := Name(limits, i)
		item := httpsfv.NewItem(name)
		text, err := httpsfv.Marshal(item)
		if err != nil {
			return nil, errors.New("ratelimit: the names and units of limits must be printable ASCII")
		}
		quota, seconds := quotaOf(&limit)
		item.Params.Add("q", quota)
		if limit.Unit != "" {
			item.Params.Add("qu", limit.Unit)
		}
		item.Params.Add("w", seconds)
		whole, err := httpsfv.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("ratelimit: %w", err)
		}
		p.repeats = p.repeats || slices.ContainsFunc(p.policies, func(q policy) bool { return q.name == name })
		p.policies = append(p.policies, policy{name: name, text: text, item: whole, hidden: limit.Shadow})
	}
	p.list = p.write("", func(q *policy) string { return q.item })
	return p, nil
}

// Name is what the policy of l[i] is called.
func Name(l ratelimit.Limits, i int) string {
	limit := about.Of(&l[i])
	switch {
	case limit.Name != "":
		return limit.Name
	case limit.Called != "":
		return limit.Called
	case len(l) == 1:
		return "default"
	case i < len(numbered):
		return numbered[i]
	}
	return "limit-" + strconv.Itoa(i+1) // more than the server takes
}

// numbered are the names of limits that have none, for as many as a call may have.
var numbered = [...]string{"limit-1", "limit-2", "limit-3", "limit-4", "limit-5", "limit-6", "limit-7", "limit-8"}

// Apart gives policies names that no other limit of a response has: one that is taken, in h or by an earlier key, gets
// the next number that is free, as in default-2 or limit-3. A nil one, of a key that a policy lets through, stays.
func Apart(h http.Header, policies []*Policies) {
	if len(policies) == 1 && len(h[policyField]) == 0 && (policies[0] == nil || !policies[0].repeats) {
		return
	}
	taken, own := namesIn(h), map[string]bool{}
	for _, p := range policies {
		for i := range p.all() {
			own[p.policies[i].name] = true
		}
	}
	for k, p := range policies {
		renamed := (*Policies)(nil)
		for i, q := range p.all() {
			if taken[q.name] {
				if renamed == nil {
					renamed = &Policies{policies: slices.Clone(p.policies)}
				}
				renamed.policies[i] = q.called(next(q.name, taken, own))
			}
			taken[cmp.Or(renamed, p).policies[i].name] = true
		}
		if renamed != nil {
			renamed.list = renamed.write("", func(q *policy) string { return q.item })
			policies[k] = renamed
		}
	}
}

// all are those of p, none of nil.
func (p *Policies) all() []policy {
	if p == nil {
		return nil
	}
	return p.policies
}

// namesIn are the names of the policies in a header.
func namesIn(h http.Header) map[string]bool {
	names := map[string]bool{}
	list, err := httpsfv.UnmarshalList(h[policyField])
	if err != nil { // somebody else's
		return names
	}
	for _, member := range list {
		if item, ok := member.(httpsfv.Item); ok {
			if name, ok := item.Value.(string); ok {
				names[name] = true
			}
		}
	}
	return names
}

// next is the name with the next number that is free.
func next(name string, taken, own map[string]bool) string {
	stem, number := name, 1
	if i := strings.LastIndexByte(name, '-'); i >= 0 && i+1 < len(name) && name[i+1] != '0' && len(name)-i <= 10 {
		if n, err := strconv.ParseUint(name[i+1:], 10, 32); err == nil {
			stem, number = name[:i], int(n)
		}
	}
	for {
		number++
		if name = stem + "-" + strconv.Itoa(number); !taken[name] && !own[name] {
			return name
		}
	}
}

// called is q by another name.
func (q policy) called(name string) policy {
	text, err := httpsfv.Marshal(httpsfv.NewItem(name))
	if err != nil { // a name is checked when its limit is
		return q
	}
	return policy{name: name, text: text, item: text + strings.TrimPrefix(q.item, q.text), hidden: q.hidden}
}

// Name is what the policy of a limit is called.
func (p *Policies) Name(rule int) string { return p.policies[rule].name }

// Hidden says whether clients are told nothing of a limit.
func (p *Policies) Hidden(rule int) bool { return p.policies[rule].hidden }

// Names lists the policies that clients are told of.
func (p *Policies) Names() (names []string) {
	for _, q := range p.policies {
		if !q.hidden {
			names = append(names, q.name)
		}
	}
	return names
}

// write joins what is to be said of each policy that clients know.
func (p *Policies) write(partition string, say func(*policy) string) (list string) {
	for i := range p.policies {
		q := &p.policies[i]
		if q.hidden {
			continue
		}
		if list != "" {
			list += ", "
		}
		list += say(q) + partition
	}
	return list
}

// AddPolicy adds RateLimit-Policy to what an outer limiter has put there: both fields are lists. partition is of
// Partition. A nil p, of a key that a policy lets through, adds nothing.
func (p *Policies) AddPolicy(h http.Header, partition string) {
	switch {
	case p == nil || p.list == "":
	case partition == "":
		h[policyField] = append(h[policyField], p.list)
	default:
		h[policyField] = append(h[policyField], p.write(partition, func(q *policy) string { return q.item }))
	}
}

// AddLimit adds RateLimit after a decision about these limits: of the one that decided, or of all when none did, as a
// key that is banned has nothing left of any.
func (p *Policies) AddLimit(h http.Header, result *ratelimit.Result, partition string) {
	var text string
	switch {
	case result.Banned:
		text = p.write(partition, func(q *policy) string { return service(q, 0, max(result.NextAfter, result.RetryAfter)) })
	case result.Rule < 0 || result.Rule >= len(p.policies) || p.policies[result.Rule].hidden:
	default:
		text = service(&p.policies[result.Rule], result.Remaining, result.NextAfter) + partition
	}
	if text != "" {
		h[rateLimitField] = append(h[rateLimitField], text)
	}
}

// service is an item of RateLimit: how many units remain (r), and when there is one more (t, seconds). A full limit has
// no t.
func service(q *policy, remaining int64, nextAfter time.Duration) string {
	var buffer [64]byte
	b := append(buffer[:0], q.text...)
	b = strconv.AppendInt(append(b, ";r="...), min(remaining, maxInteger), 10)
	if nextAfter > 0 {
		b = strconv.AppendInt(append(b, ";t="...), CeilSeconds(nextAfter), 10)
	}
	return string(b)
}

// Partition is the parameter pk for a key; "" for nil.
func Partition(key []byte) string {
	if key == nil {
		return ""
	}
	params := httpsfv.NewParams()
	params.Add("pk", key)
	text, err := httpsfv.Marshal(httpsfv.Item{Value: int64(0), Params: params})
	if err != nil {
		return ""
	}
	return text[1:] // without the 0
}

// Nobody says whether no limit decided, during an outage or because a policy lets everything through.
func Nobody(by string) bool { return by == "policy" || by == "none" }

// InForce are the limits that counted for the key of a call at a place: those of a policy (package policies), or its
// own.
func InForce(result *ratelimit.Result, place int, own ratelimit.Limits) ratelimit.Limits {
	if place < 0 || place >= len(result.Policies) || result.Policies[place].Name == "" {
		return own
	}
	return result.Policies[place].Limits
}

// Set adds both fields after a decision on one key, and sets Retry-After if that was a denial with an end. It adds
// nothing about a decision that was made without any limit.
func (p *Policies) Set(h http.Header, result *ratelimit.Result) {
	if Nobody(result.By) {
		return
	}
	p.AddPolicy(h, "")
	p.AddLimit(h, result, "")
	if result.Limited && result.RetryAfter != ratelimit.Never {
		SetRetryAfter(h, result.RetryAfter)
	}
}

// SetRetryAfter sets Retry-After: at least a second. It must not point to before the end of t, and does not: there has
// to be one unit more at least.
func SetRetryAfter(h http.Header, d time.Duration) {
	h["Retry-After"] = []string{strconv.FormatInt(max(CeilSeconds(d), 1), 10)}
}

// CeilSeconds is d in seconds, rounded up.
func CeilSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

// AppendName appends what tells the name and the unit of a limit apart from others.
func AppendName(b []byte, limit *ratelimit.Limit) []byte {
	l := about.Of(limit)
	return strconv.AppendQuote(strconv.AppendQuote(strconv.AppendQuote(b, l.Name), l.Unit), l.Called)
}

// quotaOf is the quota and window to announce: the window is the time in which a full limit gets all its units back, in
// whole seconds, the quota what it gets back in it. So their ratio is the rate, and the quota is never less than the
// capacity. A limit that lets nobody through has a quota of 0.
func quotaOf(limit *about.Limit) (quota, windowSeconds int64) {
	period := big.NewRat(int64(limit.Period.Length), int64(time.Second))
	if limit.Period.MeanSeconds != 0 {
		period = new(big.Rat).Mul(ratOf(limit.Period.Units), ratOf(limit.Period.MeanSeconds))
	}
	if limit.Count == 0 {
		return 0, roundedInteger(period, 1)
	}
	perSecond := new(big.Rat).Quo(ratOf(limit.Count), period)
	windowSeconds = roundedInteger(new(big.Rat).Quo(ratOf(limit.Capacity), perSecond), 1)
	return roundedInteger(new(big.Rat).Mul(ratOf(windowSeconds), perSecond), 0), windowSeconds
}

// roundedInteger is n as a field takes it: a fraction is rounded down, and then up by roundUp.
func roundedInteger(n *big.Rat, roundUp int64) int64 {
	i, fraction := new(big.Int).QuoRem(n.Num(), n.Denom(), new(big.Int))
	if fraction.Sign() != 0 {
		i.Add(i, big.NewInt(roundUp))
	}
	if !i.IsInt64() {
		return maxInteger
	}
	return min(i.Int64(), maxInteger)
}

func ratOf(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }
