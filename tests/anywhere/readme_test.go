// Package anywhere tests what a person with macOS, Windows or Alpine types first: README's first command, to
// throttle-dev. It runs wherever Go does.
package anywhere

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience bounds a hang.
const patience = 5 * time.Minute

func TestClientsTypeTheFirstCommandOfREADME(t *testing.T) {
	t.Parallel()
	program := exec.Command(throttleDev(t), "--port", "0")
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	defer func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	}()
	first, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, address, _ := strings.Cut(first, " on ")
	address, _, _ = strings.Cut(address, ",")
	requireREADME(t, address)
}

// make run starts throttle-dev where no server can load the module. This system says that it is macOS.
func TestMakeRunAnswersTheFirstCommandOfREADMEWhereNoServerLoadsTheModule(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	if runtime.GOOS == "windows" {
		t.Skip("a program named uname without .exe is not found")
	}
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "uname"), []byte("#!/bin/sh\necho Darwin\n"), 0o755))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())

	run := exec.Command("make", "run", "PORT="+strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	run.Dir = "../.."
	run.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	var said strings.Builder
	run.Stdout, run.Stderr = &said, &said
	require.NoError(t, run.Start())
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	client := redis.NewClient(&redis.Options{Addr: address, DialerRetries: 1})
	defer client.Close()
	hang := time.After(patience)
	for client.Ping(t.Context()).Err() != nil {
		select {
		case err = <-ended:
			t.Fatal("make run has ended: ", err, said.String())
		case <-hang:
			_ = run.Process.Kill()
			t.Fatal("throttle-dev does not answer")
		case <-time.After(10 * time.Millisecond):
		}
	}
	requireREADME(t, address)
	_ = client.Shutdown(t.Context()) // the connection ends without a reply
	select {
	case err = <-ended:
		require.NoError(t, err, said.String())
	case <-hang:
		_ = run.Process.Kill()
		t.Fatal("throttle-dev did not end")
	}
	assert.Contains(t, said.String(), "no server on Darwin can load the module, which needs Linux: starting throttle-dev")
}

// throttleDev is the program that scripts/build-dev left, or a new one.
func throttleDev(t *testing.T) string {
	suffix := map[bool]string{true: ".exe"}[runtime.GOOS == "windows"]
	file, err := filepath.Abs("../../build/throttle-dev" + suffix)
	require.NoError(t, err)
	if _, err = os.Stat(file); err == nil {
		return file
	}
	file = filepath.Join(t.TempDir(), "throttle-dev"+suffix)
	built, err := exec.Command("go", "build", "-o", file, "redis-throttle/cmd/throttle-dev").CombinedOutput()
	require.NoError(t, err, string(built))
	return file
}

// requireREADME sends README's first command with go-redis, and with redis-cli if it is on PATH, and compares the
// replies with README's.
func requireREADME(t *testing.T, address string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, session, found := strings.Cut(string(text), "\n$ redis-cli ")
	require.True(t, found, "README.md has no session of redis-cli")
	command, rest, _ := strings.Cut(session, "\n")
	shown, _, _ := strings.Cut(rest, "\n```")

	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	var words []any
	for word := range strings.FieldsSeq(command) {
		words = append(words, word)
	}
	reply, err := client.Do(t.Context(), words...).Int64Slice()
	require.NoError(t, err)
	var lines []string
	for i, n := range reply {
		lines = append(lines, fmt.Sprintf("%d) (integer) %d", i+1, n))
	}
	assert.Equal(t, shown, strings.Join(lines, "\n"), "go-redis")

	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Log("there is no redis-cli: only go-redis sent the command")
		return
	}
	require.NoError(t, client.FlushAll(t.Context()).Err())
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	printed, err := exec.Command(cli, append([]string{"-p", port, "--no-raw"}, strings.Fields(command)...)...).CombinedOutput()
	require.NoError(t, err, string(printed))
	assert.Equal(t, shown, strings.TrimSpace(strings.ReplaceAll(string(printed), "\r\n", "\n")), "redis-cli")
}
