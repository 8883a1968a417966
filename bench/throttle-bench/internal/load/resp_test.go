package load

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestACommandIsAnArrayOfBulkStringsWithKnownRandomPlaces(t *testing.T) {
	request, positions := encode([]string{"SET", "k:__rand_int__", "__rand_int____rand_int__"})
	assert.Equal(t, "*3\r\n$3\r\nSET\r\n$14\r\nk:__rand_int__\r\n$24\r\n__rand_int____rand_int__\r\n", string(request))
	for _, at := range positions {
		copy(request[at:], KeyNumber(42))
	}
	assert.Equal(t, "*3\r\n$3\r\nSET\r\n$14\r\nk:000000000042\r\n$24\r\n000000000042000000000042\r\n", string(request))
}

func TestAReplyEndsWhereTheProtocolSays(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n",
		"-ERR no\r\n",
		":1\r\n",
		"$5\r\nhe\r\no\r\n",
		"$0\r\n\r\n",
		"$-1\r\n",
		"*-1\r\n",
		"*0\r\n",
		"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n",
		"*2\r\n*2\r\n$1\r\na\r\n:1\r\n$-1\r\n",
	} {
		assert.Equal(t, len(reply), replyEnd([]byte(reply), 0), "%q", reply)
		assert.Equal(t, len(reply), replyEnd([]byte(reply+"+next\r\n"), 0), "%q and more", reply)
		for cut := range len(reply) {
			assert.Equal(t, -1, replyEnd([]byte(reply[:cut]), 0), "%q", reply[:cut])
		}
	}
}
