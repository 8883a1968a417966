package gateway_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"redis-throttle/tests/server"
)

// asksByTLS asks by a connection of its own.
func (g *gateway) asksByTLS(c *tls.Config) (string, error) {
	g.t.Helper()
	conn, err := grpc.NewClient(g.At["grpc"], grpc.WithTransportCredentials(credentials.NewTLS(c)))
	require.NoError(g.t, err)
	defer conn.Close()
	response, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(g.t.Context(), ask("shop", 0, "user=1"))
	if err != nil {
		return "", err
	}
	return shown(response), nil
}

// A new certificate serves new connections without a restart, and the old one serves none.
func TestTheCertificateOfGRPCIsReadAgain(t *testing.T) {
	t.Parallel()
	dir, old := server.Certificate(t)
	g := start(t, server.Start(t).Addr(), basic, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+dir+"/crt", "GRPC_SERVER_TLS_KEY="+dir+"/key")
	later, fresh := server.Certificate(t)
	got, err := g.asksByTLS(&tls.Config{RootCAs: old})
	require.NoError(t, err)
	assert.Equal(t, "OK 9", got)
	_, err = g.asksByTLS(&tls.Config{RootCAs: fresh})
	assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	for _, name := range []string{"crt", "key"} {
		require.NoError(t, os.Rename(filepath.Join(later, name), filepath.Join(dir, name)))
	}
	got, err = g.asksByTLS(&tls.Config{RootCAs: fresh})
	require.NoError(t, err)
	assert.Equal(t, "OK 8", got)
	_, err = g.asksByTLS(&tls.Config{RootCAs: old})
	assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
}

// With an authority for clients, those that it has signed are answered, and no others.
func TestClientsOfGRPCNeedACertificate(t *testing.T) {
	t.Parallel()
	dir, servers := server.Certificate(t)
	known, _ := server.Certificate(t)
	unknown, _ := server.Certificate(t)
	trusted, _ := server.Certificate(t) // by the system, as the authorities of the web are
	g := start(t, server.Start(t).Addr(), basic, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+dir+"/crt", "GRPC_SERVER_TLS_KEY="+dir+"/key",
		"GRPC_CLIENT_TLS_CACERT="+known+"/crt", "SSL_CERT_FILE="+trusted+"/crt")
	with := func(pool *x509.CertPool, client string) *tls.Config {
		pair, err := tls.LoadX509KeyPair(client+"/crt", client+"/key")
		require.NoError(t, err)
		return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
	}
	got, err := g.asksByTLS(with(servers, known))
	require.NoError(t, err)
	assert.Equal(t, "OK 9", got)
	for what, c := range map[string]*tls.Config{"none": {RootCAs: servers}, "another": with(servers, unknown), "one of the system": with(servers, trusted)} {
		_, err := g.asksByTLS(c)
		assert.Equal(t, codes.Unavailable, status.Code(err), "%s: %v", what, err)
	}
}

// Of the certificates that the authority has signed, only those for the name that is asked for are taken.
func TestClientsOfGRPCNeedTheNameOfTheSetting(t *testing.T) {
	t.Parallel()
	dir, servers := server.Certificate(t)
	pair, err := tls.LoadX509KeyPair(dir+"/crt", dir+"/key") // for 127.0.0.1, and its own authority
	require.NoError(t, err)
	client := &tls.Config{RootCAs: servers, Certificates: []tls.Certificate{pair}}
	for name, want := range map[string]codes.Code{"127.0.0.1": codes.OK, "envoy.example": codes.Unavailable} {
		g := start(t, server.Start(t).Addr(), basic, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+dir+"/crt", "GRPC_SERVER_TLS_KEY="+dir+"/key",
			"GRPC_CLIENT_TLS_CACERT="+dir+"/crt", "GRPC_CLIENT_TLS_SAN="+name)
		_, err := g.asksByTLS(client)
		assert.Equal(t, want, status.Code(err), "%s: %v", name, err)
		await(t, "the log says why", func() bool { return want == codes.OK || strings.Contains(g.Log(), "GRPC_CLIENT_TLS_SAN") })
	}
}

// getByTLS asks the web server by a connection of its own.
func (g *gateway) getByTLS(path string, c *tls.Config) (int, error) {
	g.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get("https://" + g.At["http"] + path)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// The port of HTTP has TLS as that of gRPC: a new certificate needs no restart, clients may need one for a name, and
// one without TLS is told.
func TestHTTPIsByTLS(t *testing.T) {
	t.Parallel()
	dir, old := server.Certificate(t)
	later, fresh := server.Certificate(t)
	redis := server.Start(t).Addr()
	secure := []string{"HTTP_SERVER_USE_TLS=true", "HTTP_SERVER_TLS_CERT=" + dir + "/crt", "HTTP_SERVER_TLS_KEY=" + dir + "/key"}
	g := start(t, redis, basic+routesOfHostile, secure...)
	status, err := g.getByTLS("/healthcheck", &tls.Config{RootCAs: old})
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	response, body := g.get("/healthcheck", nil)
	assert.Equal(t, http.StatusBadRequest, response.StatusCode)
	assert.Equal(t, "Client sent an HTTP request to an HTTPS server.\n", body)
	assert.EqualValues(t, 1, g.metric("throttle_gateway_requests_refused_total", `via="check"`, `reason="unreadable"`))
	assert.Contains(t, g.Log(), "HTTP_SERVER_USE_TLS")
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")), "gRPC is without")
	_, err = g.getByTLS("/healthcheck", &tls.Config{RootCAs: fresh})
	require.Error(t, err)
	for _, name := range []string{"crt", "key"} {
		require.NoError(t, os.Rename(filepath.Join(later, name), filepath.Join(dir, name)))
	}
	status, err = g.getByTLS("/healthcheck", &tls.Config{RootCAs: fresh})
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)

	known, _ := server.Certificate(t)
	pair, err := tls.LoadX509KeyPair(known+"/crt", known+"/key") // for 127.0.0.1
	require.NoError(t, err)
	mutual := append(secure, "HTTP_CLIENT_TLS_CACERT="+known+"/crt")
	for name, wants := range map[string]bool{"127.0.0.1": true, "nginx.example": false} {
		g := start(t, redis, basic, append(mutual, "HTTP_CLIENT_TLS_SAN="+name)...)
		_, err := g.getByTLS("/healthcheck", &tls.Config{RootCAs: fresh, Certificates: []tls.Certificate{pair}})
		assert.Equal(t, wants, err == nil, "%s: %v", name, err)
		_, err = g.getByTLS("/healthcheck", &tls.Config{RootCAs: fresh})
		assert.Error(t, err, "without a certificate")
	}
}
