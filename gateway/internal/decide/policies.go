package decide

import (
	"redis-throttle/gateway/internal/config"
	"redis-throttle/ratelimit/policies"
)

// By returns the rule that is in force for a key: rule, which has a policy, or what rules say instead. told is called
// once with a field that is not for this rule.
func By(rules *policies.Rules, rule *config.Rule, key string, told func(field string, err error)) *config.Rule {
	if chosen := rules.Choose(rule.Policy, key); chosen != nil {
		return rule.By(chosen, told)
	}
	return rule
}
