package policies

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/field"
	"redis-throttle/ratelimit/internal/policyname"
)

// table is spec/clients/policies.json, which says what it holds.
type table struct {
	Names  struct{ Good, Bad []string }
	Values []struct {
		Value  string
		Limits []tableLimit
		Names  []string
		Ban    string
		After  string `json:"ban_after"`
		None   bool
		Error  *string
	}
	Fields []struct {
		Field, Name string
		Key, Prefix *string
		Error       bool
	}
	Choices struct {
		Hash map[string]string
		Of   []struct {
			Name, Key string
			Field     *string
		}
	}
	Calls []struct {
		Name         string
		Hash         map[string]string
		Call         tableCall
		PassesOn     *tableCall `json:"passes_on"`
		Names        [][]string
		Next, Result *tableResult
		Logs         []string
	}
	Reads []struct {
		Name  string
		Steps []struct {
			Hash   map[string]string
			Counts []struct {
				Name, Key string
				Value     *string
			}
			Logs []string
		}
	}
}

type tableCall struct {
	Verb string
	Keys []struct {
		Name, Policy string
		Limits       []tableLimit
		Slots        int64
		TTL          string
	}
	Cost     int64
	Ban      string
	BanAfter string `json:"ban_after"`
	MaxWait  string `json:"max_wait"`
	Any      bool
	Group    string
	ID       string
}

type tableResult struct {
	Limited   bool
	Key, Rule int
	Limit     int64
	Granted   int64
	By        string
}

type tableLimit struct {
	Kind, Period, Offset, Zone, Name, Unit string
	Count, Spare                           int64
	Burst, Take, Used                      *int64
	First, Shadow                          bool
}

func readTable(t *testing.T) (all table) {
	text, err := os.ReadFile("../../spec/clients/policies.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

// limits are those of the table, written by hand as ratelimit.ParseLimits reads them.
func limits(t *testing.T, all []tableLimit) (limits ratelimit.Limits) {
	for _, l := range all {
		words, err := json.Marshal([]any{l.Count, l.Period})
		require.NoError(t, err)
		text := l.Kind + " " + strings.NewReplacer("[", "", "]", "", ",", "/", `"`, "").Replace(string(words))
		if l.Offset != "" {
			text += " OFFSET " + l.Offset
		}
		if l.Zone != "" {
			text += " TZ " + l.Zone
		}
		parsed, err := ratelimit.ParseLimits(text)
		require.NoError(t, err, text)
		limit := parsed[0].Named(l.Name).Unit(l.Unit)
		if l.Burst != nil {
			limit = limit.Burst(*l.Burst)
		}
		if l.First {
			limit = limit.First()
		}
		if l.Take != nil {
			limit = limit.Take(*l.Take)
		}
		if l.Used != nil {
			limit = limit.Used(*l.Used)
		}
		if l.Spare != 0 {
			limit = limit.Spare(l.Spare)
		}
		if l.Shadow {
			limit = limit.Shadow()
		}
		limits = append(limits, limit)
	}
	return limits
}

// lengthOf reads a length of time of the table.
func lengthOf(t *testing.T, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

func namesOf(limits ratelimit.Limits) (names []string) {
	for i := range limits {
		names = append(names, field.Name(limits, i))
	}
	return names
}

func TestTheNamesOfPolicies(t *testing.T) {
	t.Parallel()
	names := readTable(t).Names
	require.NotEmpty(t, names.Good)
	require.NotEmpty(t, names.Bad)
	for _, name := range names.Good {
		assert.True(t, policyname.Valid(name), name)
		assert.NoError(t, ratelimit.Policy(name, ratelimit.Rate(5, time.Second)).Validate())
	}
	for _, name := range names.Bad {
		assert.False(t, policyname.Valid(name), name)
		assert.ErrorContains(t, ratelimit.Policy(name, ratelimit.Rate(5, time.Second)).Validate(), "the name of a policy", name)
	}
}

func TestTheValuesOfPolicies(t *testing.T) {
	t.Parallel()
	values := readTable(t).Values
	require.NotEmpty(t, values)
	for _, c := range values {
		value, err := ParseValue("api", c.Value)
		if c.Error != nil {
			if assert.Error(t, err, c.Value) {
				assert.Contains(t, err.Error(), *c.Error, c.Value)
			}
			continue
		}
		require.NoError(t, err, c.Value)
		assert.Equal(t, c.None, value.None, c.Value)
		assert.Equal(t, limits(t, c.Limits).String(), value.Limits.String(), c.Value)
		assert.Equal(t, c.Names, namesOf(value.Limits), c.Value)
		assert.Equal(t, lengthOf(t, c.Ban), value.Ban, c.Value)
		assert.Equal(t, c.After, value.BanAfter, c.Value)
		assert.Equal(t, c.Value, value.Text)
	}
}

func TestTheFieldsOfPolicies(t *testing.T) {
	t.Parallel()
	fields := readTable(t).Fields
	require.NotEmpty(t, fields)
	for _, c := range fields {
		want := Field{Name: c.Name}
		switch {
		case c.Key != nil:
			want.Keys, want.Key = OneKey, *c.Key
		case c.Prefix != nil:
			want.Keys, want.Key = Prefix, *c.Prefix
		}
		got, err := ParseField(c.Field)
		assert.Equal(t, c.Error, err != nil, c.Field)
		if !c.Error {
			assert.Equal(t, want, got, c.Field)
		}
	}
}

func TestTheFieldThatCountsForAKey(t *testing.T) {
	t.Parallel()
	choices := readTable(t).Choices
	require.NotEmpty(t, choices.Of)
	rules, errs := Parse(choices.Hash)
	require.Empty(t, errs)
	assert.Equal(t, len(choices.Hash), rules.Len())
	for _, c := range choices.Of {
		rule := rules.Choose(c.Name, c.Key)
		if c.Field == nil {
			assert.Nil(t, rule, "%s/%s", c.Name, c.Key)
		} else if assert.NotNil(t, rule, "%s/%s", c.Name, c.Key) {
			assert.Equal(t, *c.Field, rule.Field, "%s/%s", c.Name, c.Key)
			assert.Equal(t, choices.Hash[*c.Field], rule.Text)
		}
	}
}

func TestWhatCannotBeReadIsLeftOut(t *testing.T) {
	t.Parallel()
	rules, errs := Parse(map[string]string{"api": "RATE 5/m", "api/a": "RTE 5/m", "a b": "RATE 5/m", "@version": "7"})
	assert.Equal(t, 1, rules.Len())
	assert.Len(t, errs, 2)
	assert.ErrorContains(t, errs["api/a"], "RTE")
	assert.ErrorContains(t, errs["a b"], `"a b"`)
}
