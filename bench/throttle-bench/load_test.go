package main

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBatchesAreAsDeepAsAPipelineAndAllOfTheCalls(t *testing.T) {
	all := batches(120, 50, func(i int) int { return i }, "GET {key}", "PING")
	assert.Equal(t, []int{100, 100, 40}, []int{all[0].replies, all[1].replies, all[2].replies})
}

func TestAVerdictIsFoundInEveryShapeOfReply(t *testing.T) {
	verdict := func(reply string) string {
		word, err := readReply(bufio.NewReader(strings.NewReader(reply)), "0", "1", "limited")
		require.NoError(t, err)
		return word
	}
	for _, tt := range []struct{ name, reply, want string }{
		{"a number", ":1\r\n", "1"},
		{"an array's first element", "*5\r\n:0\r\n:1\r\n:15\r\n:-1\r\n:2\r\n", "0"},
		{"what follows the word limited", "*4\r\n$7\r\nlimited\r\n:1\r\n$4\r\nrule\r\n:0\r\n", "1"},
	} {
		assert.Equal(t, tt.want, verdict(tt.reply), tt.name)
	}
	for _, reply := range []string{"$-1\r\n", "+OK\r\n", "*0\r\n", "*1\r\n$7\r\nlimited\r\n", "*2\r\n$5\r\nlimit\r\n:1\r\n", ":2\r\n", ":-1\r\n", "*1\r\n$-1\r\n"} {
		assert.NotContains(t, []string{"0", "1"}, verdict(reply), "%q", reply)
	}
}

func TestEveryReplyMustBeWhatTheNamePromises(t *testing.T) {
	here, there := net.Pipe()
	c := &client{here, bufio.NewReader(here)}
	answer := func(replies string, wants ...string) error {
		go func() {
			_, _ = there.Read(make([]byte, 16))
			_, _ = there.Write([]byte(replies))
		}()
		return c.send(batch{[]byte("x"), strings.Count(replies, "\r\n")}, wants...)
	}
	assert.NoError(t, answer(":0\r\n:0\r\n", "0"))
	assert.NoError(t, answer("+PONG\r\n", "PONG"))
	assert.NoError(t, answer(":0\r\n+OK\r\n$-1\r\n", ""), "preparations may be answered anything")
	assert.NoError(t, answer(":0\r\n:7\r\n:0\r\n:8\r\n", "0", ""), "what comes after is not looked at")
	assert.ErrorContains(t, answer(":0\r\n:7\r\n:7\r\n", "0", ""), "not what its name says", "wants take turns")
	assert.ErrorContains(t, answer(":0\r\n:0\r\n:1\r\n", "0"), "not what its name says", "the last reply of many")
	assert.ErrorContains(t, answer("$-1\r\n", "PONG"), "not what its name says")
}
