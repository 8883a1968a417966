package main

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
