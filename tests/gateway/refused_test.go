package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"redis-throttle/tests/server"
)

const refusedTotal = "throttle_gateway_requests_refused_total"

// raw sends bytes as they are, and reads nothing.
type raw struct{}

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Name() string { return "proto" }

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

// asksRaw asks with the bytes of a message.
func (g *gateway) asksRaw(wire []byte) (string, error) {
	response := &rls.RateLimitResponse{}
	err := g.conn.Invoke(g.t.Context(), rls.RateLimitService_ShouldRateLimit_FullMethodName, wire, response, grpc.ForceCodecV2(raw{}))
	return shown(response), err
}

// wired is a request of the domain shop with one entry, whatever its bytes are.
func wired(key, value string) []byte {
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key)
	entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), value)
	descriptor := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
	wire := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "shop")
	return protowire.AppendBytes(protowire.AppendTag(wire, 2, protowire.BytesType), descriptor)
}

// Envoy lets through what the service refuses. So no header field of a client is too long for a decision, nor do bytes
// that are no text keep it from one.
func TestWhateverAClientSendsIsLimited(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic)
	long := strings.Repeat("x", 1<<20) // in two descriptors: 2 MiB
	for i := range 11 {
		want := fmt.Sprintf("OK %d %d", 9-i, 19-i)
		if i == 10 {
			want = "OVER 0! 10"
		}
		require.Equal(t, want, g.asks(ask("shop", 0, "user="+long, "path="+long)))
		_, err := g.asksRaw(wired("user", "caf\xe9"))
		require.NoError(t, err)
	}
	for value, want := range map[string]string{"caf\xe9": "OVER 0!", "caf%E9": "OVER 0!", "caf\xe8": "OK 9", "café": "OK 9", "\xff\xfe": "OK 9"} {
		got, err := g.asksRaw(wired("user", value))
		require.NoError(t, err, "%q", value)
		assert.Equal(t, want, got, "%q", value)
	}
	assert.Zero(t, g.metric(refusedTotal))
}

// What is refused before it can be decided is counted and in the log.
func TestWhatIsRefusedIsCounted(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic+routesOfHostile, "MAX_REQUEST_BYTES=10000")
	refused := func(via, reason string) func() bool {
		return func() bool { return g.metric(refusedTotal, `via="`+via+`"`, `reason="`+reason+`"`) == 1 }
	}
	counted := func(via, reason string) {
		t.Helper()
		await(t, via+": "+reason, refused(via, reason))
		assert.Contains(t, g.Log(), "via="+via)
		assert.Contains(t, g.Log(), reason)
	}
	_, err := g.ShouldRateLimit(t.Context(), ask("shop", 0, "user="+strings.Repeat("x", 20000)))
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	counted("grpc", "too long")
	_, err = g.asksRaw([]byte{0xff})
	assert.Equal(t, codes.Internal, status.Code(err))
	counted("grpc", "unreadable")
	_ = g.asks(ask("shop", 0))
	counted("grpc", "incomplete")

	g.post("{")
	counted("json", "unreadable")
	status, _ := g.post(`{"domain": "` + strings.Repeat("x", 20000))
	assert.Equal(t, http.StatusRequestEntityTooLarge, status)
	counted("json", "too long")

	says := func(request string) string { return answered(t, "127.0.0.1", g.At["http"], request) }
	assert.Contains(t, says("GET /check/%zz HTTP/1.1\r\nHost: x\r\n\r\n"), "400 Bad Request")
	counted("check", "unreadable")
	assert.Contains(t, says("GET /check/ HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 20000)+"\r\n\r\n"), "431 ")
	counted("check", "too long")
	for i, request := range []string{
		"GET /check/ HTTP/1.1\r\n\r\n", "GET /check/ HTTP/1.1\r\nHost: a b\r\n\r\n", "GET /check/ HTTP/1.1\r\nHost: x\r\nX: a\x01b\r\n\r\n",
		"GET /check/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n", "GET /check/ HTTP/3.0\r\nHost: x\r\n\r\n", "GET /check/ HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n",
	} {
		assert.Regexp(t, "^HTTP/1.1 [45]", says(request), request)
		await(t, request, func() bool { return g.metric(refusedTotal, `via="check"`, `reason="unreadable"`) == float64(i+2) })
	}
	g.get("/forward", nil)
	counted("check", "incomplete")
	g.get("/domains/none/check/", nil)
	counted("check", "no routes")
	assert.NotContains(t, g.Log(), "xxx", "nothing of a request is in a log")
}

// Where the path of a request is in a header field, any is decided: the service behind the proxy may take what this one
// cannot decode.
func TestAnyPathIsDecided(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), "domain: web\nroutes:\n- match: /none\n  descriptors: [[{key: login}]]\n- match: /\n  descriptors: [[{key: all}]]\n- match: /login\n  descriptors: [[{key: login}]]\n"+
		"descriptors:\n- {key: all, limits: [FIXED 1000/y]}\n- {key: login, limits: [FIXED 1000/y]}\n")
	for path, want := range map[string]string{"/check*": "web.all", "/check/login#x": "web.login", "/check/login%23x": "web.all"} {
		answer := answered(t, "127.0.0.1", g.At["http"], "GET "+path+" HTTP/1.1\r\nHost: x\r\nX-Forwarded-Uri: /none\r\nX-Forwarded-Method: PUT\r\n\r\n")
		assert.Contains(t, answer, `Ratelimit-Policy: "`+want, "%s, whatever the client writes", path)
	}
	for _, path := range []string{"/check?x", "/check?", "/check"} { // nginx asks so for "GET http://x?x", which has no path
		answer := answered(t, "127.0.0.1", g.At["http"], "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		assert.Contains(t, answer, `Ratelimit-Policy: "web.all`, path)
		answer = answered(t, "127.0.0.1", g.At["http"], "GET "+path+" HTTP/1.1\r\nHost: x\r\nX-Forwarded-Uri: /none\r\n\r\n")
		assert.Contains(t, answer, "400 Bad Request", path)
	}
	for uri, want := range map[string]string{
		"/login#x": "web.login", "/login#%zz": "web.login", "/login%23x": "web.all", "/%zz": "web.all", "*": "web.all", "/%": "web.all", "/a b%": "web.all", "h:443": "web.all", "http://h/login": "web.login",
		"/%zz/../%6cogin": "web.login", "/login?%zz": "web.login",
	} {
		response, _ := g.get("/forward", http.Header{"X-Forwarded-Uri": {uri}})
		assert.Equal(t, 200, response.StatusCode, uri)
		assert.Contains(t, strings.Join(response.Header.Values("RateLimit-Policy"), ", "), want, uri)
	}
}
