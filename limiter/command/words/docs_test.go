package words_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/words"
)

// usage writes arguments as COMMAND DOCS has them in the way of a syntax line.
func usage(args []words.Arg) string {
	var parts []string
	for _, arg := range args {
		text := arg.Name
		switch arg.Type {
		case words.ArgToken:
			text = ""
		case words.ArgBlock:
			text = usage(arg.Args)
		case words.ArgOneOf:
			var each []string
			for _, one := range arg.Args {
				each = append(each, usage([]words.Arg{one}))
			}
			text = "(" + strings.Join(each, " | ") + ")"
		}
		text = strings.TrimSpace(arg.Token + " " + text)
		if arg.Multiple {
			text += " ..."
		}
		if arg.Optional {
			text = "[" + text + "]"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func TestWhatCommandDocsShowsOfTheArguments(t *testing.T) {
	limit := func(terms string) string {
		return "(RATE count/period [BURST capacity]" + terms + " | WINDOW count/period" + terms +
			" | FIXED count/period [(FIRST | [OFFSET duration] [TZ zone])]" + terms + ") ..."
	}
	group := func(limits, slots string) string {
		return strings.TrimSuffix(limits, ") ...") + " | " + slots + ") ..."
	}
	const all = " [TAKE units] [SPARE units] [SHADOW]"
	const options = " [COST units] [UPTO] [STRICT] [FORCE] [MAXWAIT duration] [BAN duration [AFTER count/period]] [COMPACT] [EACH]"
	for cmd, want := range map[*command.Command]string{
		command.Throttle: "key max_burst count_per_period period [quantity]",
		command.Limit:    "key " + limit(all) + options,
		command.MLimit: "numkeys key ... " + group(limit(all), "SLOTS slots TTL duration") + " [NEXT " + group(limit(all), "SLOTS slots TTL duration") + " ...] [ANY]" +
			strings.Replace(options, " [COMPACT]", " [ID id] [COMPACT]", 1),
		command.Settle: "numkeys key ... " + group(limit(" [TAKE units] [USED units] [SHADOW]"), "SLOTS") +
			" [NEXT " + group(limit(" [TAKE units] [USED units] [SHADOW]"), "SLOTS") + " ...] ID id [COMPACT] [EACH]",
		command.Peek:    "key " + limit(all) + " [COST units] [COMPACT] [EACH]",
		command.Refund:  "key " + limit(" [TAKE units] [SHADOW]") + " [COST units] [COMPACT] [EACH]",
		command.Wait:    "key " + limit(" [TAKE units] [SPARE units]") + " [COST units] TIMEOUT duration [GROUP group [WEIGHT weight]] [PRIORITY priority] [COMPACT] [EACH]",
		command.Ban:     "key duration",
		command.Lease:   "key SLOTS slots TTL duration ID id [TIMEOUT duration [GROUP group [WEIGHT weight]] [PRIORITY priority]] [COMPACT]",
		command.Renew:   "key ID id TTL duration [COMPACT]",
		command.Release: "key ID id ...",
		command.Leases:  "key [COUNT n]",
		command.Top:     "[count] [SHADOW]",
		command.Denied:  "key count",
	} {
		assert.Equal(t, want, usage(cmd.Args), cmd.Name)
	}
}

func TestArgumentsAreCountedWhileACountSaysWhatIsWrong(t *testing.T) {
	key, optional, several := words.Arg{}, words.Arg{Optional: true}, words.Arg{Multiple: true}
	for _, tt := range []struct {
		what        string
		form        words.Form
		front       []words.Arg
		least, most int
	}{
		{"none", words.Form{}, nil, 0, 0},
		{"a key and one that may be missing", words.Form{}, []words.Arg{key, optional}, 1, 2},
		{"several keys", words.Form{}, []words.Arg{key, several}, 2, -1},
		{"one word and its value", words.Form{Command: "LEASES"}, []words.Arg{key}, 1, 3},
		{"one word without a value", words.Form{Required: "COMPACT"}, []words.Arg{key}, 1, 2},
		{"a word with several values", words.Form{Required: "ID..."}, []words.Arg{key}, 1, -1},
		{"two words", words.Form{Required: "ID TTL"}, []words.Arg{key}, 1, -1},
		{"limits", words.Form{Command: "PEEK"}, []words.Arg{key}, 1, -1},
	} {
		s := words.Compile(tt.form)
		least, most := s.CountArgs(tt.front)
		assert.Equal(t, []int{tt.least, tt.most}, []int{least, most}, tt.what)
	}
}

func TestWhatCommandDocsShowsOfTheHistory(t *testing.T) {
	for cmd, want := range map[*command.Command][]words.Change{
		command.MLimit: {{Since: "0.3.0", Changes: "Added SLOTS, TTL, ID and EACH."}, {Since: "0.4.0", Changes: "Added AFTER."}},
		command.Lease:  {{Since: "0.3.0", Changes: "Added GROUP and PRIORITY."}, {Since: "0.4.0", Changes: "Added WEIGHT."}},
		command.Top:    {{Since: "0.5.0", Changes: "Added SHADOW."}},
		command.Leases: nil,
	} {
		assert.Equal(t, want, cmd.History, cmd.Name)
	}
}
