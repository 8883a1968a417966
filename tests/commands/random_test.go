package commands_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Hundreds of thousands of calls with random bytes for arguments, between commands
// that put random bytes into the same keys. Whatever they mean: each gets exactly one
// well-formed reply, in order, and the server lives.
func TestRandomArgumentsGetWellFormedReplies(t *testing.T) {
	t.Parallel()
	t.Run("module", func(t *testing.T) {
		t.Parallel()
		hammerWithRandomBytes(t, server.Start(t), 300_000)
	})
	t.Run("test build, which checks pointers between Go and C", func(t *testing.T) {
		t.Parallel()
		hammerWithRandomBytes(t, kit.StartCheckBuild(t), 50_000)
	})
}

func hammerWithRandomBytes(t *testing.T, s *server.Server, calls int) {
	g := generator{chance.New(t)}
	c := s.Raw()
	var answers, errors int
	const batch = 1000
	for sent := 0; sent < calls; sent += batch {
		commands := make([][]string, batch, batch+1)
		for i := range commands {
			commands[i] = g.command()
		}
		marker := fmt.Sprint("marker ", sent)
		replies, err := c.Pipeline(append(commands, []string{"ECHO", marker})...)
		require.NoError(t, err)
		require.Equal(t, marker, replies[batch].Text, "replies are out of step")
		for i, v := range replies[:batch] {
			if !limits(commands[i]) {
				continue
			}
			require.NoError(t, checkForm(v), "%.500q answers %v", commands[i], v)
			if v.IsError() {
				errors++
			} else {
				answers++
			}
		}
	}
	t.Logf("%d answers, %d errors", answers, errors)
	require.Greater(t, answers, calls/100, "too few calls got as far as a decision")
	require.Greater(t, errors, calls/100)
}

// limits says whether a command is one of the module's, by itself or from a script.
func limits(command []string) bool {
	return strings.HasPrefix(command[0], "CL.") || command[0] == "EVAL"
}

// checkForm checks that a reply has the fields of its command, or is an error of a known kind. FuzzDecode of
// limiter/stack has what the fields may say.
func checkForm(v resp.Value) (err error) {
	switch {
	case v.IsError() && !strings.HasPrefix(v.Text, "ERR ") && !strings.HasPrefix(v.Text, "WRONGTYPE "):
		return fmt.Errorf("error of no known kind")
	case v.IsError():
	case len(v.Elems) == 5:
		_, err = kit.AnswerIn(v)
	default:
		_, err = kit.StandingIn(v)
	}
	return err
}

// generator makes commands that are wrong in all ways, and right often enough to get
// past the first check.
type generator struct{ *rand.Rand }

func (g generator) command() []string {
	key := g.key()
	switch g.IntN(20) {
	case 0:
		return []string{"SET", key, g.word()}
	case 1:
		return []string{"SET", key, strconv.FormatInt(time.Now().UnixNano()+g.Int64N(1e12)-5e11, 10)}
	case 2:
		return []string{"DEL", key}
	case 3:
		return []string{"RPUSH", key, g.word()}
	}
	switch g.IntN(3) {
	case 0:
		return g.words([]string{"CL.LIMIT", "CL.LIMIT", "CL.LIMIT", "CL.PEEK", "CL.REFUND"}[g.IntN(5)])
	case 1:
		if g.IntN(10) == 0 { // in a script, where nothing blocks
			return append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, g.words("CL.WAIT")...)
		}
	}
	command := []string{"CL.THROTTLE", key}
	count := 3 + g.IntN(2)
	if g.IntN(10) == 0 {
		count = g.IntN(30)
	}
	oneIsOdd := g.IntN(count + 1)
	for i := range count {
		if i == oneIsOdd || g.IntN(20) == 0 {
			command = append(command, g.word())
		} else {
			command = append(command, strconv.Itoa(g.IntN(100)))
		}
	}
	return command
}

// words makes a call of a command that speaks in words, on a key of its own prefix or
// on one of the others.
func (g generator) words(name string) []string {
	command := []string{name, g.key()}
	if g.IntN(5) > 0 {
		command[1] = fmt.Sprint("words", g.IntN(50))
	}
	vocabulary := []string{"RATE", "WINDOW", "FIXED", "BURST", "COST", "UPTO", "STRICT", "MAXWAIT", "TIMEOUT", "TAKE", "SPARE", "SHADOW", "FORCE"}
	limits := 1 + g.IntN(2)
	if g.IntN(20) == 0 {
		limits = g.IntN(12)
	}
	for range limits {
		quota := fmt.Sprint(1+g.IntN(100)>>g.IntN(7), "/", []string{"s", "100ms", "1s", "1m", "h", "1d", "60"}[g.IntN(7)])
		command = append(command, vocabulary[g.IntN(3)], quota)
	}
	switch g.IntN(8) {
	case 0:
		command = append(command, "COST", g.word())
	case 1:
		command = append(command, "COST", strconv.Itoa(g.IntN(100)))
	case 2:
		command = append(command, "UPTO")
	case 3:
		command = append(command, "STRICT")
	case 4:
		command = append(command, "FORCE")
	case 5:
		command = slices.Insert(command, min(4, len(command)), []string{"TAKE", "SPARE"}[g.IntN(2)], strconv.Itoa(g.IntN(100)))
	case 6:
		command = slices.Insert(command, min(4, len(command)), "SHADOW")
	}
	for g.IntN(3) == 0 {
		place := 2 + g.IntN(len(command)-1)
		odd := []string{g.word(), vocabulary[g.IntN(len(vocabulary))]}[g.IntN(2)]
		command = append(command[:place:place], append([]string{odd}, command[place:]...)...)
	}
	return command
}

func (g generator) key() string {
	if g.IntN(100) == 0 {
		return g.bytes(g.IntN(5000))
	}
	return fmt.Sprint("key", g.IntN(50))
}

func (g generator) word() string {
	switch g.IntN(9) {
	case 0:
		return g.bytes(g.IntN(300))
	case 1:
		return strconv.FormatInt(int64(g.Uint64())>>g.IntN(64), 10)
	case 2:
		return strconv.FormatInt(g.Int64()>>g.IntN(63), 10) + []string{"ms", "s", "m", "h", "d", "y", "S", " "}[g.IntN(8)]
	case 3: // a number with one byte wrong
		digits := []byte(strconv.Itoa(g.Int()))
		digits[g.IntN(len(digits))] = byte(g.Uint32())
		return string(digits)
	case 4:
		return strings.Repeat("0123456789"[g.IntN(10):][:1], g.IntN(100))
	case 5:
		return strings.Repeat(g.bytes(1), g.IntN(70_000)>>g.IntN(17))
	case 6:
		return []string{"", "+", "-", "+-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
			"18446744073709551615", "18446744073709551616", "%n%s", "\r\n", "\x00"}[g.IntN(12)]
	case 7: // a decimal number
		return fmt.Sprintf("%d.%d%s", g.Uint64()>>g.IntN(64), g.Uint64()>>g.IntN(64), []string{"", "ms", "s", "m", "h", "d"}[g.IntN(6)])
	}
	return strconv.Itoa(g.IntN(10))
}

func (g generator) bytes(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return string(b)
}
