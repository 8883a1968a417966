package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestACallIsAnArrayOfBulkStringsWithItsNumbersFilledIn(t *testing.T) {
	request := encode([]string{"SET", "k:" + keyMark, idMark + keyMark, mixMark})
	assert.Equal(t, "*4\r\n$3\r\nSET\r\n$14\r\nk:000000000042\r\n$24\r\n000000000007000000000042\r\n$1\r\n2\r\n", string(appendCall(nil, request, 42, 7)))
	assert.Equal(t, "+OK", string(appendCall([]byte("+OK"), request, 0, 0)[:3]), "what is there stays")
}

func TestCallsTakeTurnsOfTheirMix(t *testing.T) {
	for i := range 1000 {
		key := randomKey(2000, i)
		assert.True(t, key >= 0 && key < 2000)
		assert.Equal(t, mixDigit(i), mixDigit(key))
	}
	assert.Zero(t, randomKey(1, 5))
}

func TestBatchesAreAsDeepAsAPipelineAndAllOfTheCalls(t *testing.T) {
	var made []int
	all := batches(120, 50, 2, func(b []byte, i int) []byte { made = append(made, i); return append(b, 'x') })
	assert.Len(t, made, 120)
	assert.Equal(t, []int{100, 100, 40}, []int{all[0].replies, all[1].replies, all[2].replies})
	assert.Equal(t, "xxxxxxxxxxxxxxxxxxxx", string(all[2].request))
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
