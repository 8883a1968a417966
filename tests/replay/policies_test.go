package replay_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/policies"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// lineOf is a request in a log of JSON.
func lineOf(at time.Time, user int) string {
	return fmt.Sprintf(`{"time":%q,"user":"%d"}`, at.UTC().Format(time.RFC3339Nano), user)
}

// fileOf writes a hash as a file of policies.
func fileOf(t testing.TB, hash map[string]string) string {
	t.Helper()
	var lines []string
	for field, value := range hash {
		lines = append(lines, fmt.Sprintf("%q %s", field, value))
	}
	path := filepath.Join(t.TempDir(), "change.txt")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	return path
}

// What a replay denies by policies is what a service would have denied whose limiter reads the same hash, request by
// request.
func TestPoliciesDenyWhatALimiterDenies(t *testing.T) {
	t.Parallel()
	hash := map[string]string{"api": "RATE 2/m BURST 3 FIXED 40/h", "api/user:1": "WINDOW 5/30s", "api/user:2": "NONE", "api/user:3*": "RATE 1/m SHADOW", "api/user:4": "RATE 9/m BAN 1m", "other": "RATE 0/s"}
	limiter := ratelimittest.New(t)
	layer := ratelimit.With(policies.New(limiter, nil, policies.Options{Read: func(context.Context) (map[string]string, error) { return hash, nil }}))
	own := ratelimit.Policy("api", ratelimit.Rate(10, time.Minute))
	random, at := chance.New(t), limiter.Now().Add(time.Hour).Truncate(time.Millisecond)
	want := map[string]int64{}
	total := int64(0)
	var lines []string
	for range size.Of(2000, 20000) {
		at = at.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
		user := random.IntN(8)
		lines = append(lines, lineOf(at, user))
		limiter.SetTime(at)
		key := fmt.Sprint("user:", user)
		result, err := layer.Limit(t.Context(), key, own, 1)
		require.NoError(t, err)
		if result.Limited {
			want[key]++
			total++
		}
	}
	r := replay(t, access(t, lines), "--key", "user:{user}", "--limit", "RATE 10/m", "--policy", "api", "--policies", fileOf(t, hash), "--top", "100")
	require.Len(t, r.Sets, 2)
	assert.Equal(t, "change.txt", r.Sets[1].Name)
	require.Positive(t, total)
	assert.Equal(t, total, r.Sets[1].Denied)
	assert.NotEqual(t, total, r.Sets[0].Denied, "the default")
	have, decided := map[string]int64{}, int64(0)
	for _, c := range r.Sets[1].Top {
		have[c.Name] = c.Denied
	}
	assert.Equal(t, want, have)
	for _, rule := range r.Sets[1].Rules {
		decided += rule.Denied
	}
	assert.LessOrEqual(t, decided, total, "a ban is of no limit")
	assert.Positive(t, decided)
}

// The same of a gateway. Its limits are of a century, so that it does not matter that it is asked now.
func TestPoliciesOfAGatewayDenyWhatTheGatewayDenies(t *testing.T) {
	t.Parallel()
	hash := map[string]string{"api": "FIXED 20/100y", "api/1": "FIXED 3/100y", "api/2*": "NONE", "api/3": "FIXED 5/100y FIXED 4/50y SHADOW"}
	config := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(config, []byte("domain: web\ndescriptors:\n- {key: user, policy: api, limits: [FIXED 10/100y]}\n- {key: all, limits: [FIXED 90/100y]}\n"), 0o644))
	s := server.Start(t)
	for field, value := range hash {
		s.MustDo("HSET", "throttle:policies", field, value)
	}
	address := kit.StartGateway(t, kit.GatewayCommand(t, s.Addr(), config)).At["http"]
	ask := func(body string) (int, string) {
		response, err := http.Post("http://"+address+"/json", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	await(t, "the gateway has read the hash", func() bool {
		_, text := ask(`{"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": "probe"}]}]}`)
		return strings.Contains(text, `"requestsPerUnit":20`)
	})
	random, at := chance.New(t), time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	total := int64(0)
	var lines []string
	for range 300 {
		at = at.Add(time.Second)
		user := random.IntN(6)
		lines = append(lines, lineOf(at, user))
		body := fmt.Sprintf(`{"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": "%d"}]}, {"entries": [{"key": "all", "value": "x"}]}]}`, user)
		status, text := ask(body)
		require.Contains(t, []int{200, 429}, status, text)
		if status == 429 {
			total++
		}
	}
	args := []string{access(t, lines), "--key", "{user}", "--gateway", config, "--descriptor", "user={user}", "--descriptor", "all=x"}
	r := replay(t, append(args, "--policies", fileOf(t, hash))...)
	require.Len(t, r.Sets, 2)
	assert.Equal(t, "gateway, change.txt", r.Sets[1].Name)
	assert.Equal(t, total, r.Sets[1].Denied)
	assert.NotEqual(t, total, r.Sets[0].Denied)

	// What is in Redis is the same, and a file on top of it is another row.
	top := filepath.Join(t.TempDir(), "top.txt")
	require.NoError(t, os.WriteFile(top, []byte("HDEL throttle:policies api api/1 'api/2*' api/3\n"), 0o644))
	r = replay(t, append(args, "--policies", "redis://"+s.Addr(), "--policies", top)...)
	require.Len(t, r.Sets, 3)
	assert.Equal(t, total, r.Sets[1].Denied, r.Sets[1].Name)
	assert.Equal(t, r.Sets[0].Denied, r.Sets[2].Denied, "without the fields the limits of the file count")
	assert.Equal(t, []string{"HDEL throttle:policies api", "HDEL throttle:policies api/1", "HDEL throttle:policies api/2*", "HDEL throttle:policies api/3"}, r.Policies)
}

// The commands make in redis-cli what was tried, whatever the fields are made of.
func TestTheCommandsSetWhatWasTried(t *testing.T) {
	t.Parallel()
	hash := map[string]string{
		"api": "RATE 1/s", "api/user:1": "NONE", "api/with blanks": "RATE 1/s BURST 3", `api/"quoted" \ it's`: "RATE 2/s", "api/Zoë*": "FIXED 5/d TZ Europe/Berlin", "api/a\tb\x01": "RATE 3/s",
		"@version": "7",
	}
	r := replay(t, access(t, []string{lineOf(time.Now(), 1)}), "--key", "{user}", "--limit", "RATE 10/m", "--policy", "api", "--policies", fileOf(t, hash))
	require.Len(t, r.Policies, len(hash))
	s := server.Start(t)
	cli, err := server.CLIPath()
	require.NoError(t, err)
	host, port, _ := strings.Cut(s.Addr(), ":")
	cmd := exec.Command(cli, "-h", host, "-p", port)
	cmd.Stdin = strings.NewReader(strings.Join(r.Policies, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	have, err := s.Client().HGetAll(t.Context(), "throttle:policies").Result()
	require.NoError(t, err)
	assert.Equal(t, hash, have, "%s", strings.Join(r.Policies, "\n"))
}
