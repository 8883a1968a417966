package docs_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// comparison is what a command printed, and how much it may differ from the page.
type comparison struct {
	command string
	slack   time.Duration // since the page's first command, without waiting in CL.WAIT
	took    time.Duration // by this command
}

// differs says where the output is not what the page says, or nothing.
func (c comparison) differs(want, got []string) string {
	i, j := 0, 0
	for ; i < len(want); i, j = i+1, j+1 {
		if want[i] == "..." {
			return c.differsAfterGap(want[i+1:], got[j:])
		}
		if j == len(got) {
			return fmt.Sprintf("missing: %q", want[i])
		}
		if !c.same(want, i, got[j]) {
			return fmt.Sprintf("the page says %q, and it is %q", want[i], got[j])
		}
	}
	if j < len(got) {
		return fmt.Sprintf("the page does not say %q", got[j])
	}
	return ""
}

func (c comparison) differsAfterGap(want, got []string) (difference string) {
	for skipped := len(got); skipped >= 0; skipped-- {
		if difference = c.differs(want, got[skipped:]); difference == "" {
			return ""
		}
	}
	return difference
}

var (
	integerLine = regexp.MustCompile(`^(.*\(integer\) )(-?\d+)$`)
	fieldName   = regexp.MustCompile(`"(\w+)"`)
)

func (c comparison) same(want []string, i int, got string) bool {
	if want[i] == got {
		return true
	}
	if strings.Contains(want[i], "...") {
		parts := strings.Split(want[i], "...")
		for k := range parts {
			parts[k] = regexp.QuoteMeta(parts[k])
		}
		return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
	}
	w, g := integerLine.FindStringSubmatch(want[i]), integerLine.FindStringSubmatch(got)
	if w == nil || g == nil || w[1] != g[1] {
		return false
	}
	wanted, _ := strconv.ParseInt(w[2], 10, 64) // digits by the expression
	is, _ := strconv.ParseInt(g[2], 10, 64)
	least, most := c.bounds(c.field(want, i), wanted)
	return wanted > 0 && least <= is && is <= most
}

// field is the name of the number in line i: in the line itself in RESP3, in the one before
// in RESP2. CL.THROTTLE's numbers go by their places.
func (c comparison) field(want []string, i int) string {
	if strings.Contains(strings.ToUpper(c.command), "CL.THROTTLE") {
		return strings.TrimSpace(strings.SplitN(want[i], ")", 2)[0])
	}
	if m := fieldName.FindStringSubmatch(want[i]); m != nil {
		return m[1]
	}
	if i > 0 {
		if m := fieldName.FindStringSubmatch(want[i-1]); m != nil {
			return m[1]
		}
	}
	return ""
}

func (c comparison) bounds(field string, wanted int64) (least, most int64) {
	slackMs := (c.slack + time.Millisecond - 1).Milliseconds()
	switch field {
	case "retry_after_ms", "reset_after_ms", "next_after_ms", "lease_ms":
		return wanted - slackMs, wanted
	case "wait_ms":
		if strings.Contains(strings.ToUpper(c.command), "CL.WAIT") {
			return wanted - slackMs, max(wanted, c.took.Milliseconds())
		}
		return wanted - slackMs, wanted
	case "4", "5":
		return wanted - int64(c.slack/time.Second), wanted
	}
	return wanted, wanted
}

func TestOutputHasToBeWhatThePageSaysButForTimesThatWentBy(t *testing.T) {
	limit := comparison{command: "redis-cli -3 CL.LIMIT k RATE 1/m", slack: 300 * time.Millisecond, took: 50 * time.Millisecond}
	wait := comparison{command: "redis-cli -3 CL.WAIT k RATE 1/2s TIMEOUT 5s", slack: 300 * time.Millisecond, took: 2040 * time.Millisecond}
	throttle := comparison{command: "redis-cli CL.THROTTLE k 1 1 1m", slack: 1300 * time.Millisecond}
	for _, test := range []struct {
		name string
		c    comparison
		want string
		got  string
		same bool
	}{
		{"equal", limit, "OK", "OK", true},
		{"other text", limit, "OK", "KO", false},
		{"a line more", limit, "OK", "OK\nOK", false},
		{"a line less", limit, "OK\nOK", "OK", false},
		{"any text", limit, "version:1 (commit ..., go...)", "version:1 (commit abc, go1.26)", true},
		{"any text in the wrong line", limit, "version:2 (commit ..., go...)", "version:1 (commit abc, go1.26)", false},
		{"any lines", limit, "a\n...\nz", "a\nb\nc\nz", true},
		{"any lines may be none", limit, "a\n...", "a", true},
		{"any lines, and another end", limit, "a\n...\nz", "a\nb\nc", false},
		{"a count", limit, `4# "remaining" => (integer) 7`, `4# "remaining" => (integer) 6`, false},
		{"a time that went by", limit, `6# "reset_after_ms" => (integer) 60000`, `6# "reset_after_ms" => (integer) 59700`, true},
		{"more time than went by", limit, `6# "reset_after_ms" => (integer) 60000`, `6# "reset_after_ms" => (integer) 59699`, false},
		{"a time that grew", limit, `6# "reset_after_ms" => (integer) 60000`, `6# "reset_after_ms" => (integer) 60001`, false},
		{"no time at all", limit, `6# "reset_after_ms" => (integer) 0`, `6# "reset_after_ms" => (integer) -1`, false},
		{"never", limit, `5# "retry_after_ms" => (integer) -1`, `5# "retry_after_ms" => (integer) 0`, false},
		{"a time in RESP2", limit, " 9) \"retry_after_ms\"\n10) (integer) 60000", " 9) \"retry_after_ms\"\n10) (integer) 59990", true},
		{"a count in RESP2", limit, " 9) \"granted\"\n10) (integer) 60000", " 9) \"granted\"\n10) (integer) 59990", false},
		{"a wait that was late", wait, `9# "wait_ms" => (integer) 2000`, `9# "wait_ms" => (integer) 2040`, true},
		{"a wait longer than the command", wait, `9# "wait_ms" => (integer) 2000`, `9# "wait_ms" => (integer) 2041`, false},
		{"a wait that is too short", wait, `9# "wait_ms" => (integer) 2500`, `9# "wait_ms" => (integer) 2040`, false},
		{"whole seconds that went by", throttle, "4) (integer) 60", "4) (integer) 59", true},
		{"more seconds than went by", throttle, "5) (integer) 60", "5) (integer) 58", false},
		{"a limit is no time", throttle, "2) (integer) 60", "2) (integer) 59", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			difference := test.c.differs(strings.Split(test.want, "\n"), strings.Split(test.got, "\n"))
			assert.Equal(t, test.same, difference == "", difference)
		})
	}
}
