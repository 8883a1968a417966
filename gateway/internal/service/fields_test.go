package service

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gateway/internal/decide"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

// The answer of /check has the header fields that the table of all languages has for a result.
func TestFieldsAreThoseOfAllLanguages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../spec/clients/fields.json")
	require.NoError(t, err)
	type numbers struct {
		Limited, Banned                 bool
		Limit, Remaining, Granted, Rule int64
		Retry                           int64 `json:"retry_after_ms"`
		Next                            int64 `json:"next_after_ms"`
		Reset                           int64 `json:"reset_after_ms"`
	}
	var table struct {
		Cases []struct {
			Rule   string
			Limits []map[string]any
			Result json.RawMessage
			Fields map[string]string
		}
	}
	require.NoError(t, json.Unmarshal(text, &table))
	require.NotEmpty(t, table.Cases)
	ran := 0
	for _, c := range table.Cases {
		var all map[string]any
		require.NoError(t, json.Unmarshal(c.Result, &all))
		known := true
		for name := range all {
			known = known && strings.Contains(" limited banned limit remaining granted retry_after_ms next_after_ms reset_after_ms shadow rule ", " "+name+" ")
		}
		words := ""
		for _, l := range c.Limits {
			known = known && l["kind"] != nil
			words += "; " + l["kind"].(string) + " " + written(l["count"]) + "/" + l["period"].(string)
			if burst := l["burst"]; burst != nil {
				words += " BURST " + written(burst)
			}
			if l["shadow"] == true {
				words += " SHADOW"
			}
			for _, name := range []string{"name", "unit"} {
				if value, ok := l[name].(string); ok {
					words += " " + strings.ToUpper(name) + " " + written(value)
				}
			}
			for name := range l {
				known = known && strings.Contains(" kind count period burst shadow name unit ", " "+name+" ")
			}
		}
		if !known { // leases and other results that the gateway has none of
			continue
		}
		limits, err := ratelimit.ParseLimits(strings.TrimPrefix(words, "; "))
		require.NoError(t, err, c.Rule)
		var n numbers
		require.NoError(t, json.Unmarshal(c.Result, &n))
		ms := func(n int64) time.Duration {
			if n < 0 {
				return ratelimit.Never
			}
			return time.Duration(n) * time.Millisecond
		}
		result := ratelimit.Result{
			Limited: n.Limited, Banned: n.Banned, Limit: n.Limit, Remaining: n.Remaining, Granted: n.Granted,
			Rule: int(n.Rule), RetryAfter: ms(n.Retry), NextAfter: ms(n.Next), ResetAfter: ms(n.Reset), By: "server",
		}
		policies, err := httplimit.NewPolicies(limits)
		require.NoError(t, err, c.Rule)
		w := httptest.NewRecorder()
		writeCheck(w, http.StatusTooManyRequests, &outcome{Verdict: decide.Verdict{Over: n.Limited, Result: result, Policies: []*httplimit.Policies{policies}}})
		for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
			assert.Equal(t, c.Fields[name], w.Header().Get(name), "%s: %s", c.Rule, name)
		}
		ran++
	}
	assert.Greater(t, ran, len(table.Cases)/2)
}

// written is a number or a text as JSON has it, which is how limits are written, too.
func written(v any) string { text, _ := json.Marshal(v); return string(text) }
