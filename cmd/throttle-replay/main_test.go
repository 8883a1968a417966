package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	process "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/cmd/throttle-replay/replay"
	"redis-throttle/ratelimit/policies"
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
		{[]string{"--late", "745h"}, "--late"},
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
		{[]string{"--policy", "api", "--limit", "RATE 1/s"}, "--policy goes with --policies"},
		{[]string{"--policies", "main.go"}, "--policies goes with --policy NAME and --limit"},
		{[]string{"--policies", "main.go", "--policy", "api"}, "say with --limit what its default is"},
		{[]string{"--policies", "main.go", "--policy", "a b", "--limit", "RATE 1/s"}, `--policy: "a b" is not the name of a policy`},
		{[]string{"--policies", "main.go", "--policy", "api/x", "--limit", "RATE 1/s"}, `--policy: "api/x" is not the name of a policy`},
		{[]string{"--policies", "/nowhere", "--policy", "api", "--limit", "RATE 1/s"}, "--policies: open /nowhere"},
		{[]string{"--policies", "redis://:secret@host:port", "--policy", "api", "--limit", "RATE 1/s"}, "--policies: expected a file, or a URL such as redis://host:6379"},
		{[]string{"--policies", "redis://127.0.0.1:1", "--policy", "api", "--limit", "RATE 1/s"}, "--policies: HGETALL throttle:policies: "},
		{[]string{"--policies", "testdata/typo.txt", "--policy", "api", "--limit", "RATE 1/s"}, `testdata/typo.txt: api/1 "RATE 1O/s": `},
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

// A line of a file of policies is a field and its value, or a command as redis-cli takes it.
func TestALineOfPolicies(t *testing.T) {
	t.Parallel()
	set := func(field, value string) []change { return []change{{field: field, value: value}} }
	for line, want := range map[string][]change{
		"":                    nil,
		"  # api RATE 1/s":    nil,
		"api RATE 1/s":        set("api", "RATE 1/s"),
		`api "RATE 1/s" `:     set("api", "RATE 1/s"),
		`'api/a b' RATE 1/s`:  set("api/a b", "RATE 1/s"),
		`"api/\"\x41\n" NONE`: set("api/\"A\n", "NONE"),
		`'api/it\'s\n' NONE`:  set(`api/it's\n`, "NONE"),
		`HSET throttle:policies api "RATE 1/s" login NONE`: {{field: "api", value: "RATE 1/s"}, {field: "login", value: "NONE"}},
		"hdel throttle:policies a b":                       {{field: "a", isDeleted: true}, {field: "b", isDeleted: true}},
	} {
		all, err := changesOf(line, "throttle:policies")
		require.NoError(t, err, line)
		assert.Equal(t, want, all, line)
	}
	for line, want := range map[string]string{
		"api":                                 "expected a field and its value",
		`api "RATE 1/s`:                       "a quotation mark without an end",
		`"api"RATE 1/s`:                       "a blank is missing",
		"HSET other api NONE":                 "HSET of other: the hash is throttle:policies",
		"HSET throttle:policies api":          "HSET takes a hash, and fields with a value each",
		"HSET throttle:policies api RATE 1/s": "a value of several words is in quotation marks",
		"HDEL throttle:policies":              "HDEL takes a hash and fields",
	} {
		_, err := changesOf(line, "throttle:policies")
		assert.ErrorContains(t, err, want, line)
	}
}

// What a policy says of limits stands in place of those of --limit; what is said of the call stays.
func TestAPolicyStandsInPlaceOfTheLimitsOfACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ words, value, want string }{
		{"RATE 9/s", "RATE 1/s BURST 3", "RATE 1/1s BURST 3"},
		{"RATE 9/s BAN 1m AFTER 3/h", "RATE 1/s", "RATE 1/1s BAN 1m AFTER 3/h"},
		{"RATE 9/s STRICT BAN 1m AFTER 3/h", "RATE 1/s NAME x BAN 1h", "RATE 1/1s STRICT BAN 3600000ms"},
		{"RATE 9/s SPARE 2 MAXWAIT 1s", "RATE 1/s", "RATE 1/1s SPARE 2 MAXWAIT 1s"},
		{"RATE 9/s MAXWAIT 1s", "WINDOW 1/s", "RATE 9/s MAXWAIT 1s"},
		{"FIXED 9/d TZ Europe/Berlin", "FIXED 5/mo TZ Europe/Berlin RATE 1/s SHADOW", "FIXED 5/1mo TZ Europe/Berlin RATE 1/1s SHADOW"},
		{"RATE 9/s", "NONE", ""},
	} {
		rules, errs := policies.Parse(map[string]string{"api": c.value})
		require.Empty(t, errs)
		s := stage{rules: rules}
		keyed, err := s.keyed("api", c.words)
		require.NoError(t, err)
		choice, err := keyed.Of("any")
		require.NoError(t, err)
		assert.Equal(t, c.want, choice.Words)
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

// Where the log tells which requests are preflights of browsers, the rules of a gateway do not charge them, as the
// gateway does not.
func TestPreflightsInALogAreNotCharged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 8 {
		method, headers := "POST", "{}"
		if i%2 == 0 {
			method, headers = "OPTIONS", `{"Origin": ["https://a.example"], "Access-Control-Request-Method": ["POST"]}`
		}
		fmt.Fprintf(&log, `{"ts": %d.5, "request": {"remote_ip": "192.0.2.1", "method": %q, "host": "a", "uri": "/", "headers": %s}, "status": 200}`+"\n",
			1760000400+i, method, headers)
	}
	g := replayed(t, log.String(), "--gateway", "testdata/addresses.yaml").Sets[0]
	assert.Equal(t, int64(4), g.Unlimited)
	assert.Equal(t, int64(2), g.Denied)
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

// line is one of an access log.
func line(at time.Time, client int) string {
	return fmt.Sprintf("203.0.113.%d - - [%s] \"GET / HTTP/1.1\" 200 1\n", client, at.Format("02/Jan/2006:15:04:05 -0700"))
}

// A few lines from the future make no others late. Where many lines are left out, the report is written, and the exit
// status is not 0.
func TestLinesFromTheFutureAreLoudAndLoseNoOthers(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	var lines, newest []string
	for i := range 10_800 {
		lines = append(lines, line(start.Add(time.Duration(i)*time.Second), i%9))
		newest = append(newest, line(start.Add(time.Duration(10_800-i)*time.Second), i%9))
	}
	future := slices.Insert(slices.Clone(lines), 300, line(start.Add(time.Hour), 1), line(start.Add(2*time.Hour), 1), line(start.Add(20*time.Hour), 1))
	r := replayed(t, strings.Join(future, ""))
	assert.Equal(t, int64(10_803), r.Requests)
	r = replayed(t, strings.Join(newest, ""), "--late", "24h")
	assert.Equal(t, int64(10_800), r.Requests)
	for _, log := range [][]string{append(slices.Clone(lines[5400:]), lines[:5400]...), newest} { // as files in the wrong order
		r = replayed(t, strings.Join(log, ""))
		assert.Equal(t, int64(10_800), r.Requests)
		assert.Positive(t, r.Lines.Chapters)
		assert.Equal(t, 10_799*time.Second, r.To.Sub(r.From))
	}
	late := slices.Clone(lines) // every second line by a clock that is an hour slow
	for i := 1; i < len(late); i += 2 {
		late[i] = line(start.Add(time.Duration(i)*time.Second-time.Hour), i%9)
	}
	for _, log := range [][]string{late, append(slices.Clone(lines), slices.Repeat([]string{"x\n"}, 1000)...)} {
		cmd := program("-")
		cmd.Stdin = strings.NewReader(strings.Join(log, ""))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		assert.Error(t, err)
		assert.Contains(t, string(out), "Limits to begin with")
		assert.Regexp(t, `error: [\d,]+ of [\d,]+ lines were left out \([\d.]+ %\)`, stderr.String())
	}
}

// What collectors of logs put in front of lines makes no difference to who asked. A log without addresses is refused.
func TestKeysOfAddressesAreAddresses(t *testing.T) {
	t.Parallel()
	in := func(format string) string {
		var b strings.Builder
		for i := range 40 {
			at := time.Date(2026, 8, 16, 8, 39, i, 0, time.UTC)
			text := strings.TrimSuffix(line(at, i%4), "\n")
			b.WriteString(strings.NewReplacer("LINE", text, "QUOTED", strings.ReplaceAll(text, `"`, `\"`), "ISO", at.Format(time.RFC3339Nano), "OLD",
				at.Format(time.Stamp), "N", strconv.Itoa(i)).Replace(format) + "\n")
		}
		return b.String()
	}
	for _, format := range []string{
		"LINE", "lb.example.com:80 LINE", "www.example.com LINE", "OLD web1 nginx: LINE", "<190>OLD web1 nginx[12]: LINE", "ISO web1 nginx: LINE", "<190>1 ISO web1 nginx 123 - - LINE",
		`<190>1 ISO web1 nginx 123 ID47 [a b="c"] LINE`, "ISO stdout F LINE", "web-1  | LINE", "[pod/nginx-abc/nginx] LINE", "access.log.2.gz:LINE", "N:LINE", "access.log:N:LINE",
		`{"log":"QUOTED\n","stream":"stdout","time":"ISO"}`, `{"log": "QUOTED\n", "time": "ISO"}`, "web-1  | lb.example.com:80 LINE", `ISO stdout F {"time":"ISO","remote_addr":"203.0.113.N"}`,
	} {
		r := replayed(t, in(format))
		assert.Equal(t, int64(40), r.Requests, format)
		assert.True(t, r.Clients == 4 || strings.Contains(format, "remote_addr"), "%s: %d clients", format, r.Clients)
		assert.Zero(t, r.Lines.NoAddress)
	}
	for _, format := range []string{`"203.0.113.1, 10.0.0.1" LINE`, `{"time":"ISO","msg":"started"}`, `{"time":"ISO","remote_addr":"somebody"}`} {
		cmd := program("-")
		cmd.Stdin = strings.NewReader(in(format))
		out, err := cmd.CombinedOutput()
		assert.Error(t, err, format)
		assert.Regexp(t, "40 of 40 requests have no address where --key {remote_addr/64} asks for one: -:1 has |give its --log-format", string(out))
	}
	r := replayed(t, in("LINE")+strings.Replace(in("LINE"), "203.0.113.0", "-", 1))
	assert.Equal(t, int64(1), r.Lines.NoAddress, "a few are left out and counted")
	assert.Equal(t, int64(79), r.Requests)
}

// formats are lines of programs, with the option that reads them; most need none. N is one of four clients, SS a
// second.
var formats = []struct{ name, head, line, option string }{
	{name: "CloudFront", head: "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status", line: "2026-04-28\t09:59:SS\tLHR50\t165\t203.0.113.N\tGET\td1.cloudfront.net\t/a\t206"},
	{name: "IIS", head: "#Software: IIS\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query cs-username c-ip cs(User-Agent) sc-status", line: "2026-05-01 00:00:SS 10.0.0.4 GET /a - - 203.0.113.N Mozilla/5.0+(X11) 200"},
	{name: "Tomcat", line: `203.0.113.N - - [15/Sep/2026:09:59:SS +0000] "GET /a HTTP/1.1" 200 7074`},
	{name: "ALB", line: `h2 2026-12-19T11:22:SS.356787Z app/web/cb87 203.0.113.N:40000 172.16.1.1:443 0.006 0.008 0.000 200 200 498 1485 "GET https://a.example:443/a HTTP/2.0" "Mozilla/5.0" ECDHE TLSv1.2 arn "Root=1"`},
	{name: "ALB by IPv6", line: `h2 2026-12-19T11:22:SS.356787Z app/web/cb87 2001:db8:1:N:0:0:0:1:40000 - 0.006 0.008 0.000 200 200 498 1485 "GET https://a.example:443/a HTTP/2.0" "Mozilla/5.0" ECDHE TLSv1.2 arn "Root=1"`},
	{name: "HAProxy", line: `Feb  6 12:14:14 localhost haproxy[14389]: 203.0.113.N:3000 [06/Feb/2026:12:14:SS.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /a HTTP/1.1"`},
	{name: "HAProxy without syslog", line: `203.0.113.N:3000 [06/Feb/2026:12:14:SS.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /a HTTP/1.1"`},
	{name: "Envoy's text", line: `[2026-04-15T20:17:SS.310Z] "GET /a HTTP/2" 204 - 154 0 226 100 "203.0.113.N" "curl" "cc21d9b0" "web" "tcp://10.0.2.1:80"`, option: "--key={x_forwarded_for/64}"},
	{name: "Cloudflare", line: `{"ClientIP":"203.0.113.N","ClientRequestMethod":"GET","ClientRequestURI":"/a","EdgeResponseStatus":200,"EdgeStartTimestamp":"2026-05-01T00:00:SSZ"}`},
	{name: "Traefik", line: `{"ClientHost":"203.0.113.N","RequestMethod":"POST","RequestPath":"/a","StartUTC":"2026-11-14T15:00:SS.2Z","time":"2026-11-14T10:00:SS-05:00"}`},
	{name: "Traefik, common", line: `203.0.113.N - - [15/Sep/2026:09:59:SS +0000] "GET /a HTTP/1.1" 200 474 "-" "-" 178 "x@kubernetescrd" "-" 0ms`},
	{name: "GCP", line: `{"httpRequest":{"requestMethod":"GET","requestUrl":"https://x/a","status":200,"remoteIp":"203.0.113.N"},"timestamp":"2026-05-01T00:00:SS.123456Z"}`},
	{name: "pino", line: `{"level":30,"time":17145216SS000,"req":{"method":"GET","url":"/a","remoteAddress":"203.0.113.N"},"res":{"statusCode":200}}`},
	{name: "no offset", line: `203.0.113.N - - [15/Sep/2026:09:59:SS] "GET /a HTTP/1.1" 200 7 "-" "c"`},
	{name: "milliseconds", line: `203.0.113.N - - [15/Sep/2026:09:59:SS.123 +0000] "GET /a HTTP/1.1" 200 7 "-" "c"`},
	{name: "a time of mail", line: `203.0.113.N - - [Tue, 15 Sep 2026 09:59:SS GMT] "GET /a HTTP/1.1" 200 7 "-" "c"`},
	{name: "a quoted address", line: `"203.0.113.N" - - [15/Sep/2026:09:59:SS +0000] "GET /a HTTP/1.1" 200 7 "-" "c"`},
	{name: "a time of strftime", line: `203.0.113.N [15/09/2026 09:59:SS] "GET /a HTTP/1.1" 200`, option: `--log-format=%h [%{%d/%m/%Y %T}t] "%r" %>s`},
	{name: "a log_format as it stands", line: `203.0.113.N|[15/Sep/2026:09:59:SS +0000]|"GET /a HTTP/1.1"|200`, option: "--log-format=log_format main escape=json '$remote_addr|[$time_local]|'\n  '\"$request\"|$status';"},
	{name: "a LogFormat as it stands", line: `203.0.113.N|[15/Sep/2026:09:59:SS +0000]|"GET /a HTTP/1.1"|200`, option: `--log-format=LogFormat "%h|%t|\"%r\"|%>s" own`},
	{name: "an array", head: "[", line: `{"ts":17145216SS.5,"remote_addr":"203.0.113.N","uri":"/a","t":12},`},
	{name: "objects of several lines", line: "{\n  \"t\": 3,\n  \"time\": \"2026-05-01T00:00:SSZ\",\n  \"remote_addr\": \"203.0.113.N\",\n  \"uri\": \"/a\"\n}"},
}

func TestFormatsThatPeopleHaveAreRead(t *testing.T) {
	t.Parallel()
	for _, f := range formats {
		log := f.head + "\n"
		for i := range 40 {
			log += strings.NewReplacer("N", strconv.Itoa(i%4), "SS", fmt.Sprintf("%02d", i)).Replace(strings.ReplaceAll(f.line, "ECDHE", "x")) + "\n"
		}
		var args []string
		if f.option != "" {
			args = append(args, f.option)
		}
		if strings.Contains(f.line, "/a") {
			args = append(args, "--where", "path = /a")
		}
		r := replayed(t, strings.TrimPrefix(log, "\n"), args...)
		assert.Equal(t, int64(40), r.Requests, f.name)
		assert.Equal(t, int64(4), r.Clients, f.name)
		assert.Equal(t, 39*time.Second, r.To.Sub(r.From), f.name)
		assert.GreaterOrEqual(t, r.From.Year(), 2014, f.name)
	}
	for text, want := range map[string]string{"\xfd7zXZ\x00": "unexpected EOF", "\xff\xfea\x00": "iconv", "a b c\n": "give its --log-format"} {
		cmd := program("-")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		assert.Error(t, err)
		assert.Contains(t, string(out), want)
	}
}
