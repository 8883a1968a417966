// Package gateway_test runs throttle-gateway as a process, between clients and real servers.
package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// patience only ends a hang.
const patience = 60 * time.Second

func TestMain(m *testing.M) { kit.RunBuilt(m) }

// gateway is a process that serves.
type gateway struct {
	rls.RateLimitServiceClient
	*kit.Gateway
	t      testing.TB
	conn   *grpc.ClientConn
	Config string // the folder of its files
}

// start starts a gateway with one file on a server. env are variables in addition, such as "SHADOW_MODE=true".
func start(t testing.TB, redis, config string, env ...string) *gateway {
	t.Helper()
	return startAs(t, func(*exec.Cmd) {}, redis, config, env...)
}

// startAs is start, with a chance to change how the process is started.
func startAs(t testing.TB, change func(*exec.Cmd), redis, config string, env ...string) *gateway {
	t.Helper()
	g := &gateway{t: t, Config: filepath.Join(t.TempDir(), "config")}
	require.NoError(t, os.Mkdir(g.Config, 0o755))
	g.write("limits.yaml", config)
	cmd := kit.GatewayCommand(t, redis)
	cmd.Env = append(append(cmd.Env, "RUNTIME_ROOT="+filepath.Dir(g.Config)), env...)
	change(cmd)
	g.Gateway = kit.StartGateway(t, cmd)
	at := g.At["grpc"]
	if strings.HasPrefix(at, "/") {
		at = "unix://" + at
	}
	var err error
	g.conn, err = grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.conn.Close() })
	g.RateLimitServiceClient = rls.NewRateLimitServiceClient(g.conn)
	return g
}

// write puts a file into the folder as editors do: another file takes its place.
func (g *gateway) write(name, text string) {
	g.t.Helper()
	temporary := filepath.Join(g.Config, "."+name)
	require.NoError(g.t, os.WriteFile(temporary, []byte(text), 0o644))
	require.NoError(g.t, os.Rename(temporary, filepath.Join(g.Config, name)))
}

// await waits for a condition.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, what)
}

// url is an address of the web server.
func (g *gateway) url(path string) string { return "http://" + g.At["http"] + path }

// metric is the sum of the time series of a metric whose labels contain all of some texts.
func (g *gateway) metric(name string, labels ...string) (sum float64) {
	g.t.Helper()
	_, text := g.getFrom("metrics", "/metrics", nil)
lines:
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(line, label) {
				continue lines
			}
		}
		var value float64
		_, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &value)
		require.NoError(g.t, err)
		sum += value
	}
	return sum
}

// ask is a request. Each descriptor is "key=value key=value", with "+N" for a hits_addend of its own.
func ask(domain string, hits uint32, descriptors ...string) *rls.RateLimitRequest {
	request := &rls.RateLimitRequest{Domain: domain, HitsAddend: hits}
	for _, text := range descriptors {
		d := &common.RateLimitDescriptor{}
		for word := range strings.FieldsSeq(text) {
			if n, ok := strings.CutPrefix(word, "+"); ok {
				var own uint64
				_, _ = fmt.Sscan(n, &own)
				d.HitsAddend = wrapperspb.UInt64(own)
				continue
			}
			key, value, _ := strings.Cut(word, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		request.Descriptors = append(request.Descriptors, d)
	}
	return request
}

// asks asks, and shows the answer in a line: OK or OVER, and of each descriptor the units that remain, "!" behind those
// of one that is over, "-" for one without a limit.
func (g *gateway) asks(request *rls.RateLimitRequest) string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	response, err := g.ShouldRateLimit(ctx, request)
	if err != nil {
		return err.Error()
	}
	return shown(response)
}

func shown(response *rls.RateLimitResponse) string {
	text := "OK"
	if response.OverallCode == rls.RateLimitResponse_OVER_LIMIT {
		text = "OVER"
	}
	for _, s := range response.Statuses {
		switch {
		case s.CurrentLimit == nil:
			text += " -"
		default:
			text += fmt.Sprintf(" %d", s.LimitRemaining)
		}
		if s.Code == rls.RateLimitResponse_OVER_LIMIT {
			text += "!"
		}
	}
	return text
}

// get asks the web server, and returns the status, the header and the body.
func (g *gateway) get(path string, header http.Header) (*http.Response, string) {
	g.t.Helper()
	return g.getFrom("http", path, header)
}

// getFrom is get from one of the servers of HTTP.
func (g *gateway) getFrom(server, path string, header http.Header) (*http.Response, string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.At[server]+path, nil)
	require.NoError(g.t, err)
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(g.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(g.t, err)
	return response, string(body)
}

// post asks by JSON, and returns the status and the answer.
func (g *gateway) post(body string) (int, string) {
	g.t.Helper()
	response, err := http.Post(g.url("/json"), "application/json", strings.NewReader(body))
	require.NoError(g.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(g.t, err)
	return response.StatusCode, string(text)
}

// answered sends a request as it is written, from an address of this machine, and returns what comes until the
// connection is closed. It is empty if nobody listens.
func answered(t testing.TB, from, to, request string) string {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		return ""
	}
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, strings.Replace(request, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
	require.NoError(t, err)
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// statusOf is the status of an answer.
func statusOf(answer string) string {
	_, rest, _ := strings.Cut(answer, " ")
	status, _, _ := strings.Cut(rest, " ")
	return status
}

// calls is how many commands of the module a server has run.
func calls(s *server.Server) (n int) {
	for name, text := range s.Info("commandstats") {
		if strings.HasPrefix(name, "cmdstat_cl.") {
			var count int
			_, _ = fmt.Sscanf(text, "calls=%d", &count)
			n += count
		}
	}
	return n
}
