package service

import (
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"redis-throttle/gateway/internal/decide"
	"redis-throttle/gateway/internal/explain"
)

// ruleField tells which rule decided, whoever has the token of EXPLAIN_TOKEN.
const ruleField = "X-Throttle-Rule"

// noRule is its value where no rule applies.
const noRule = "none"

// setAside takes the descriptors with a token out of a request, whatever token that is: they limit nothing, and are no
// quotas that are not over. told says that one of the tokens is right.
func (s *Service) setAside(request *rls.RateLimitRequest, asks []decide.Ask) (told bool) {
	if !s.token.IsSet() {
		return false
	}
	for i, d := range request.GetDescriptors() {
		if explain.BringsToken(d) {
			asks[i] = decide.Ask{Refund: true} // of nothing
			told = told || s.token.Is(d.Entries[0].GetValue())
		}
	}
	return told
}

// ruleOf is the value of ruleField: a string of structured fields (RFC 9651) with parameters, such as
// "web.login";outcome=denied;by=server.
func ruleOf(o *outcome) string {
	at := -1
	if len(o.Statuses) > 0 {
		at = o.Decides(o.asks)
	}
	if at < 0 {
		return noRule
	}
	rule, s := o.asks[at].Rule, &o.Statuses[at]
	result := "allowed"
	switch {
	case o.Over:
		result = "denied"
	case s.Over:
		result = "shadowed"
	case rule.Unlimited:
		result = "unlimited"
	}
	value := quotedField(rule.String()) + ";outcome=" + result
	if o.Result.By != "" {
		value += ";by=" + o.Result.By
	}
	if names := rule.Names(); s.Known && s.Limit < len(names) && names[s.Limit] != rule.String() {
		value += ";limit=" + quotedField(names[s.Limit])
	}
	if rule.Field != "" {
		value += ";policy=" + quotedField(rule.Field)
	}
	return value
}

// longestName bounds each name in a field, in bytes.
const longestName = 200

// quotedField is text as a string of structured fields: what these cannot hold is _.
func quotedField(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(text[:min(len(text), longestName)]) {
		switch {
		case c < ' ' || c > '~':
			b.WriteByte('_')
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
