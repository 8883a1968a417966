package replay_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

var (
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	textBlock  = regexp.MustCompile("(?s)```text\n(.*?)```")
	hashedName = regexp.MustCompile(`[0-9a-f]{12}`)
)

// The page's five minutes print what the page says. Names of clients are other ones in each run.
func TestThePageShowsWhatTheProgramPrints(t *testing.T) {
	t.Parallel()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "replay.md"))
	require.NoError(t, err)
	shells := shellBlock.FindAllStringSubmatch(string(page), -1)
	lines := strings.Split(shells[0][1], "\n")
	require.Equal(t, "make build-replay", lines[0])
	require.Equal(t, "go run ./bench/throttle-log >access.log", lines[1])
	log := made(t)
	cmd := exec.Command("sh", "-c", strings.Replace(lines[2], "build/throttle-replay", built(t), 1))
	cmd.Dir = filepath.Dir(log)
	out, err := cmd.Output()
	require.NoError(t, err)
	printed := hashedName.ReplaceAllString(string(out), "NAME")
	last := exec.Command("sh", "-ec", strings.Replace(shells[len(shells)-1][1], "build/throttle-replay", built(t), 1))
	last.Dir = cmd.Dir
	out, err = last.Output()
	require.NoError(t, err)
	blocks := textBlock.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for i, block := range blocks {
		rest := printed
		if i == len(blocks)-1 { // that of policies
			rest = hashedName.ReplaceAllString(string(out), "NAME")
		}
		for part := range strings.SplitSeq(hashedName.ReplaceAllString(block[1], "NAME"), "...\n") {
			_, after, found := strings.Cut(rest, part)
			if !assert.True(t, found, "the page shows\n%s\nand this is printed:\n%s", part, rest) {
				break
			}
			rest = after
		}
	}
}

// On a terminal a bar shows how far reading has come, and is gone when the report is written, in colors.
func TestABarShowsHowFarReadingHasCome(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(built(t), made(t, "--requests", "100000"))
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	require.NoError(t, err)
	out, _ := io.ReadAll(terminal) // ends with an error when the program does
	require.NoError(t, cmd.Wait())
	text := string(out)
	assert.Regexp(t, `\r\x1b\[K█*░+ +\d+ %  [\d,]+ lines`, text)
	assert.Regexp(t, `\r\x1b\[K\x1b\[1mthrottle-replay\x1b\[0m `, text, "the bar is removed before the report")
	assert.NotContains(t, text[strings.Index(text, "throttle-replay"):], "░")
}
