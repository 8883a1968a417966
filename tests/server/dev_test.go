package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// throttle-dev reads bytes that are no commands as a server does: the same answers, and the same end of the connection.
func TestThrottleDevReadsHostileBytesAsAServerDoes(t *testing.T) {
	t.Parallel()
	program, err := server.DevProgram()
	require.NoError(t, err)
	const ping = "*1\r\n$4\r\nPING\r\n"
	echo := func(bytes int) string {
		return fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", bytes, strings.Repeat("x", bytes))
	}
	words := func(n int) string { return fmt.Sprintf("*%d\r\n$3\r\nDEL\r\n", n) + strings.Repeat("$1\r\nx\r\n", n-1) }
	hostile := []string{
		"PING\r\n", "PING\n", "  ping  \r\n", "\r\n", "\n\n", " \t\r\n", "\r\r\n", "PING\r\r\n", `ECHO "a\x41\n"` + "\r\n", "ECHO 'it\\'s'\r\n", `ECHO ""` + "\r\n",
		`ECHO "a` + "\r\n" + ping, `ECHO 'a'b` + "\r\n" + ping, `ECHO "a"b` + "\r\n", "ECHO a\"b\"\r\n",
		strings.Repeat("x", 70<<10), strings.Repeat("x", 1<<20), "ECHO " + strings.Repeat("x", 60<<10) + "\r\n",
		ping, ping + ping, "*1\r\n$4\r\nPINGxx", "*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", "*1\rx$4\rxPING\r\n",
		"*0\r\n" + ping, "*-1\r\n" + ping, "*-2147483649\r\n" + ping, "*-9223372036854775808\r\n" + ping,
		"*\r\n", "*x\r\n", "*+1\r\n", "*01\r\n", "*-0\r\n", "* 1\r\n", "*1 \r\n", "*1x\r\n", "*1.0\r\n", "*2147483648\r\n", "*9223372036854775808\r\n", "**1\r\n",
		"*2147483647\r\n" + ping, "*2147483647\r\n$4\r\nPING\r\n", "*" + strings.Repeat("1", 70<<10), "*" + strings.Repeat("1", 1<<20),
		"*1\r\n$0\r\n\r\n" + ping, "*1\r\n$-1\r\n" + ping, "*1\r\n$x\r\n", "*1\r\n$\r\n", "*1\r\n$+4\r\nPING\r\n", "*1\r\n$04\r\nPING\r\n", "*1\r\n$4 \r\nPING\r\n", "*1\r\n$536870913\r\n", "*1\r\n$9223372036854775808\r\n",
		"*1\r\n$536870912\r\nx", "*1\r\n$" + strings.Repeat("1", 70<<10), "*1\r\n$" + strings.Repeat("1", 1<<20),
		"*1\r\nPING\r\n", "*1\r\n:4\r\n", "*2\r\n$4\r\nECHO\r\nx\r\n", "*1\r\n*1\r\n", "*1\r\n\r\n", "*1\r\n\n\r\n", "*1\r\nx", "*1\r\n\xff\r\n",
		ping + "*x\r\n" + ping, ping + "garbage\r\n" + ping, ping + "*1\r\nx\r\n" + ping, ping + `"` + "\r\n" + ping, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n", "MULTI\r\n*x\r\n",
		"unknown " + strings.Repeat("word ", 50) + "\r\n", strings.Repeat("u", 300) + " " + strings.Repeat("w", 300) + "\r\n", "MULTI\r\nunknown 'a b'\r\nEXEC\r\n",
		"+OK\r\n", ":1\r\n", "$4\r\nPING\r\n", "\x16\x03\x01\r\n", "{\"a\": 1}\r\n", "<xml>\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\n\r\n" + ping, "post\r\n" + ping, "pOsT x\r\n" + ping, "Host: x\r\n" + ping, "HOST:\r\n" + ping, "Host x\r\n" + ping, "POSTS x\r\n" + ping, "*1\r\n$4\r\nPOST\r\n" + ping, "*2\r\n$5\r\nhost:\r\n$1\r\nx\r\n" + ping, "MULTI\r\nPOST\r\n",
		echo(16384), echo(16385), words(10), words(11), "*11\r\n", "*12\r\n" + ping, "*2\r\n$4\r\nECHO\r\n$16385\r\n",
		"AUTH secret\r\n" + echo(20000), "AUTH secret\r\n" + words(20), "AUTH wrong\r\n" + words(20), "AUTH wrong\r\n" + echo(20000),
		"QUIT\r\n" + ping,
	}
	for _, password := range []string{"", "secret"} {
		real, dev := server.Start(t, server.Password(password)), server.Start(t, server.Run(program), server.Password(password))
		if real.Program.IsValkey() && real.Program.Major >= 9 {
			t.Skip("Valkey 9 reads some of this in its own way: it checks the ends of lines, and the password before the command. throttle-dev does as Redis")
		}
		var sending sync.WaitGroup
		for at := range 16 {
			sending.Go(func() {
				for i := at; i < len(hostile); i += 16 {
					want, got := answers(real.Addr(), hostile[i]), answers(dev.Addr(), hostile[i])
					assert.Equal(t, want, got, "password %q, sent: %.100q", password, hostile[i])
				}
			})
		}
		sending.Wait()
		assert.Equal(t, int64(0), real.Do("EXISTS", "k").Int)
		assert.Equal(t, int64(0), dev.Do("EXISTS", "k").Int)
	}
}

// answers are the lines that a server answers to these bytes, and "closed" if it then closes the connection.
func answers(addr, sent string) []string {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return []string{err.Error()}
	}
	defer conn.Close()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = conn.Write([]byte(sent))
	}()
	var all strings.Builder
	buffer := make([]byte, 64<<10)
	for quiet := false; ; {
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := conn.Read(buffer)
		all.Write(buffer[:n])
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
			return append(strings.FieldsFunc(all.String(), isEnd), "closed")
		case err == nil:
			quiet = false
			continue
		}
		select {
		case <-written:
		default:
			continue
		}
		if quiet {
			return strings.FieldsFunc(all.String(), isEnd)
		}
		if err := answersOthers(addr); err != nil {
			return []string{err.Error()}
		}
		quiet = true // if it still is after the server has answered another connection, nothing more comes
	}
}

func isEnd(r rune) bool { return r == '\r' || r == '\n' }

// answersOthers waits until the server answers a connection of its own, if only by an error.
func answersOthers(addr string) error {
	c, err := resp.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Do("PING")
	return err
}
