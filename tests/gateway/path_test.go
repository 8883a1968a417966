package gateway_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

var (
	languageBlock = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```")
	counts        = regexp.MustCompile(`((?:limited|error)" => \(integer\)|throttle_(?:allowed|shadowed):) ?[0-9]+`) // halve with time
)

// ofThePage is the lines of the page about a program, as one that asks 73 times.
const ofThePage = `package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/policies"
)

func main() {
	ctx, client := context.Background(), redis.NewClient(&redis.Options{Addr: %q})
	%s
	for { // the first read may come after the first call
		%s
		if err != nil || len(result.Policies) > 0 {
			break
		}
	}
	shadowed := 0
	for range 73 {
		%s
		if err != nil || result.Limited {
			panic(fmt.Sprint(result, err))
		}
		if result.Shadowed {
			shadowed++
		}
	}
	fmt.Println(shadowed)
}
`

// From a log to a limit that is enforced and changed, as docs/limits-in-production.md has it typed, with its gateway
// and its program.
func TestALimitFromTheLogToProduction(t *testing.T) {
	t.Parallel()
	size.NeedsProgram(t, "curl")
	var sh, text []string
	var file, calls string
	for _, m := range languageBlock.FindAllStringSubmatch(shipped(t, "docs", "limits-in-production.md"), -1) {
		switch m[1] {
		case "sh":
			sh = append(sh, m[2])
		case "text":
			text = append(text, m[2])
		case "yaml":
			file = m[2]
		case "go":
			calls = m[2]
		}
	}
	require.Len(t, sh, 9)
	require.Len(t, text, 4)
	folder := t.TempDir()
	s := server.Start(t)
	g := start(t, s.Addr(), file)
	cli, err := server.CLIPath()
	require.NoError(t, err)
	typed := fmt.Sprintf("#!/bin/sh\nexec '%s' --no-raw -p %d \"$@\"\n", cli, s.Port)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "redis-cli"), []byte(typed), 0o755))
	run := func(lines string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", strings.ReplaceAll(lines, "127.0.0.1:8080", g.At["http"]))
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		printed, err := cmd.CombinedOutput()
		require.NoError(t, err, string(printed))
		return string(printed)
	}
	// rehearses waits until somebody else is asked about by the hash, whose shadow is in no header field.
	rehearses := func() {
		t.Helper()
		await(t, "the gateway decides by the hash", func() bool {
			answer, _ := g.get("/check/", http.Header{"X-Forwarded-For": {"192.0.2.99"}})
			return answer.StatusCode == 200 && !strings.Contains(answer.Header.Get("RateLimit-Policy"), "q=1000")
		})
	}

	// 1: the log, and what is suggested.
	log := strings.Split(strings.TrimSpace(sh[0]), "\n")
	require.Len(t, log, 3)
	replay := strings.NewReplacer("go run ./bench/throttle-log", kit.Built(t, "bench/throttle-log"), "build/throttle-replay", kit.Built(t, "cmd/throttle-replay"))
	assert.Contains(t, run(replay.Replace(strings.Join(log[1:], "\n"))), text[0])

	// 2: the gateway is started above, and lets a loop through.
	require.Equal(t, "build/throttle-gateway limits.yaml\n", sh[1])

	// The program is built first, since counts halve with time.
	made, call, found := strings.Cut(calls, "result, err := ")
	require.True(t, found)
	call = "result, err := " + call
	source := filepath.Join(folder, "main.go")
	require.NoError(t, os.WriteFile(source, fmt.Appendf(nil, ofThePage, s.Addr(), made, strings.Replace(call, "user:42", "somebody", 1), call), 0o644))
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "service"), source)
	build.Dir = root // for go.work
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	// 3 and 4: the rehearsal denies nobody, and names who would have been denied.
	run(sh[2])
	rehearses()
	run(sh[3])
	assert.Equal(t, "2\n", run("./service 2>service.log"))
	same := func(lines string) string { return counts.ReplaceAllString(lines, "$1 N") }
	assert.Equal(t, same(text[1]), same(strings.ReplaceAll(run(sh[4]), "\r", "")))

	// 5: it denies the loop, and nobody else.
	run(sh[5])
	await(t, "the loop is denied", func() bool { return run(sh[6]) == text[2] })

	// 7: one may go on, another may not.
	run(sh[7])
	await(t, "one is let through, one is banned", func() bool { return run(sh[8]) == text[3] })
}
