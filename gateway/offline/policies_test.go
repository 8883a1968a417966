package offline_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gateway/offline"
	"redis-throttle/ratelimit/policies"
)

// Which limits are in force, and what comes of them: each case is a rule of a file, a hash, and requests at one
// instant. A request is its descriptors, and the outcome is ok or denied, with what each rule says.
func TestPoliciesOfTheHashTakeThePlaceOfLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, descriptors string
		hash              map[string]string
		requests          []string // "key=value key=value, key=value -> outcome"
		told              string
	}{
		{"nothing is set", "- {key: user, policy: api, limits: [FIXED 1/y]}", nil, []string{
			"user=1 -> ok; d.user FIXED 1/1y", "user=1 -> denied; d.user FIXED 1/1y!"}, ""},
		{"a rule without a policy is left alone", "- {key: user, limits: [FIXED 1/y]}", map[string]string{"api": "FIXED 2/y", "user": "FIXED 2/y"}, []string{
			"user=1 -> ok; d.user FIXED 1/1y", "user=1 -> denied; d.user FIXED 1/1y!"}, ""},
		{"for everybody, some and one, by the value of the last entry", "- {key: plan, descriptors: [{key: user, policy: api, limits: [FIXED 1/y]}]}",
			map[string]string{"api": "FIXED 2/y", "api/vip:*": "FIXED 3/y", "api/vip:7": "FIXED 0/y", "api/a": "FIXED 9/y"}, []string{
				"plan=a user=1 -> ok; d.plan.user by api FIXED 2/1y", "plan=a user=vip:1 -> ok; d.plan.user by api/vip:* FIXED 3/1y",
				"plan=a user=vip:7 -> denied; d.plan.user by api/vip:7 FIXED 0/1y!"}, ""},
		{"units that were taken stay taken", "- {key: user, policy: api, limits: [FIXED 2/y]}", map[string]string{"api/1": "FIXED 1/y"}, []string{
			"user=1 -> ok; d.user by api/1 FIXED 1/1y", "user=1 -> denied; d.user by api/1 FIXED 1/1y!"}, ""},
		{"another number of limits", "- {key: user, policy: api, limits: [FIXED 1/y]}", map[string]string{"api": "FIXED 9/y fixed 1/mo"}, []string{
			"user=1 -> ok; d.user by api FIXED 9/1y; FIXED 1/1mo", "user=1 -> denied; d.user by api FIXED 9/1y; FIXED 1/1mo!"}, ""},
		{"NONE", "- {key: user, policy: api, limits: [FIXED 0/y]}", map[string]string{"api": "NONE"}, []string{"user=1 -> ok; d.user by api NONE"}, ""},
		{"NONE beside another rule", "- {key: user, policy: api, limits: [FIXED 0/y]}\n- {key: address, limits: [FIXED 1/y]}", map[string]string{"api": "NONE"}, []string{
			"user=1, address=1 -> ok; d.user by api NONE; d.address FIXED 1/1y", "user=1, address=1 -> denied; d.user by api NONE; d.address FIXED 1/1y!"}, ""},
		{"shadow_mode stays", "- {key: user, policy: api, shadow_mode: true, limits: [FIXED 9/y]}", map[string]string{"api": "FIXED 0/y"}, []string{
			"user=1 -> ok; d.user by api FIXED 0/1y SHADOW!"}, ""},
		{"a rehearsal", "- {key: user, policy: api, limits: [FIXED 9/y]}", map[string]string{"api": "FIXED 9/y FIXED 0/y SHADOW"}, []string{
			"user=1 -> ok; d.user by api FIXED 9/1y; FIXED 0/1y SHADOW"}, ""},
		{"a quota with NONE is never over", "- {key: a, policy: api, quota_mode: true, limits: [FIXED 0/y]}\n- {key: b, quota_mode: true, limits: [FIXED 0/y]}",
			map[string]string{"api": "NONE"}, []string{"b=1 -> denied; d.b FIXED 0/1y!", "a=1, b=1 -> ok; d.a by api NONE; d.b FIXED 0/1y!"}, ""},
		{"beside a quota with NONE, one that is over denies nothing, and the rest is charged",
			"- {key: a, policy: api, quota_mode: true, limits: [FIXED 0/y]}\n- {key: b, quota_mode: true, limits: [FIXED 0/y]}\n- {key: c, limits: [FIXED 1/y]}",
			map[string]string{"api": "NONE"}, []string{"a=1, b=1, c=1 -> ok; d.a by api NONE; d.b FIXED 0/1y!; d.c FIXED 1/1y", "c=1 -> denied; d.c FIXED 1/1y!"}, ""},
		{"a ban of the hash", "- {key: user, policy: api, limits: [FIXED 9/y]}", map[string]string{"api/1": "FIXED 0/y BAN 1h", "api": "FIXED 9/y"}, []string{
			"user=1 -> denied; d.user by api/1 FIXED 0/1y!", "user=2 -> ok; d.user by api FIXED 9/1y"}, ""},
		{"all values of a wildcard have one state, and one policy", "- {key: path, value: /a/*, share_threshold: true, policy: api, limits: [FIXED 9/y]}",
			map[string]string{"api//a/*": "FIXED 1/y", "api//a/1": "FIXED 5/y"}, []string{
				"path=/a/1 -> ok; d.path_/a/* by api//a/* FIXED 1/1y", "path=/a/2 -> denied; d.path_/a/* by api//a/* FIXED 1/1y!"}, ""},
		{"descriptors of one key take their units together", "- {key: user, policy: api, limits: [FIXED 9/y]}", map[string]string{"api": "FIXED 3/y"}, []string{
			"user=1, user=1 -> ok; d.user by api FIXED 3/1y; d.user by api FIXED 3/1y",
			"user=1, user=1 -> denied; d.user by api FIXED 3/1y!; d.user by api FIXED 3/1y!"}, ""},
		{"the limits of the file keep their reserve", "- {key: user, policy: api, limits: [FIXED 9/y SPARE 1]}", map[string]string{"api": "FIXED 2/y"}, []string{
			"user=1 -> ok; d.user by api FIXED 2/1y SPARE 1", "user=1 -> denied; d.user by api FIXED 2/1y SPARE 1!"}, ""},
		{"reserves that a policy cannot have: the limits of the file count", "- {key: user, policy: api, limits: [FIXED 9/y SPARE 1, FIXED 9/mo]}",
			map[string]string{"api": "FIXED 0/y"}, []string{"user=1 -> ok; d.user FIXED 9/1y SPARE 1; FIXED 9/1mo", "user=1 -> ok; d.user FIXED 9/1y SPARE 1; FIXED 9/1mo"}, "api"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, err := offline.Read("", file(t, "domain: d\ndescriptors:\n"+c.descriptors+"\n"))
			require.NoError(t, err)
			rules, errs := policies.Parse(c.hash)
			require.Empty(t, errs)
			var told []string
			d.SetPolicies(rules, func(field string, err error) { told = append(told, field) })
			for _, request := range c.requests {
				asked, want, _ := strings.Cut(request, " -> ")
				assert.Equal(t, want, outcome(t, d, asked), asked)
			}
			assert.Equal(t, c.told, strings.Join(told, " "), "once")
		})
	}
}

// outcome decides a request and writes what came of it.
func outcome(t *testing.T, d *offline.Domain, asked string) string {
	t.Helper()
	var descriptors [][]offline.Entry
	for text := range strings.SplitSeq(asked, ", ") {
		var entries []offline.Entry
		for word := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(word, "=")
			entries = append(entries, offline.Entry{Key: key, Value: value})
		}
		descriptors = append(descriptors, entries)
	}
	o, err := d.DecideDescriptors(start, descriptors, 1)
	require.NoError(t, err)
	text := "ok"
	if o.Denied {
		text = "denied"
	}
	for _, rule := range o.Rules {
		text += "; " + rule.Rule + " " + rule.Limits
		if rule.Denied {
			text += "!"
		}
	}
	return text
}

func TestTheNamesOfTheFilesPolicies(t *testing.T) {
	t.Parallel()
	d, err := offline.Read("", file(t, "domain: d\ndescriptors:\n- {key: a, policy: x, limits: [RATE 1/s], descriptors: [{key: b, policy: api, limits: [RATE 1/s]}]}\n- {key: c, limits: [RATE 1/s]}\n"))
	require.NoError(t, err)
	assert.Equal(t, []string{"api", "x"}, d.Policies())
}
