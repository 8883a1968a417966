package ratelimit_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/codes"
	"redis-throttle/tests/server"
)

// errorsTable is spec/clients/outages.json.
type errorsTable struct {
	Password  string
	Crossslot struct{ Code, Says string }
	Cases     []struct {
		Server, Code, Says string
		TLS, Password      bool
		Kinds              []string
	}
}

// Errors name the server and what is wrong, on every kind of client, as spec/clients/outages.json says.
func TestErrorsNameTheServerAndWhatIsWrong(t *testing.T) {
	t.Parallel()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "spec/clients/outages.json"))
	require.NoError(t, err)
	var table errorsTable
	require.NoError(t, json.Unmarshal(text, &table))
	at, trusted := brokenServers(t)
	for _, c := range table.Cases {
		kinds := c.Kinds
		if kinds == nil {
			kinds = []string{"server", "cluster", "sentinel"}
		}
		for _, kind := range kinds {
			t.Run(fmt.Sprint(kind, ": ", c.Server), func(t *testing.T) {
				t.Parallel()
				o := &redis.UniversalOptions{Addrs: []string{at[c.Server]}, DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: time.Second,
					MaxRetries: -1, MaxRedirects: -1}
				if c.TLS {
					o.TLSConfig = &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"}
				}
				if c.Password {
					o.Password = table.Password
				}
				err := asksBy(t, kind, o)
				require.Error(t, err)
				assert.EqualValues(t, c.Code, codes.Of(err), "%v", err)
				assert.Regexp(t, "(?is)"+c.Says, err.Error())
				if kind != "sentinel" {
					assert.Contains(t, err.Error(), at[c.Server])
				}
				assert.NotContains(t, err.Error(), table.Password)
			})
		}
	}
	t.Run("keys of two slots", func(t *testing.T) {
		t.Parallel()
		s := server.Start(t, server.Cluster())
		s.MustDo("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
		limits := ratelimit.Limits{ratelimit.Rate(1, day)}
		_, err := ratelimit.New(s.Client(), ratelimit.Options{}).LimitAll(t.Context(),
			[]ratelimit.Key{{Name: "a", Limits: limits}, {Name: "b", Limits: limits}}, 1)
		assert.EqualValues(t, table.Crossslot.Code, codes.Of(err), "%v", err)
		assert.Regexp(t, table.Crossslot.Says, fmt.Sprint(err))
	})
}

// brokenServers are the servers of the table, and what a client trusts.
func brokenServers(t *testing.T) (at map[string]string, trusted *x509.CertPool) {
	t.Helper()
	speaksTLS := func(dir string) string {
		port := strconv.Itoa(server.FreePort(t))
		server.Start(t, server.Config("tls-port "+port, "tls-cert-file "+dir+"/crt", "tls-key-file "+dir+"/key", "tls-auth-clients no"))
		return "127.0.0.1:" + port
	}
	hangs := server.Start(t)
	hangs.Pause()
	t.Cleanup(hangs.Resume)
	closes, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = closes.Close() })
	go func() {
		for {
			conn, err := closes.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	own, _ := server.Certificate(t)
	late, trusted := server.Certificate(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	untrusted, locked := speaksTLS(own), server.Start(t, server.Password("another")).Addr()
	return map[string]string{
		"nobody listens": net.JoinHostPort("127.0.0.1", strconv.Itoa(server.FreePort(t))), "no such name": "nobody.invalid:6379",
		"hangs": hangs.Addr(), "closes": closes.Addr().String(), "speaks no TLS": server.Start(t).Addr(), "speaks TLS alone": untrusted,
		"untrusted certificate": untrusted, "expired certificate": speaksTLS(late), "another password": locked, "a password": locked,
	}, trusted
}

func asksBy(t *testing.T, kind string, o *redis.UniversalOptions) error {
	t.Helper()
	var client redis.UniversalClient
	switch kind {
	case "server":
		client = redis.NewClient(o.Simple())
	case "cluster":
		client = redis.NewClusterClient(o.Cluster())
	default:
		o.MasterName = "mymaster"
		client = redis.NewFailoverClient(o.Failover())
	}
	defer func() { _ = client.Close() }()
	_, err := ratelimit.New(client, ratelimit.Options{}).Limit(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(1, day)}, 1)
	return err
}
