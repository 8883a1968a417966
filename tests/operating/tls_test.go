package operating_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

func TestCallsThroughTLS(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	dir, pool := server.Certificate(t)
	s, err := server.TryStart(t, server.Password("secret"), server.Config(
		"tls-port "+port, "tls-auth-clients no", fmt.Sprintf("tls-cert-file %s/crt", dir),
		fmt.Sprintf("tls-key-file %s/key", dir), fmt.Sprintf("tls-ca-cert-file %s/crt", dir)))
	if err != nil && strings.Contains(err.Error(), ">>> 'tls-") {
		t.Skip("this server was built without TLS")
	}
	require.NoError(t, err)

	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Password: "secret", TLSConfig: config})
	t.Cleanup(func() { _ = c.Close() })
	ctx := t.Context()
	limit := []any{"CL.LIMIT", "k", "RATE", "1/h", "COMPACT"}
	for want := range int64(2) {
		answer, err := c.Do(ctx, limit...).Int64Slice()
		require.NoError(t, err)
		assert.Equal(t, want, answer[0])
	}
	// One that waits is answered through TLS, too.
	_, err = c.Do(ctx, "CL.LEASE", "slots", "SLOTS", "1", "TTL", "1h", "ID", "a").Result()
	require.NoError(t, err)
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Do(ctx, "CL.LEASE", "slots", "SLOTS", "1", "TTL", "1h", "ID", "b", "TIMEOUT", "1h").Result()
		waiting <- err
	}()
	require.Eventually(t, func() bool { return s.Info("throttle")["throttle_leases_waiting"] == "1" }, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, c.Do(ctx, "CL.RELEASE", "slots", "ID", "a").Err())
	require.NoError(t, <-waiting)

	stranger := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, TLSConfig: config, MaxRetries: -1})
	t.Cleanup(func() { _ = stranger.Close() })
	assert.ErrorContains(t, stranger.Do(ctx, limit...).Err(), "NOAUTH")
}
