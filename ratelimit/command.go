package ratelimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redis-throttle/ratelimit/charge"
)

// compact asks for a reply of integers alone, which has the same form in RESP2 and RESP3.
const compact = "COMPACT"

// command is a Call as the server takes it.
type command struct {
	name string
	args []any
	key  int8 // the place of the first key in args
	// charges says that the command, sent again because its reply got lost, would charge a second time.
	charges bool
	waits   bool
	timeout time.Duration // of waits; 0 is as long as it takes
}

// names are the commands of the verbs, on one key.
var names = [numVerbs]string{"CL.LIMIT", "CL.PEEK", "CL.REFUND", "CL.WAIT", "CL.BAN", "CL.LEASE", "CL.RENEW", "CL.RELEASE", "CL.SETTLE", "DEL", "CL.THROTTLE", "CL.DENIED"}

// boxed are the names as arguments, which would otherwise be allocated with each call.
var boxed = func() (all [numVerbs]any) {
	for v, name := range names {
		all[v] = name
	}
	return all
}()

// command checks c as far as the server could not, and writes it down. What the server refuses comes back as its own
// error.
func (c *Call) command() (command, error) {
	if c.Verb < 0 || c.Verb >= numVerbs {
		return command{}, fmt.Errorf("%v is no verb", c.Verb)
	}
	cmd := command{name: names[c.Verb], key: 1}
	several := c.Verb == VerbSettle || (c.Verb == VerbLimit && (len(c.Keys) != 1 || c.Any || c.Keys[0].TTL != 0))
	if several && c.Verb == VerbLimit {
		cmd.name = "CL.MLIMIT"
	}
	if err := c.check(several); err != nil {
		return cmd, err
	}
	cmd.charges = c.Verb == VerbLimit || c.Verb == VerbRefund || c.Verb == VerbWait || c.Verb == VerbThrottle || c.Verb == VerbDenied
	if several {
		return cmd, c.writeSeveral(&cmd)
	}
	key := &c.Keys[0]
	args := make([]any, 0, c.room())
	args = append(args, boxed[c.Verb], key.Name)
	switch c.Verb {
	case VerbThrottle:
		words, err := c.throttleWords()
		cmd.args = append(append(args, words...), c.units())
		return cmd, err
	case VerbBan:
		cmd.args = append(args, waitWord(c.Ban))
		return cmd, nil
	case VerbLease:
		args = append(args, "SLOTS", key.Slots, "TTL", waitWord(key.TTL), "ID", c.ID)
		cmd.waits = c.MaxWait != 0
		args = c.writeWait(&cmd, args)
	case VerbRenew:
		args = append(args, "ID", c.ID, "TTL", waitWord(key.TTL))
	case VerbRelease:
		cmd.args = append(args, "ID", c.ID)
		return cmd, nil
	case VerbReset:
		cmd.args = args
		return cmd, nil
	case VerbDenied:
		cmd.args = append(args, c.units())
		return cmd, nil
	default:
		args = c.writeLimits(args, key.Limits)
		args = c.writeCost(args)
		cmd.waits = c.Verb == VerbWait
		args = c.writeWait(&cmd, c.writeOptions(args))
		if len(args) == 2 { // COMPACT would make the server's error be about a word that the caller did not write
			cmd.args = args
			return cmd, nil
		}
	}
	cmd.args = c.writeForm(args)
	return cmd, nil
}

// room is for how many words on one key a slice is made. Only calls with several options have more.
func (c *Call) room() int {
	words := 8 // the command, the key, COST and its number, an option and its value, COMPACT, EACH
	if c.Verb == VerbWait || c.Verb == VerbLease {
		words += 12 // TIMEOUT, GROUP, WEIGHT, PRIORITY, SLOTS, TTL
	}
	for i := range c.Keys[0].Limits {
		words += int(c.Keys[0].Limits[i].size)
	}
	return words
}

// roomForSeveral is for how many words on several keys a slice is made. Only calls with several options have
// more.
func (c *Call) roomForSeveral() int {
	// The command, the number of keys, COST and its number, an option and its value, COMPACT, EACH; each key, NEXT.
	words := 8 + 2*len(c.Keys)
	if c.ID != "" {
		words += 2 + 4*len(c.Keys) // ID, SLOTS, TTL
	}
	for i := range c.Keys {
		for j := range c.Keys[i].Limits {
			words += int(c.Keys[i].Limits[j].size)
		}
	}
	return words
}

// writeSeveral writes CL.MLIMIT and CL.SETTLE.
func (c *Call) writeSeveral(cmd *command) error {
	args := make([]any, 0, c.roomForSeveral())
	args = append(args, any("CL.MLIMIT"), countWord(len(c.Keys)))
	if c.Verb == VerbSettle {
		args[0] = boxed[VerbSettle]
	}
	cmd.key = 2
	same, rules := true, 0
	for i := range c.Keys {
		args = append(args, c.Keys[i].Name)
		same = same && c.Keys[i].TTL == 0 && (i == 0 || sameWords(c.Keys[i].Limits, c.Keys[0].Limits))
		rules += len(c.Keys[i].Limits)
	}
	for i := range c.Keys {
		key := &c.Keys[i]
		if i > 0 && same { // one group without NEXT is that of every key
			break
		}
		if i > 0 {
			args = append(args, "NEXT")
		}
		switch {
		case key.TTL != 0 && c.Verb == VerbLimit:
			args = append(args, "SLOTS", key.Slots, "TTL", waitWord(key.TTL))
			rules++
		case key.TTL != 0 || (c.Verb == VerbSettle && len(key.Limits) == 0):
			args = append(args, "SLOTS")
			rules++
		default:
			args = c.writeLimits(args, key.Limits)
		}
	}
	if c.Any {
		args = append(args, "ANY")
	}
	if c.ID != "" {
		args = append(args, "ID", c.ID)
		cmd.charges = c.Charge == charge.Strict // otherwise the second time finds the leases of the first, or none
	}
	if c.Verb == VerbLimit {
		args = c.writeCost(args)
		args = c.writeWait(cmd, c.writeOptions(args))
	}
	if rules > 0 {
		args = c.writeForm(args)
	}
	cmd.args = args
	return nil
}

// counts are the numbers of keys as arguments, which would otherwise be allocated with each call.
var counts = func() (all [9]any) {
	for n := range all {
		all[n] = strconv.Itoa(n)
	}
	return all
}()

func countWord(n int) any {
	if n < len(counts) {
		return counts[n]
	}
	return strconv.Itoa(n)
}

func sameWords(a, b Limits) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x != y && !slices.Equal(x.words[:x.size], y.words[:y.size]) {
			return false
		}
	}
	return true
}

func (c *Call) writeLimits(args []any, limits Limits) []any {
	for i := range limits {
		limit := &limits[i]
		if (c.Verb == VerbRefund || c.Verb == VerbSettle) && limit.spare != 0 { // which have no SPARE
			plain := limit.Spare(0)
			limit = &plain
		}
		args = append(args, limit.words[:limit.size]...)
	}
	return args
}

func (c *Call) writeCost(args []any) []any {
	if units := c.units(); units != 1 {
		args = append(args, "COST", units)
	}
	return args
}

func (c *Call) writeOptions(args []any) []any {
	switch c.Charge {
	case charge.UpTo:
		args = append(args, "UPTO")
	case charge.Strict:
		args = append(args, "STRICT")
	case charge.Force:
		args = append(args, "FORCE")
	}
	if c.Ban != 0 {
		args = append(args, "BAN", waitWord(c.Ban))
	}
	if c.BanAfter != "" {
		args = append(args, "AFTER", c.BanAfter)
	}
	return args
}

// writeWait writes MaxWait, and what orders the line.
func (c *Call) writeWait(cmd *command, args []any) []any {
	wait := c.MaxWait
	switch {
	case c.Verb == VerbLimit && wait != 0:
		return append(args, "MAXWAIT", waitWord(min(wait, longest)))
	case !cmd.waits:
		return args
	case wait >= longest:
		wait = 0
	}
	cmd.timeout = wait
	args = append(args, "TIMEOUT", waitWord(wait))
	if c.Group != "" {
		args = append(args, "GROUP", c.Group)
	}
	if c.Weight != 0 && c.Weight != 1 {
		args = append(args, "WEIGHT", c.Weight)
	}
	if c.Priority != 0 {
		args = append(args, "PRIORITY", c.Priority)
	}
	return args
}

func (c *Call) writeForm(args []any) []any {
	args = append(args, compact)
	if c.Each {
		args = append(args, "EACH")
	}
	return args
}

func (c *Call) throttleWords() ([]any, error) {
	if len(c.Keys[0].Limits) != 1 {
		return nil, fmt.Errorf("CL.THROTTLE takes one Rate, not %d limits", len(c.Keys[0].Limits))
	}
	return c.Keys[0].Limits[0].throttleWords()
}

// waitWord writes d in whole milliseconds. It never turns into 0, which means something
// else, and stays negative for the server to refuse.
func waitWord(d time.Duration) string {
	switch {
	case d > 0:
		d = max(d.Truncate(time.Millisecond), time.Millisecond)
	case d < 0:
		d = min(d.Truncate(time.Millisecond), -time.Millisecond)
	}
	return durationWord(d)
}

// keyless is an error text without the arguments that a server repeats in it: keys do not belong into logs.
func keyless(text string) string {
	text, _, _ = strings.Cut(text, ", with args beginning with")
	return text
}
