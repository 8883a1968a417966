package ratelimit

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit/charge"
)

// A word that is added to spec/commands.json is a field of Call, or this test fails.
func TestACallTakesWhatItsCommandTakes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../spec/commands.json")
	require.NoError(t, err)
	var table struct {
		Commands []struct {
			Command string
			Options []string
		}
	}
	require.NoError(t, json.Unmarshal(text, &table))

	options := map[string]func(*Call){
		"COST":    func(c *Call) { c.Cost = 2 },
		"UPTO":    func(c *Call) { c.Charge = charge.UpTo },
		"STRICT":  func(c *Call) { c.Charge = charge.Strict },
		"FORCE":   func(c *Call) { c.Charge = charge.Force },
		"ANY":     func(c *Call) { c.Any = true },
		"MAXWAIT": func(c *Call) { c.MaxWait = time.Second },
		"TIMEOUT": func(c *Call) { c.MaxWait = time.Second },
		"BAN":     func(c *Call) { c.Ban = time.Minute },
		"AFTER":   func(c *Call) { c.Ban, c.BanAfter = time.Minute, "3/1m" },
		"GROUP":   func(c *Call) { c.Group = "g" },
		"WEIGHT":  func(c *Call) { c.Group, c.Weight = "g", 2 },
		"PRIORITY": func(c *Call) {
			c.Priority = 3
		},
		"ID":   func(c *Call) { c.ID = "a" },
		"EACH": func(c *Call) { c.Each = true },
	}
	// Words that calls say by themselves or in their keys, and that of CL.LEASES, which the client does not send.
	withoutOption := []string{"NEXT", "COMPACT", "COUNT", "SLOTS", "TTL"}
	limited, leased := Key{Name: "k", Limits: Limits{Rate(5, time.Minute)}}, Key{Name: "s", Slots: 1, TTL: time.Second}
	calls := map[string]Call{
		"CL.LIMIT":   {Keys: []Key{limited}},
		"CL.MLIMIT":  {Keys: []Key{limited, limited}},
		"CL.PEEK":    {Verb: VerbPeek, Keys: []Key{limited}},
		"CL.REFUND":  {Verb: VerbRefund, Keys: []Key{limited}},
		"CL.WAIT":    {Verb: VerbWait, Keys: []Key{limited}},
		"CL.LEASE":   {Verb: VerbLease, Keys: []Key{leased}, ID: "a", MaxWait: time.Second},
		"CL.RENEW":   {Verb: VerbRenew, Keys: []Key{{Name: "s", TTL: time.Second}}, ID: "a"},
		"CL.RELEASE": {Verb: VerbRelease, Keys: []Key{{Name: "s"}}, ID: "a"},
		"CL.SETTLE":  {Verb: VerbSettle, Keys: []Key{limited}, ID: "a"},
	}
	for _, cmd := range table.Commands {
		call, ok := calls[cmd.Command]
		if !ok {
			continue
		}
		for _, word := range cmd.Options {
			assert.True(t, options[word] != nil || slices.Contains(withoutOption, word), "Call has no field for %s", word)
		}
		for word, set := range options {
			call := call
			set(&call)
			if cmd.Command == "CL.MLIMIT" && word == "ID" {
				call.Keys = []Key{limited, leased}
			}
			_, err := call.command()
			if waits := word == "MAXWAIT" || word == "TIMEOUT"; slices.Contains(cmd.Options, word) ||
				waits && (slices.Contains(cmd.Options, "MAXWAIT") || slices.Contains(cmd.Options, "TIMEOUT")) {
				assert.NoError(t, err, "%s %s", cmd.Command, word)
			} else if !(word == "ANY" && cmd.Command == "CL.LIMIT") { // which makes it CL.MLIMIT
				assert.ErrorContains(t, err, "take", "%s %s", cmd.Command, word)
			}
		}
	}
}

// The table of all languages has neither NoCost, which is a Cost of 0, nor CL.THROTTLE.
func TestAVerbTakesWhatItTakesInEveryLanguage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../spec/clients/calls.json")
	require.NoError(t, err)
	var table struct{ Takes map[string][]string }
	require.NoError(t, json.Unmarshal(text, &table))
	got := map[string][]string{}
	for verb, taken := range takes {
		got[verbs[verb]] = []string{}
		for i, field := range fieldNames {
			if taken&(1<<i) != 0 && field != "NoCost" {
				got[verbs[verb]] = append(got[verbs[verb]], strings.ToLower(field))
			}
		}
	}
	delete(got, "throttle")
	require.Len(t, got, len(table.Takes))
	for verb, want := range table.Takes {
		assert.ElementsMatch(t, strings.Fields(strings.ReplaceAll(strings.Join(want, " "), "_", "")), got[verb], verb)
	}
}

// A kind of limit that is added, or a word of limits, is known here, too.
func TestALimitTakesWhatAnyCommandTakes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../spec/commands.json")
	require.NoError(t, err)
	var table struct {
		Words []struct {
			Word string
			Own  []string
		}
		Commands []struct{ Limits, Terms []string }
	}
	require.NoError(t, json.Unmarshal(text, &table))
	known := map[string]string{
		"RATE": "RATE 5/1m", "WINDOW": "WINDOW 5/1m", "FIXED": "FIXED 5/1d", "BURST": "RATE 5/1m BURST 9", "FIRST": "FIXED 5/1d FIRST",
		"OFFSET": "FIXED 5/1d OFFSET 1h", "TZ": "FIXED 5/1d TZ UTC", "TAKE": "RATE 5/1m TAKE 2", "USED": "RATE 5/1m TAKE 2 USED 1",
		"SPARE": "RATE 5/1m SPARE 1", "SHADOW": "RATE 5/1m SHADOW",
	}
	var all []string
	for _, c := range table.Commands {
		all = append(append(all, c.Limits...), c.Terms...)
	}
	for _, w := range table.Words {
		all = append(all, w.Own...)
	}
	require.Greater(t, len(all), len(known))
	for _, word := range all {
		text, ok := known[word]
		if !assert.True(t, ok, "Limit has no %s", word) {
			continue
		}
		limits, err := ParseLimits(text)
		require.NoError(t, err, word)
		assert.Contains(t, limits.String(), word)
	}
}
