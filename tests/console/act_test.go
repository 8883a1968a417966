package console_test

import (
	"bytes"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// A transaction goes on after a command that fails: the answer says what was done.
func TestWhatIsDoneInPartIsSaidSo(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := show(t, "redis://"+s.Addr())
	s.MustDo("SET", "{throttle:policies}:log", "x")
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 30/m"}))
	assert.Contains(t, p.done, "It was done, and it could not be written down: WRONGTYPE")
	assert.Equal(t, "RATE 30/m", s.MustDo("HGET", "throttle:policies", "api").Text)
	require.Empty(t, p.act(map[string]any{"act": "ban", "key": []byte("k"), "for": "1h"}))
	assert.Contains(t, p.done, "It was done, and it could not be written down: WRONGTYPE")

	s.MustDo("DEL", "{throttle:policies}:log")
	s.MustDo("HSET", "throttle:policies", "@version", "abc")
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "", "was": "RATE 30/m"}))
	assert.Contains(t, p.done, "It was done, and @version could not be raised, by which programs see changes: ERR hash value is not an integer")
	assert.EqualValues(t, 0, s.MustDo("HEXISTS", "throttle:policies", "api").Int)
	assert.EqualValues(t, 1, s.MustDo("XLEN", "{throttle:policies}:log").Int)
}

// swallows stands before a server, passes EXEC on, and ends the connection in place of its answer.
func swallows(t testing.TB, s *server.Server) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go swallow(client, s.Addr())
		}
	}()
	return listener.Addr().String()
}

func swallow(client net.Conn, addr string) {
	defer client.Close()
	behind, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer behind.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		_, _ = behind.Write(buffer[:n])
		exec := bytes.Contains(bytes.ToLower(buffer[:n]), []byte("\r\nexec\r\n"))
		if n, err = behind.Read(buffer); err != nil || exec {
			return
		}
		_, _ = client.Write(buffer[:n])
	}
}

// Nobody knows whether an act happened whose answer was lost.
func TestAnActWithoutAnAnswerMayHaveHappened(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := show(t, "redis://"+swallows(t, s))
	for _, act := range []map[string]any{
		{"act": "ban", "key": []byte("k"), "for": "1h"},
		{"act": "policy", "field": "api", "value": "RATE 30/m"},
		{"act": "reset", "key": []byte("k")},
	} {
		assert.Equal(t, "the answer of Redis did not come: it may have happened. Look before you try again", p.act(act))
	}
	assert.Equal(t, "RATE 30/m", s.MustDo("HGET", "throttle:policies", "api").Text)
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "k").Int)
	s.Kill()
	p = show(t, "redis://"+s.Addr()) // which has no connection on which something may have been sent
	assert.Equal(t, "Redis does not answer: nothing was done", p.act(map[string]any{"act": "ban", "key": []byte("k"), "for": "1h"}))
	assert.Equal(t, "Redis does not answer: nothing was done", p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 1/m"}))
}

// A reset is for keys of the limiter alone, and keeps the console's own.
func TestAResetDeletesNothingElse(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := show(t, "redis://"+s.Addr())
	s.MustDo("SET", "session", "of somebody")
	s.MustDo("LPUSH", "jobs", "x")
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 30/m"}))
	for key, says := range map[string]string{
		"session": "no limiter wrote", "jobs": "no limiter wrote",
		"throttle:policies": "the console keeps it", "{throttle:policies}:log": "the console keeps it",
	} {
		assert.Contains(t, p.act(map[string]any{"act": "reset", "key": []byte(key)}), says)
		assert.EqualValues(t, 1, s.MustDo("EXISTS", key).Int, key)
	}
	for _, write := range [][]string{{"CL.LIMIT", "k", "RATE", "5/s"}, {"CL.LEASE", "k", "SLOTS", "1", "TTL", "1h", "ID", "w"}, {"CL.BAN", "k", "1h"}} {
		s.MustDo(write...)
		require.Empty(t, p.act(map[string]any{"act": "reset", "key": []byte("k")}))
		assert.EqualValues(t, 0, s.MustDo("EXISTS", "k").Int, write)
	}
}

// asUser opens the console for a user who has the rights of the page without one; "" takes none away.
func asUser(t testing.TB, s *server.Server, without string) *page {
	t.Helper()
	text, err := os.ReadFile("../../docs/console.md")
	require.NoError(t, err)
	rights := []string{"ACL", "SETUSER", "operator", "on", ">password", "~*", "-@all"}
	for _, some := range regexp.MustCompile("`(\\+[^`]*)`").FindAllStringSubmatch(string(text), -1) {
		rights = append(rights, strings.Fields(some[1])...)
	}
	if without != "" {
		rights = append(rights, "-"+without)
	}
	s.MustDo(rights...)
	return show(t, "redis://operator:password@"+s.Addr())
}

// A command that is not queued aborts its transaction: the answer says which, and why.
func TestAMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := asUser(t, s, "xadd")
	for _, act := range []map[string]any{{"act": "ban", "key": []byte("k"), "for": "1h"}, {"act": "policy", "field": "api", "value": "RATE 30/m"}} {
		why := p.act(act)
		assert.Contains(t, why, "NOPERM")
		assert.Contains(t, why, "xadd")
	}
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "k").Int)
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "throttle:policies").Int)
}

// Connections are shared: none keeps the watch of an act that was given up, even where UNWATCH is refused.
func TestAnActThatIsGivenUpLeavesNoWatch(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := asUser(t, s, "unwatch")
	assert.Contains(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 30/m", "was": "RATE 1/m"}), "somebody else has changed it")
	s.MustDo("HSET", "throttle:policies", "api", "RATE 60/m")
	assert.NotRegexp(t, `flags=\w*d`, s.MustDo("CLIENT", "LIST").Text, "a watch that the change has spoiled")
	require.Empty(t, p.act(map[string]any{"act": "ban", "key": []byte("k"), "for": "1h"}))
	assert.EqualValues(t, 1, s.MustDo("EXISTS", "k").Int)
}
