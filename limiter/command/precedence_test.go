// The pages say which of several errors is named.
package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOfSeveralErrorsTheFirstIsNamed(t *testing.T) {
	for _, test := range []struct {
		command     *Command
		value, line string
		want        string
	}{
		{Limit, "", "k RATE 5/s COST -1 TAKE x", "ERR syntax error near '-1': " + badCost},
		{Limit, "", "k RATE 5/s UPTO MAXWAIT 1s COST x", "ERR syntax error near 'x': " + badCost},
		{Limit, "", "k RATE 5/s WINDOW 5/s UPTO MAXWAIT 1s", "ERR syntax error near 'UPTO': cannot go with MAXWAIT"},
		{Limit, "hello", "k RATE 5/s WINDOW 5/s MAXWAIT 1s", "ERR syntax error near 'MAXWAIT': works with RATE limits only"},
		{Limit, "hello", "k RATE 5/s", wrongValue},
		{Wait, "", "k RATE 5/s COST x", "ERR syntax error near 'x': " + badCost},
		{Lease, "", "k SLOTS x ID a", "ERR syntax error near 'x': " + "SLOTS takes an integer from 0 to 9223372036854775807"},
		{Lease, "hello", "k ID a", "ERR syntax error: SLOTS is missing"},
		{Throttle, "hello", "k x 0 0 -1", badMaxBurst},
		{Throttle, "hello", "k 1 0 0 -1", badCount},
		{Throttle, "hello", "k 1 1 0 -1", badPeriod},
		{Throttle, "hello", "k 1 2 0.000000001 -1", badRate},
		{Throttle, "hello", "k 1 1 1 -1", badQuantity},
		{Throttle, "hello", "k 1 1 1 1", wrongValue},
		{MLimit, "hello", "9 a a RATE 5/x", badNumKeys},
		{MLimit, "hello", "2 a a RATE 5/s NEXT RATE 5/s COST x", "ERR syntax error near 'x': " + badCost},
		{MLimit, "hello", "3 a a b RATE 5/s NEXT RATE 5/s", "ERR syntax error near 'NEXT': " + "there must be one group of limits for all keys, or one for each key"},
		{MLimit, "hello", "2 a a RATE 5/s", "ERR syntax error near 'a': " + twoOfOneKey},
		{MLimit, "hello", "2 a b RATE 5/s", wrongValue},
	} {
		var c *Call
		switch test.command {
		case MLimit:
			c = decideMany([]string{test.value, "list"}, test.line)
		case Lease:
			c = call(test.line)
			c.Members, c.Kind, c.Value = &Members{}, String, []byte(test.value)
			c.Run(Lease)
		default:
			c = decide(test.command, test.value, test.line)
		}
		assert.Equal(t, test.want, string(c.Error), "%s %s", test.command.Name, test.line)
	}
}
