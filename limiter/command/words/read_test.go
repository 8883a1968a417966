package words

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/stack"
)

// forms holds what the commands say of their words, as TestTheFormsAreThoseOfTheCommands makes sure.
var forms = []Form{
	{Command: "LEASE", Required: "SLOTS TTL ID"},
	{Command: "LEASES"},
	{Command: "LIMIT"},
	{Command: "MLIMIT", Slots: SlotsWithTTL, Groups: true},
	{Command: "PEEK"},
	{Command: "REFUND"},
	{Command: "RELEASE", Required: "ID..."},
	{Command: "RENEW", Required: "ID TTL"},
	{Command: "SETTLE", Required: "ID", Slots: SlotsAlone, Groups: true},
	{Command: "WAIT", Required: "TIMEOUT"},
}

func formOf(command []byte) Form {
	for _, form := range forms {
		if "CL."+form.Command == string(command) {
			return form
		}
	}
	panic("no form of " + string(command))
}

// call is what the words of a call were read as.
type call struct {
	Request
	parser Parser
	groups [MaxKeys]stack.Stack // the first is that of a call with one key
	slots  [MaxKeys]SlotGroup
	count  int // of groups
	error  string
}

// read reads a call, given as one line.
func read(line string) *call { return readWords(split(line)...) }

func split(line string) [][]byte { return bytes.Fields([]byte(line)) }

// readWords reads a call. Of one with several keys the first argument is their number, a digit.
func readWords(args ...[]byte) *call {
	form, c := formOf(args[0]), &call{}
	s := Compile(form)
	var err *SyntaxError
	if args = args[1:]; form.Groups {
		keys := int(args[0][0] - '0')
		args = args[1:]
		c.count, err = c.parser.ParseGroups(&s, &c.Request, args[keys:], args[:keys], c.groups[:keys], c.slots[:keys])
	} else {
		c.groups[0].Reset()
		err = c.parser.Parse(&s, &c.Request, args, &c.groups[0])
	}
	if err != nil {
		c.error = err.Error()
	}
	return c
}

// requireError fails unless the call is this error.
func requireError(t testing.TB, c *call, want, line string) {
	t.Helper()
	assert.Equal(t, want, c.error, line)
	assert.LessOrEqual(t, len(c.error), MaxErrorLen, line)
}
