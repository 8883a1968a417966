package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	process "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/cmd/throttle-replay/replay"
)

// TestMain is the program where a test asks for it.
func TestMain(m *testing.M) {
	if os.Getenv("THROTTLE_REPLAY_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func program(args ...string) *process.Cmd {
	cmd := process.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "THROTTLE_REPLAY_MAIN=1")
	return cmd
}

// replayed runs the program on a log and returns its report.
func replayed(t testing.TB, log string, args ...string) *replay.Report {
	t.Helper()
	cmd := program(append(args, "--json", "-")...)
	cmd.Stdin = strings.NewReader(log)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	assert.Empty(t, stderr.String())
	var r replay.Report
	require.NoError(t, json.Unmarshal(out, &r))
	return &r
}

// combined are lines of an access log, a second apart.
func combined(n int) string {
	var b strings.Builder
	at := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	for i := range n {
		fmt.Fprintf(&b, "203.0.113.%d - - [%s] \"GET /%d HTTP/1.1\" 200 %d \"-\" \"curl/8\"\n", i%3, at.Add(time.Duration(i)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), i%7, i)
	}
	return b.String()
}

func TestLimitsAndSetsAreCompared(t *testing.T) {
	t.Parallel()
	r := replayed(t, combined(600), "--key", "{remote_addr/64}", "--limit", "RATE 10/s BURST 20", "--limit", "FIXED 100/h", "--set", "strict=RATE 1/m BURST 2", "--set", "mild= RATE 1/s ", "--show-keys")
	require.Len(t, r.Sets, 3)
	assert.Equal(t, "RATE 10/s BURST 20 FIXED 100/h", r.Sets[0].Words)
	assert.Equal(t, int64(300), r.Sets[0].Denied)
	assert.Equal(t, "strict", r.Sets[1].Name)
	assert.Zero(t, r.Sets[2].Denied)
	assert.Equal(t, int64(3), r.Clients)
	assert.Regexp(t, `^203\.0\.113\.[012]$`, r.Top[0].Name)
	assert.Equal(t, version, r.Version)
}

func TestRequestsAreChosenAndCounted(t *testing.T) {
	t.Parallel()
	r := replayed(t, combined(600), "--where", "path ~ ^/[0-3]$", "--where", "status < 300", "--cost", "bytes/100", "--key", "{remote_addr}{path}", "--top", "3")
	assert.Equal(t, int64(12), r.Clients)
	assert.Equal(t, "bytes/100", r.Cost)
	assert.Greater(t, r.Units, r.Requests)
	assert.Len(t, r.Top, 3)
	assert.Positive(t, r.Lines.Filtered)
}

func TestMistakesAreToldAndNothingIsRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--limit", "RATE 10"}, "limits: syntax error near '10'"},
		{[]string{"--set", "strict"}, "--set \"strict\": expected NAME=WORDS"},
		{[]string{"--set", "a=RATE 1/s", "--set", "a=RATE 2/s"}, "--set a is there twice"},
		{[]string{"--key", "{remote_addr"}, "--key"},
		{[]string{"--where", "path"}, "--where"},
		{[]string{"--cost", "bytes/0"}, "--cost"},
		{[]string{"--tz", "Mars/Olympus"}, "--tz"},
		{[]string{"--late", "25h"}, "--late"},
		{[]string{"--max-clients", "1"}, "--max-clients"},
		{[]string{"--comma", "ab"}, "--comma"},
		{[]string{"--trusted-proxy", "here"}, "--trusted-proxy"},
		{[]string{"--format", "xml"}, "--format"},
		{[]string{"--key", "{tenant}"}, `--key: a line of the combined format has no field "tenant"`},
		{[]string{"--where", "tenant = x"}, "--where: a line of the combined format has no field"},
		{[]string{"--cost", "tokens"}, "--cost: a line of the combined format has no field"},
		{[]string{"/nowhere/at/all.log"}, "all.log"},
		{[]string{"--gateway", "main.go"}, "main.go:"},
		{[]string{"--gateway", "testdata/limits.yaml"}, "has no routes: say with --descriptor"},
		{[]string{"--gateway", "testdata/limits.yaml", "--descriptor", "remote_address"}, "expected KEY=TEMPLATE"},
		{[]string{"--gateway", "testdata/limits.yaml", "--descriptor", "remote_address={"}, "--descriptor"},
		{[]string{"--gateway", "testdata/limits.yaml", "--descriptor", "a={tenant}"}, `--descriptor: a line of the combined format has no field "tenant"`},
		{[]string{"--gateway", "testdata/limits.yaml", "--domain", "x", "--descriptor", "a=b"}, `no domain "x"`},
		{[]string{"--gateway", "testdata/routes.yaml"}, "the header field X-Plan, which the log does not have"},
		{[]string{"--domain", "x"}, "go with --gateway"},
		{[]string{"--temp", "/nowhere"}, ""}, // is needed for large logs only
	} {
		cmd := program(c.args...)
		cmd.Stdin = strings.NewReader(combined(10))
		out, err := cmd.CombinedOutput()
		if c.want == "" {
			assert.NoError(t, err, string(out))
			continue
		}
		assert.Error(t, err, c.args)
		assert.Contains(t, string(out), c.want)
	}
}

// Rules of a gateway are compared with sets. A request without a value for an entry has no such descriptor.
func TestRulesOfAGatewayAreASetOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := replayed(t, combined(600), "--gateway", "testdata/limits.yaml", "--descriptor", "remote_address={remote_addr};path={path}", "--descriptor", "user={remote_user}", "--set", "a=RATE 1/s")
	require.Len(t, r.Sets, 2)
	g := r.Sets[1]
	assert.Equal(t, "gateway", g.Name)
	assert.Equal(t, "domain web of limits.yaml", g.Words)
	assert.Equal(t, int64(600), g.Requests)
	assert.Equal(t, []replay.Rule{{Words: "web.remote_address.path_/1: FIXED 2/1h", Requests: 86, Denied: 80, Alone: 80}}, g.Rules)
	assert.Equal(t, int64(80), g.Denied)
	assert.Equal(t, int64(600-86), g.Unlimited)
	assert.Equal(t, int64(3), g.DeniedClients)
}

// The table goes to standard output, and JSON to a file beside it.
func TestATableIsPrintedAndJSONIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, path := filepath.Join(dir, "access.log"), filepath.Join(dir, "report.json")
	require.NoError(t, os.WriteFile(log, []byte(combined(100)), 0o644))
	cmd := program(log, "--json", path)
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "100 requests of 3 clients")
	assert.NotContains(t, string(out), "203.0.113", "keys are hashed")
	assert.NotContains(t, string(out), "\x1b", "no terminal, no colors")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "203.0.113")
	var r replay.Report
	require.NoError(t, json.Unmarshal(text, &r))
	assert.Equal(t, int64(100), r.Requests)
	out, err = program(log, "--json", filepath.Join(dir, "no", "such", "folder")).CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "error: ")
}

// Ctrl-C has the program report what was read so far, also where it comes more than once, as through npx.
func TestASignalReportsWhatWasRead(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals between programs")
	}
	cmd := program("-", "--json", "-")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(in, combined(50_000)) // more than pipes and buffers hold, so that some was read when this returns
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var stops sync.WaitGroup
	first := time.Now()
	stops.Go(func() {
		for time.Since(first) < sameSignal/2 && cmd.Process.Signal(os.Interrupt) == nil { // while it computes the report
			runtime.Gosched()
		}
	})
	var r replay.Report
	require.NoError(t, json.NewDecoder(out).Decode(&r))
	require.NoError(t, cmd.Wait())
	stops.Wait()
	assert.True(t, r.Interrupted)
	assert.Positive(t, r.Requests)
	assert.LessOrEqual(t, r.Requests, int64(50_000))
}
