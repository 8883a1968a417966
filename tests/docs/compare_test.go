package docs_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
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
