package command

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"redis-throttle/gcra"
	"redis-throttle/limiter/command/past"
	"redis-throttle/limiter/command/words"
)

// Aliases are CL.THROTTLE by the names and in the words that other programs have for it. A host offers those that it is
// told to. Their indexes for the bridge are behind those of All.
var Aliases = []*Command{
	// RL.THROTTLE key max_burst count period [quantity]
	//
	// The command that valkey-io/valkey issue 4081 wishes for.
	{
		Name:       "RL.THROTTLE",
		Summary:    "Checks a rate limit and charges it if the units are available. CL.THROTTLE by another name.",
		Complexity: "O(1)",
		Since:      words.V040,
		Flags:      Throttle.Flags,
		Keys:       OneKey,
		Decides:    true,
		AliasOf:    Throttle,
		Args: []words.Arg{
			{Name: "max_burst", Type: words.ArgInteger},
			{Name: "count", Type: words.ArgInteger},
			{Name: "period", Type: words.ArgString},
			{Name: "quantity", Type: words.ArgInteger, Optional: true},
		},
		Run: throttle,
	},
	// GCRA key max_burst tokens_per_period period [TOKENS count]
	//
	// The command that redis/redis pull request 14826 added, with the word of 14950, and that no release of Redis has.
	{
		Name:       "GCRA",
		Summary:    "Checks a rate limit and charges it if the tokens are available. CL.THROTTLE in the words of the command that Redis withdrew.",
		Complexity: "O(1)",
		Since:      words.V040,
		Flags:      Throttle.Flags,
		Keys:       OneKey,
		Decides:    true,
		AliasOf:    Throttle,
		Args: []words.Arg{
			{Name: "max-burst", Type: words.ArgInteger},
			{Name: "tokens-per-period", Type: words.ArgInteger},
			{Name: "period", Type: words.ArgString},
			{Name: "count", Type: words.ArgInteger, Token: "TOKENS", Optional: true},
		},
		Run: throttleTokens,
	},
}

// ByIndex are all commands by their index for the bridge.
var ByIndex []*Command

func init() {
	ByIndex = All[:len(All):len(All)]
	for _, cmd := range Aliases {
		ByIndex = append(ByIndex, cmd)
		cmd.index = uint16(len(ByIndex))
		cmd.prepare()
		if cmd.Args[len(cmd.Args)-1].Token != "" {
			cmd.most++ // a word and its value
		}
	}
	if len(ByIndex) > MaxCommands {
		panic("command: too many commands")
	}
}

// ParseAliases reads names of Aliases, which commas separate.
func ParseAliases(names string) (aliases []*Command, err error) {
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if name == "" && strings.TrimSpace(names) == "" {
			break
		}
		alias := Among(Aliases, []byte(name))
		if alias == nil {
			return nil, fmt.Errorf("%q is no other name of CL.THROTTLE: there are RL.THROTTLE and GCRA, separated by a comma", name)
		}
		if !isAmong(aliases, alias) {
			aliases = append(aliases, alias)
		}
	}
	return aliases, nil
}

func isAmong(all []*Command, cmd *Command) bool { return Among(all, []byte(cmd.Name)) != nil }

// Among returns the command of all with a name, whatever its case; nil if there is none.
func Among(all []*Command, name []byte) *Command {
	for _, cmd := range all {
		if len(cmd.Name) == len(name) && bytes.EqualFold([]byte(cmd.Name), name) {
			return cmd
		}
	}
	return nil
}

const (
	badTokensPerPeriod = "ERR tokens_per_period must be an integer from 1 to 9223372036854775807"
	badTokensPeriod    = "ERR period must be a number of seconds, more than 0 and less than 10^12"
	badTokens          = "ERR TOKENS takes an integer from 1 to 9223372036854775807"
	badTokensRate      = "ERR tokens_per_period is too high for this period: at most 10^9 tokens per second"
	expectedTokens     = "ERR syntax error: expected TOKENS behind the period"
)

// throttleTokens is the Run of GCRA.
func throttleTokens(c *Call) {
	tokens, problem := int64(1), ""
	if len(c.Args) > 4 {
		tokens, problem = parseTokens(c.Args[4:])
	}
	if problem == "" {
		c.limit, problem = parseTokensLimit(c.Args[1], c.Args[2], c.Args[3])
	}
	if problem != "" {
		c.Fail(problem)
		return
	}
	c.throttleBy(&c.limit, tokens)
}

// parseTokens reads what follows the period. NUM_REQUESTS was the word's first name.
func parseTokens(args [][]byte) (tokens int64, problem string) {
	if !bytes.EqualFold(args[0], []byte("TOKENS")) && !bytes.EqualFold(args[0], []byte("NUM_REQUESTS")) {
		return 0, expectedTokens
	}
	if len(args) == 2 {
		if tokens, ok := words.ParseInt(args[1]); ok && tokens > 0 {
			return tokens, ""
		}
	}
	return 0, badTokens
}

// parseTokensLimit reads a limit whose period is a floating-point number of seconds, to the nanosecond. It is not
// remembered: CL.THROTTLE reads other periods.
func parseTokensLimit(maxBurstWord, tokensWord, periodWord []byte) (limit past.Limit, problem string) {
	maxBurst, ok := words.ParseInt(maxBurstWord)
	if !ok || maxBurst < 0 || maxBurst+1 < 0 {
		return limit, badMaxBurst
	}
	tokens, ok := words.ParseInt(tokensWord)
	if !ok || tokens < 1 {
		return limit, badTokensPerPeriod
	}
	n, unit, ok := parseSeconds(periodWord)
	if !ok {
		return limit, badTokensPeriod
	}
	rate, err := gcra.New(maxBurst+1, tokens, n, unit)
	switch err {
	case nil:
		return past.Limit{Rate: rate, PeriodNs: periodNs(n, unit)}, ""
	case gcra.ErrRate:
		return limit, badTokensRate
	}
	return limit, badTolerance
}

// parseSeconds reads a positive floating-point number of seconds below 10^12.
func parseSeconds(text []byte) (n int64, unit time.Duration, ok bool) {
	if len(text) > 64 || bytes.ContainsFunc(text, func(c rune) bool { return !strings.ContainsRune("0123456789.eE+-", c) }) {
		return 0, 0, false // such as "inf", and hexadecimal numbers
	}
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil || seconds >= 1e12 {
		return 0, 0, false
	}
	unit = time.Nanosecond
	for seconds*float64(time.Second/unit) >= 1<<62 { // a float64 tells no ns apart there
		unit *= 1000
	}
	n = int64(math.Round(seconds * float64(time.Second/unit)))
	return n, unit, n > 0
}
