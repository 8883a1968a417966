package ratelimit_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
)

// said keeps the words of the last command, and answers nothing that could be read.
type said struct{ words []any }

func (s *said) Process(_ context.Context, cmd redis.Cmder) error {
	s.words = cmd.Args()
	return nil
}

// fieldValues sets each field that a Call or a Key can do without.
var fieldValues = map[string]func(*ratelimit.Call){
	"Cost":   func(c *ratelimit.Call) { c.Cost = 3 },
	"NoCost": func(c *ratelimit.Call) { c.NoCost = true },
	"Charge": func(c *ratelimit.Call) { c.Charge = charge.Strict },
	"Any":    func(c *ratelimit.Call) { c.Any = true },
	"Ban":    func(c *ratelimit.Call) { c.Ban = time.Minute },
	"BanAfter": func(c *ratelimit.Call) {
		c.BanAfter = "3/1h"
		if c.Verb == ratelimit.VerbLimit {
			c.Ban = time.Minute // to which it belongs
		}
	},
	"MaxWait":  func(c *ratelimit.Call) { c.MaxWait = time.Second },
	"Group":    func(c *ratelimit.Call) { c.Group = "g" },
	"Priority": func(c *ratelimit.Call) { c.Priority = 3 },
	"Weight":   func(c *ratelimit.Call) { c.Weight = 3 },
	"ID":       func(c *ratelimit.Call) { c.ID = "holder" },
	"Each":     func(c *ratelimit.Call) { c.Each = true },
	"Limits":   func(c *ratelimit.Call) { c.Keys[0].Limits = ratelimit.Limits{ratelimit.Rate(5, time.Second)} },
	"Slots":    func(c *ratelimit.Call) { c.Keys[0].Slots = 3 },
	"TTL":      func(c *ratelimit.Call) { c.Keys[0].TTL = time.Hour },
}

// A verb sends what it takes, and refuses the rest by its name: a caller that sets a field expects that it does
// something.
func TestAFieldThatAVerbDoesNotTakeIsRefused(t *testing.T) {
	t.Parallel()
	limits := []string{"Limits"}
	slots := []string{"ID", "Slots", "TTL"}
	for verb, c := range map[ratelimit.Verb]struct {
		has   []string // what the verb needs
		takes string   // and what it takes beside that
		mute  string   // of these: what the server is not told
	}{
		ratelimit.VerbLimit:    {has: limits, takes: "Cost NoCost Charge Any Ban BanAfter MaxWait Each"},
		ratelimit.VerbPeek:     {has: limits, takes: "Cost NoCost Each"},
		ratelimit.VerbRefund:   {has: limits, takes: "Cost NoCost Each"},
		ratelimit.VerbThrottle: {has: limits, takes: "Cost NoCost"},
		ratelimit.VerbBan:      {takes: "Ban"},
		ratelimit.VerbRenew:    {has: []string{"ID", "TTL"}},
		ratelimit.VerbRelease:  {has: []string{"ID"}},
		ratelimit.VerbReset:    {},
		ratelimit.VerbSettle:   {has: []string{"ID"}, takes: "Limits Slots TTL Each", mute: "Slots TTL"},
		ratelimit.VerbLease:    {has: slots}, // the rest goes over a connection of its own
	} {
		ask := func(fields ...string) ([]any, error) {
			server := &said{}
			call := ratelimit.Call{Verb: verb, Keys: []ratelimit.Key{{Name: "k"}}}
			for _, field := range fields {
				fieldValues[field](&call)
			}
			_, err := ratelimit.New(server, ratelimit.Options{}).Decide(t.Context(), call)
			return server.words, err
		}
		plain, _ := ask(c.has...)
		require.NotEmpty(t, plain, verb)
		for field := range fieldValues {
			if slices.Contains(c.has, field) || (verb == ratelimit.VerbLease && slices.Contains([]string{"MaxWait", "Group", "Priority", "Weight"}, field)) {
				continue
			}
			words, err := ask(append(c.has, field)...)
			switch {
			case !slices.Contains(strings.Fields(c.takes), field):
				require.Error(t, err, "%v with %s", verb, field)
				assert.Regexp(t, `\b`+field+`\b`, err.Error(), "%v with %s", verb, field)
				assert.Empty(t, words, "%v with %s", verb, field)
			case slices.Contains(strings.Fields(c.mute), field):
				assert.NotEmpty(t, words, "%v with %s", verb, field)
			default:
				assert.NotEmpty(t, words, "%v with %s", verb, field)
				assert.NotEqual(t, plain, words, "%v with %s", verb, field)
			}
		}
	}
}

// Every field of a Call is in the table above, and so is one of a later version.
func TestEveryFieldIsTriedWithEveryVerb(t *testing.T) {
	t.Parallel()
	var want []string
	for _, known := range []reflect.Type{reflect.TypeFor[ratelimit.Call](), reflect.TypeFor[ratelimit.Key]()} {
		for field := range known.Fields() {
			if !slices.Contains([]string{"Verb", "Keys", "Name"}, field.Name) {
				want = append(want, field.Name)
			}
		}
	}
	var got []string
	for name := range fieldValues {
		got = append(got, name)
	}
	assert.ElementsMatch(t, want, got)
}

// Fields that contradict each other, or that need another one.
func TestFieldsThatDoNotGoTogetherAreRefused(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Second)}
	limited, slots := ratelimit.Key{Name: "k", Limits: limits}, ratelimit.Key{Name: "s", Slots: 3, TTL: time.Hour}
	for want, call := range map[string]ratelimit.Call{
		"key 1 of 1 has Slots beside Limits":                     {Keys: []ratelimit.Key{{Name: "k", Limits: limits, Slots: 3}}},
		"key 2 of 2 has Slots beside Limits":                     {Keys: []ratelimit.Key{limited, {Name: "k", Limits: limits, Slots: 3}}},
		"key 1 of 1 has TTL beside Limits":                       {Keys: []ratelimit.Key{{Name: "k", Limits: limits, TTL: time.Hour}}},
		"key 2 of 2 has Slots without a TTL":                     {Keys: []ratelimit.Key{limited, {Name: "s", Slots: 3}}, ID: "a"},
		"key 1 of 1 has Slots without a TTL":                     {Keys: []ratelimit.Key{{Name: "s", Slots: 3}}, ID: "a"},
		"key 2 of 2 has neither Limits nor Slots with a TTL":     {Keys: []ratelimit.Key{limited, {Name: "b"}}},
		"limit takes an ID only if a key has Slots with a TTL":   {Keys: []ratelimit.Key{limited}, ID: "a"},
		"lease takes a Group only with a MaxWait":                {Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{slots}, ID: "a", Group: "g"},
		"lease takes a Priority only with a MaxWait":             {Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{slots}, ID: "a", Priority: 1},
		"lease takes a Weight only with a Group":                 {Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{slots}, ID: "a", MaxWait: 1, Weight: 2},
		"wait takes a Weight only with a Group":                  {Verb: ratelimit.VerbWait, Keys: []ratelimit.Key{limited}, Weight: 2},
		"the Cost, -1, is negative":                              {Keys: []ratelimit.Key{limited}, Cost: -1},
		"there is a Cost, 2, beside NoCost":                      {Keys: []ratelimit.Key{limited}, Cost: 2, NoCost: true},
		"lease does not take Each":                               {Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{slots}, ID: "a", Each: true},
		`the Charge must be up_to, strict or force, not "twice"`: {Keys: []ratelimit.Key{limited}, Charge: "twice"},
		"wait does not take Charge":                              {Verb: ratelimit.VerbWait, Keys: []ratelimit.Key{limited}, Charge: charge.UpTo},
		"lease does not take Limits of a key":                    {Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{limited}, ID: "a", MaxWait: 1},
	} {
		server := &said{}
		_, err := ratelimit.New(server, ratelimit.Options{}).Decide(t.Context(), call)
		assert.ErrorContains(t, err, want)
		assert.NotErrorIs(t, err, ratelimit.ErrNoModule, want)
		assert.Empty(t, server.words, want)
	}
}
