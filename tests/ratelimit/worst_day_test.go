package ratelimit_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/functions"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/codes"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// spec/clients/worst-day.json names these tests, and those of the other situations.

// becomes asks until the error of a call has a code, or there is none if that is empty.
func becomes(t *testing.T, l *ratelimit.Limiter, key, code string) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		_, err = l.Limit(t.Context(), key, ofMany, 1)
		return err == nil && code == "" || err != nil && string(codes.Of(err)) == code
	}, time.Minute, 10*time.Millisecond, "%v is not %q", &err, code)
}

// A server over its memory decides nothing until it has room. The connection stays.
func TestAServerThatIsFullIsAnOutageUntilItHasRoom(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for library, client := range onServer(t, s, quick) {
		l := ratelimit.New(client, ratelimit.Options{})
		becomes(t, l, library, "")
		s.MustDo("CONFIG", "SET", "maxmemory", "1")
		becomes(t, l, library+" new", "OUTAGE")
		s.MustDo("CONFIG", "SET", "maxmemory", "0")
		becomes(t, l, library+" new", "")
	}
}

// A password that was changed closes the connections of its user, and each new one is a mistake until the client has
// the new password.
func TestAPasswordThatChangesIsAMistakeUntilItIsRight(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	set := func(password string) {
		s.MustDo("ACL", "SETUSER", "limits", "reset", "on", ">"+password, "~*", "+@all")
		s.MustDo("CLIENT", "KILL", "USER", "limits")
	}
	for library, open := range map[string]func() client{
		"go-redis": func() client { return s.Client(server.User("limits", "right")) },
		"rueidis": func() client {
			return rueidislimit.Client(connect(t, rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: "limits", Password: "right"}))
		},
	} {
		set("right")
		l := ratelimit.New(open(), ratelimit.Options{})
		becomes(t, l, library, "")
		set("other")
		becomes(t, l, library, "MISTAKE")
		closed := 0 // a call may still meet the end of one of the connections that there were, of which rueidis has four
		for range 50 {
			_, err := l.Limit(t.Context(), library, ofMany, 1)
			if codes.Of(err) == "OUTAGE" {
				closed++
				continue
			}
			require.EqualValues(t, "MISTAKE", codes.Of(err), "%s: it stays one: %v", library, err)
		}
		require.LessOrEqual(t, closed, 4, library)
		set("right")
		becomes(t, l, library, "")
	}
}

// Connections outlive the certificate that they began with. A new one is shown the next, which the client has to trust.
func TestACertificateIsReplaced(t *testing.T) {
	t.Parallel()
	first, trusted := server.Certificate(t)
	second, _ := server.Certificate(t)
	stranger, _ := server.Certificate(t)
	text, err := os.ReadFile(second + "/crt")
	require.NoError(t, err)
	require.True(t, trusted.AppendCertsFromPEM(text))
	port := server.FreePort(t)
	s, err := server.TryStart(t, server.Config(fmt.Sprint("tls-port ", port), "tls-auth-clients no", "tls-cert-file "+first+"/crt", "tls-key-file "+first+"/key"))
	if err != nil && strings.Contains(err.Error(), ">>> 'tls-") {
		t.Skip("this server was built without TLS")
	}
	require.NoError(t, err)
	at := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	shows := func(dir string) { s.MustDo("CONFIG", "SET", "tls-cert-file", dir+"/crt", "tls-key-file", dir+"/key") }
	for library, open := range byTLS(t, at, trusted) {
		l := ratelimit.New(open(), ratelimit.Options{})
		becomes(t, l, library, "")
		shows(second)
		_, err := l.Limit(t.Context(), library, ofMany, 1)
		require.NoError(t, err, "%s: by the connection that is there", library)
		hangsUp := func() { s.MustDo("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }
		hangsUp()
		becomes(t, l, library, "")
		shows(stranger)
		hangsUp()
		becomes(t, l, library, "MISTAKE")
		shows(first)
		becomes(t, l, library, "")
	}
}

func byTLS(t *testing.T, at string, trusted *x509.CertPool) map[string]func() client {
	t.Helper()
	config := &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"}
	return map[string]func() client{
		"go-redis": func() client {
			single := redis.NewClient(&redis.Options{Addr: at, TLSConfig: config, MaxRetries: -1, DialerRetries: 1})
			t.Cleanup(func() { _ = single.Close() })
			return single
		},
		"rueidis": func() client {
			return rueidislimit.Client(connect(t, rueidis.ClientOption{InitAddress: []string{at}, TLSConfig: config, ForceSingleClient: true}))
		},
	}
}

// While a slot moves to a master that has neither module nor library, no call fails, and each is charged once.
func TestASlotMovesToAMasterWithoutTheLibrary(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	c := topology.StartCluster(t, server.WithoutModule())
	from, to := c.Masters()[0], c.Masters()[1]
	for library, client := range onCluster(t, c) {
		key := c.KeyOn(from, library)
		l := limiterOn(client, new(kit.Log), 0)
		_, err := l.Limit(t.Context(), key, fiveADay, 1)
		require.NoError(t, err, library)
		from.MustDo("DEL", key) // a key that the old master has not is asked for at the new one
		to.MustDo("FUNCTION", "FLUSH")
		c.BeginMove(c.Slot(key), from, to)
		for left := int64(4); left >= 0; left-- {
			result, err := l.Limit(t.Context(), key, fiveADay, 1)
			require.NoError(t, err, library)
			require.Equal(t, left, result.Remaining, library)
			if left == 2 {
				c.EndMove(c.Slot(key), from, to)
			}
		}
		assert.EqualValues(t, 1, to.MustDo("EXISTS", key).Int, library)
		require.Eventually(t, func() bool {
			_, err := l.Peek(t.Context(), key, fiveADay, 1)
			return err == nil && to.Do("FCALL_RO", "cl_version", "0").Int == int64(functions.Version())
		}, time.Minute, 10*time.Millisecond, "%s: it has the library", library)
	}
}
