package main

import (
	"bufio"
	"net"
	"os"
	process "os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is the program where a test asks for it.
func TestMain(m *testing.M) {
	if os.Getenv("THROTTLE_DEV_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The program ends in order at a signal, whatever its clients do.
func TestASignalEndsTheProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM")
	}
	for _, line := range []string{"PING", "CL.LEASE jobs SLOTS 0 TTL 1s ID a TIMEOUT 0", "BLPOP list 0", "EVAL 'while true do end' 0"} {
		t.Run(line, func(t *testing.T) {
			program := process.Command(os.Args[0], "--port", "0")
			program.Env = append(os.Environ(), "THROTTLE_DEV_MAIN=1")
			out, err := program.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, program.Start())
			first, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			_, addr, _ := strings.Cut(first, " on ")
			addr, _, _ = strings.Cut(addr, ",")
			conn, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Write([]byte("PING\r\n"))
			require.NoError(t, err)
			_, err = bufio.NewReader(conn).ReadString('\n')
			require.NoError(t, err)
			_, err = conn.Write(encoded(split(line)))
			require.NoError(t, err)
			if strings.HasPrefix(line, "EVAL") {
				awaitSilence(t, addr)
			}
			require.NoError(t, program.Process.Signal(syscall.SIGTERM))
			ended := make(chan string, 1)
			go func() {
				if err := program.Wait(); err != nil {
					ended <- err.Error()
					return
				}
				ended <- ""
			}()
			defer func() { _ = program.Process.Kill() }()
			assert.Empty(t, await(t, ended))
		})
	}
}

// awaitSilence waits until the server answers nobody: a script runs.
func awaitSilence(t *testing.T, addr string) {
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return true
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err = conn.Write([]byte("DBSIZE\r\n")); err != nil {
			return true
		}
		_, err = conn.Read(make([]byte, 16))
		return err != nil
	}, time.Minute, time.Millisecond)
}
