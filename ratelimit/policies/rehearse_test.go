package policies_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit/policies"
)

func TestARehearsalKeepsWhatCountsAndDeniesNobody(t *testing.T) {
	for _, c := range []struct{ now, next, rehearsal, problem string }{
		{"", "RATE 5/m", "RATE 5/m SHADOW", ""},
		{"RATE 60/m", "RATE 5/m", "RATE 60/m RATE 5/m SHADOW", ""},
		{"RATE 60/m RATE 10/m SHADOW", "RATE 5/m", "RATE 60/m RATE 5/m SHADOW", ""}, // the rehearsal before is over
		{"RATE 60/m NAME shadow", "fixed 9/d shadow", "RATE 60/m NAME shadow fixed 9/d shadow", ""},
		{"RATE 60/m BAN 15m AFTER 10/h", "RATE 5/m FIXED 9/d BAN 1h", "RATE 60/m RATE 5/m SHADOW FIXED 9/d SHADOW BAN 15m AFTER 10/h", ""},
		{"NONE", "RATE 5/m", "RATE 5/m SHADOW", ""},
		{"RATE 60/m", "NONE", "", "nothing to rehearse"},
		{"RATE 60", "RATE 5/m", "", "what counts now"},
		{"RATE 60/m", "RATE 5", "", "count/period"},
		{"RATE 1/s RATE 1/s RATE 1/s RATE 1/s RATE 1/s RATE 1/s RATE 1/s RATE 1/s", "RATE 5/m", "", "8"},
	} {
		got, err := policies.Rehearsal("api", c.now, c.next)
		if c.problem != "" {
			assert.ErrorContains(t, err, c.problem, c.next)
			continue
		}
		assert.NoError(t, err, c.next)
		assert.Equal(t, c.rehearsal, got)
	}
}

func TestShadowsAreEnforcedInPlaceOfTheOtherLimits(t *testing.T) {
	for text, enforced := range map[string]string{
		"RATE 60/m":                                "",
		"RATE 60/m RATE 5/m SHADOW":                "RATE 5/m",
		"RATE 5/m shadow BAN 1h":                   "RATE 5/m BAN 1h",
		"RATE 60/m RATE 5/m NAME SHADOW SHADOW":    "RATE 5/m NAME SHADOW",
		"RATE 60/m FIXED 9/d SHADOW TZ UTC SHADOW": "",
		"NONE": "",
	} {
		value, err := policies.ParseValue("api", text)
		if err == nil {
			assert.Equal(t, enforced, value.Enforced(), text)
		}
	}
	value, err := policies.ParseValue("api", "RATE 60/m  RATE 5/m SHADOW BAN 1h AFTER 3/m")
	assert.NoError(t, err)
	assert.Equal(t, []string{"RATE 60/m", "RATE 5/m SHADOW", "BAN 1h AFTER 3/m"}, value.Words())
	assert.True(t, value.Shadows())
}
