package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

const rules = `
domain: web
trusted_proxies: [127.0.0.1/32]
descriptors:
  - key: remote_address
    limits: [RATE 1/s BURST 4, FIXED 60/h]
    descriptors:
      - {key: path, value: /api/*, limits: [WINDOW 5/30s]}
      - {key: path, value: /watched, limits: [FIXED 3/m SHADOW]}
  - key: everybody
    limits: [RATE 20/s BURST 12]
routes:
  - match: /
    descriptors: [[{key: remote_address, value: "{client}"}], [{key: everybody}]]
  - match: /api/
    cost: 2
    descriptors: [[{key: remote_address, value: "{client}"}, {key: path, value: "{path}"}], [{key: everybody}]]
  - match: GET /watched
    headers: {User-Agent: "curl*"}
    descriptors: [[{key: remote_address, value: "{client}"}, {key: path, value: "{path}"}]]
`

// The rules of a gateway's file deny what the gateway itself denies, request by request: by routes, and by descriptors
// that a proxy sends.
func TestRulesOfAGatewayDenyWhatTheGatewayDenies(t *testing.T) {
	t.Parallel()
	dev, err := server.DevProgram()
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(config, []byte(rules), 0o644))
	s := server.Start(t, server.Run(dev))
	cmd := kit.GatewayCommand(t, s.Addr(), config)
	cmd.Env = append(cmd.Env, "DENIALS=-1") // remembered by the clock of the machine
	address := kit.StartGateway(t, cmd).At["http"]
	clock, random := s.Client(), chance.New(t)
	setClock := func(at time.Time) {
		require.NoError(t, clock.Do(t.Context(), "CL.DEV.TIME", at.Format(time.RFC3339Nano), "STOP").Err())
	}
	denied := func(request *http.Request) bool {
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		require.Contains(t, []int{200, 429}, response.StatusCode)
		return response.StatusCode == 429
	}
	for _, byRoutes := range []bool{true, false} {
		at := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
		if !byRoutes {
			at = at.AddDate(0, 0, 1)
		}
		want := map[string]int64{}
		total := int64(0)
		var lines []string
		for range size.Of(400, 3000) {
			at = at.Add(time.Duration(random.IntN(400)) * time.Millisecond)
			client := fmt.Sprintf("198.51.100.%d", min(random.IntN(6), random.IntN(6)))
			path := []string{"/", "/api/a?x=1", "/api/b", "/watched", "//api/../api/a"}[random.IntN(5)]
			agent := []string{"curl/8", "other"}[random.IntN(2)]
			lines = append(lines, fmt.Sprintf(`{"ts":%d.%03d,"request":{"remote_ip":%q,"method":"GET","host":"example.org","uri":%q,"headers":{"User-Agent":[%q]}}}`,
				at.Unix(), at.Nanosecond()/1e6, client, path, agent))
			setClock(at)
			var request *http.Request
			if byRoutes {
				request, err = http.NewRequest("GET", "http://"+address+"/forward", nil)
				require.NoError(t, err)
				request.Header = http.Header{"X-Forwarded-Uri": {path}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-For": {client}, "User-Agent": {agent}}
			} else {
				short, _, _ := strings.Cut(path, "?")
				body, err := json.Marshal(map[string]any{"domain": "web", "descriptors": []any{
					map[string]any{"entries": []any{map[string]string{"key": "remote_address", "value": client}}},
					map[string]any{"entries": []any{map[string]string{"key": "remote_address", "value": client}, map[string]string{"key": "path", "value": short}}},
					map[string]any{"entries": []any{map[string]string{"key": "everybody", "value": "1"}}},
				}})
				require.NoError(t, err)
				request, err = http.NewRequest("POST", "http://"+address+"/json", bytes.NewReader(body))
				require.NoError(t, err)
			}
			if denied(request) {
				want[client]++
				total++
			}
		}
		args := []string{access(t, lines), "--gateway", config, "--top", "100", "--domain", "web"}
		if !byRoutes {
			args = append(args, "--descriptor", "remote_address={remote_addr}", "--descriptor", "remote_address={remote_addr};path={path}", "--descriptor", "everybody=1")
		}
		r := replay(t, args...)
		require.Len(t, r.Sets, 1)
		require.Positive(t, total)
		assert.Equal(t, total, r.Sets[0].Denied, "by routes: %v", byRoutes)
		have := map[string]int64{}
		for _, c := range r.Sets[0].Top {
			have[c.Name] = c.Denied
		}
		assert.Equal(t, want, have, "by routes: %v", byRoutes)
		sum := int64(0)
		for _, rule := range r.Sets[0].Rules {
			sum += rule.Denied
		}
		assert.Equal(t, total, sum, "each denied request is of one rule")
		assert.GreaterOrEqual(t, len(r.Sets[0].Rules), 3)
	}
}
