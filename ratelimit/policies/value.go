package policies

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/about"
	"redis-throttle/ratelimit/internal/policyname"
)

// Value is what a field of the hash says of its keys.
type Value struct {
	// Text is the value as it stands in the hash.
	Text string
	// Limits are one to eight, with the name of the policy (ratelimit.Policy); none with None.
	Limits ratelimit.Limits
	// Ban and BanAfter come instead of those of a call. A Ban of 0 leaves the call its own.
	Ban      time.Duration
	BanAfter string
	// None lets everything through.
	None bool
}

// longestBan is the longest one that the server takes.
const longestBan = 100 * 365 * 24 * time.Hour

// ParseValue reads the value of a field of a policy with a name: the words of limits as CL.LIMIT takes them, in any
// case, each limit with NAME and a name if it has one, and BAN with AFTER at the end; or NONE alone. Whatever is said
// by the code, such as TAKE and COST, is an error.
func ParseValue(name, text string) (Value, error) {
	words := strings.FieldsFunc(text, isSpace)
	if len(words) == 1 && strings.EqualFold(words[0], "NONE") {
		return Value{Text: text, None: true}, nil
	}
	value := Value{Text: text}
	limits, rest := splitLimits(words)
	if len(limits) == 0 && len(rest) == 0 {
		return Value{}, errors.New("there is no limit; NONE lets everything through")
	}
	var all ratelimit.Limits
	for _, words := range limits {
		limit, err := parseLimit(words)
		if err != nil {
			return Value{}, fmt.Errorf("%q: %w", strings.Join(words, " "), err)
		}
		all = append(all, limit)
	}
	if err := value.parseBan(rest); err != nil {
		return Value{}, err
	}
	if len(all) == 0 {
		return Value{}, fmt.Errorf("%q: there is no limit before it", rest[0])
	}
	value.Limits = ratelimit.Policy(name, all...)
	return value, value.Limits.Validate()
}

func isSpace(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r", r) }

// splitLimits parts the words of a value into those of each limit, and what begins with BAN. The word after NAME is a
// name, whatever it is.
func splitLimits(words []string) (limits [][]string, rest []string) {
	begin := 0
	for i := 0; i < len(words); i++ {
		switch word := strings.ToUpper(words[i]); word {
		case "NAME":
			i++
		case "BAN":
			if begin < i {
				limits = append(limits, words[begin:i])
			}
			return limits, words[i:]
		case "RATE", "WINDOW", "FIXED":
			if begin < i {
				limits = append(limits, words[begin:i])
				begin = i
			}
		}
	}
	if begin < len(words) {
		limits = append(limits, words[begin:])
	}
	return limits, nil
}

// parseLimit reads one limit.
func parseLimit(words []string) (ratelimit.Limit, error) {
	for i := 2; i < len(words); i++ { // after the kind and its quota
		switch word := strings.ToUpper(words[i]); word {
		case "FIRST", "SHADOW":
		case "BURST", "OFFSET", "TZ":
			i++
		case "NAME":
			if i++; i < len(words) && !policyname.Valid(words[i]) {
				return ratelimit.Limit{}, fmt.Errorf("NAME %q: a name has 1 to 64 of A-Z a-z 0-9 . _ -", words[i])
			}
		case "TAKE", "USED", "SPARE", "UNIT":
			return ratelimit.Limit{}, fmt.Errorf("%s is for the code to say", word)
		default:
			return ratelimit.Limit{}, fmt.Errorf("%q: expected BURST, FIRST, OFFSET, TZ, SHADOW, NAME, the next limit, or BAN", words[i])
		}
	}
	return oneLimit(words)
}

// oneLimit reads a limit by the parser of package ratelimit.
func oneLimit(words []string) (ratelimit.Limit, error) {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = strconv.Quote(word) // so that a ; is none
	}
	limits, err := ratelimit.ParseLimits(strings.Join(quoted, " "))
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // without the number of the limit
	}
	if err != nil {
		return ratelimit.Limit{}, err
	}
	return limits[0], nil
}

// parseBan reads BAN and AFTER.
func (v *Value) parseBan(words []string) error {
	if len(words) == 0 {
		return nil
	}
	if len(words) == 1 {
		return errors.New("BAN takes a length of time, such as 15m")
	}
	ban, err := periodOf("1/" + words[1])
	switch {
	case err != nil, ban.Period.Length <= 0, ban.Period.Length > longestBan:
		return fmt.Errorf("BAN takes a length of time of at most 100 years, such as 15m, not %q", words[1])
	case len(words) > 2 && !strings.EqualFold(words[2], "AFTER"):
		return fmt.Errorf("%q behind BAN: only AFTER goes there", words[2])
	case len(words) == 3:
		return errors.New("AFTER takes a count and a period, such as 10/1h")
	case len(words) > 4:
		return fmt.Errorf("%q: BAN and AFTER are the end", words[4])
	}
	v.Ban = ban.Period.Length
	if len(words) == 4 {
		after, err := periodOf(words[3])
		if err != nil || after.Count < 1 {
			return fmt.Errorf("AFTER takes a count, at least 1, and a period, such as 10/1h, not %q", words[3])
		}
		v.BanAfter = words[3]
	}
	return nil
}

// periodOf reads a count and a length of time, which are written as those of a Window.
func periodOf(word string) (about.Limit, error) {
	window, err := oneLimit([]string{"WINDOW", word})
	if err != nil {
		return about.Limit{}, err
	}
	return about.Of(&window), nil
}
