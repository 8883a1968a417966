package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

// What random clients send: words of commands, right and wrong, in any order behind a name.
var (
	randomNames = strings.Fields(`CL.THROTTLE CL.LIMIT CL.MLIMIT CL.PEEK CL.WAIT CL.LEASE CL.RELEASE CL.LEASES CL.REFUND CL.BAN CL.UNBAN CL.SETTLE CL.TOP CL.DENIED CL.RESET
		GET SET DEL EXPIRE PEXPIRE TTL PTTL TYPE ZADD ZRANGE ZREM ZCARD INCR RPUSH LPOP HSET RENAME FLUSHALL FLUSHDB SCAN KEYS SWAPDB MOVE COPY PERSIST
		BLPOP BRPOP BLMOVE BRPOPLPUSH BZPOPMIN BZPOPMAX BZMPOP XREAD XREADGROUP XADD MULTI EXEC DISCARD WATCH UNWATCH SUBSCRIBE UNSUBSCRIBE PSUBSCRIBE PUNSUBSCRIBE
		PUBLISH PUBSUB EVAL EVALSHA EVAL_RO SCRIPT HELLO AUTH SELECT RESET QUIT CLIENT COMMAND INFO CONFIG MODULE ROLE TIME DEBUG CL.DEV.TIME CL.DEV.ADVANCE
		SAVE CLUSTER ACL PING ECHO DBSIZE OBJECT WAIT SSCAN HSCAN ZSCAN NONE`)
	randomWords = []string{
		"a", "b", "c", "a", "b", "c", "0", "1", "2", "-1", "16", "nan", "inf", "9223372036854775807", "-9223372036854775808", "1e300", "", "\x00\xff\r\n", "*", "[z-a]", "x\\", "$",
		"RATE", "1/s", "10/m BURST 5", "BURST", "5", "WINDOW", "FIXED", "1/mo", "TZ", "UTC", "COST", "COMPACT", "EACH", "NEXT", "ANY", "UPTO", "MAXWAIT", "TIMEOUT", "10ms", "1s", "GROUP", "g",
		"PRIORITY", "SLOTS", "TTL", "ID", "USED", "TAKE", "SHADOW", "STREAMS", "BLOCK", "COUNT", "LEFT", "RIGHT", "MIN", "MAX", "ON", "OFF", "LIST", "KILL", "UNBLOCK", "TRACKING", "NO-EVICT", "MATCH", "CHANNELS",
		"STOP", "RUN", "REAL", "2026-01-31", "1mo", "GETKEYS", "DOCS", "SETNAME", "3", "2", "SLEEP", "SET", "throttle.top", "LOAD", "FLUSH", strings.Repeat("x", 1<<16),
	}
	// These get far enough to wait, to be let in, to take part in a transaction or to be told.
	randomLines = []string{
		"CL.THROTTLE a 15 30 60 1", "CL.LIMIT a RATE 1/ms BURST 1", "CL.WAIT a RATE 100/s BURST 1 TIMEOUT 50ms", "CL.LEASE c SLOTS 1 TTL 20ms ID x TIMEOUT 1s GROUP g", "CL.LEASE c SLOTS 1 TTL 20ms ID y TIMEOUT 0 PRIORITY 5",
		"CL.RELEASE c ID x", "BLPOP b 0.01", "BLPOP b 0", "RPUSH b x", "MULTI", "EXEC", "SUBSCRIBE b", "PUBLISH b x", "HELLO 3", "HELLO 2", "CLIENT TRACKING ON", "WATCH a c", "DEL a b c", "CL.DEV.ADVANCE 1s", "CL.DEV.TIME RUN", "CL.DEV.TIME REAL",
		"EVAL return{redis.call('CL.THROTTLE',KEYS[1],'15','30','60'),redis.pcall('CL.LEASE','c','SLOTS','1','TTL','1s','ID','z','TIMEOUT','0')} 1 a", "XADD s * a b", "XREAD BLOCK 10 STREAMS s $", "BZPOPMIN c 0.01",
	}
)

func randomCommand() []string {
	if rand.IntN(2) == 0 {
		line := randomLines[rand.IntN(len(randomLines))]
		if name, rest, ok := strings.Cut(line, "EVAL "); ok && name == "" {
			at := strings.LastIndex(rest, "} ") + 1
			return append([]string{"EVAL", rest[:at]}, strings.Fields(rest[at:])...)
		}
		return strings.Fields(line)
	}
	words := []string{randomNames[rand.IntN(len(randomNames))]}
	for range rand.IntN(9) {
		words = append(words, randomWords[rand.IntN(len(randomWords))])
	}
	// It would hold up all clients, or end a connection or the test.
	if last := words[len(words)-1]; words[0] == "DEBUG" && last != "SLEEP" {
		words = words[:1]
	}
	return words
}

func encoded(words []string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(word), word)
	}
	return out
}

// skipReply reads one reply of either protocol.
func skipReply(r *bufio.Reader) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	if len(line) < 3 || !strings.HasSuffix(line, "\r\n") {
		return fmt.Errorf("no reply: %q", line)
	}
	n, _ := strconv.Atoi(line[1 : len(line)-2])
	switch line[0] {
	case '+', '-', ':', '_', ',', '#', '(':
		return nil
	case '$', '=':
		if n < 0 {
			return nil
		}
		_, err = r.Discard(n + 2)
		return err
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return fmt.Errorf("no reply: %q", line)
	}
	for range n {
		if err := skipReply(r); err != nil {
			return err
		}
	}
	return nil
}

// Clients that send anything, in pieces, in pipelines, and leave at any moment, get well-formed replies, break nothing
// and leave nothing behind.
func TestRandomClientsBreakNothingAndLeaveNothingBehind(t *testing.T) {
	s := start(t, "")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range size.Of(20, 100) {
				randomClient(t, s)
			}
		})
	}
	all.Wait()
	c := connect(t, s)
	c.do("CL.DEV.TIME REAL")
	require.Eventually(t, func() bool {
		s.lock()
		defer s.mu.Unlock()
		return len(s.clients) == 1
	}, within1m, time.Millisecond, "all have gone")
	s.lock()
	assert.Zero(t, s.faults, "panics that were recovered")
	assert.Empty(t, s.waiting)
	assert.Empty(t, s.blocked)
	s.mu.Unlock()
	c.do("FLUSHALL")
	assert.Equal(t, "*5 :0 :16 :15 :-1 :2", c.do("CL.THROTTLE a 15 30 60 1"))
	assert.Regexp(t, "^\\*6 :0 ", c.do("CL.LEASE c SLOTS 1 TTL 1s ID a TIMEOUT 0 COMPACT"), "nobody is in line")
}

// randomClient sends a pipeline, perhaps in pieces, and leaves in the middle or reads all that is answered at once.
func randomClient(t *testing.T, s *server) {
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if !assert.NoError(t, err) {
		return
	}
	defer conn.Close()
	var sent []byte
	for range 1 + rand.IntN(30) {
		sent = append(sent, encoded(randomCommand())...)
	}
	if rand.IntN(4) == 0 {
		sent = sent[:rand.IntN(len(sent))]
	}
	go func() {
		for len(sent) > 0 {
			n := min(len(sent), 1+rand.IntN(1<<(1+rand.IntN(18))))
			if _, err := conn.Write(sent[:n]); err != nil {
				return
			}
			sent = sent[n:]
		}
		if tcp, ok := conn.(*net.TCPConn); ok && rand.IntN(2) == 0 {
			_ = tcp.CloseWrite()
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(100)) * time.Millisecond))
	r := bufio.NewReader(conn)
	for err = nil; err == nil; {
		err = skipReply(r)
	}
	if netErr, ok := err.(net.Error); err != io.EOF && err != io.ErrUnexpectedEOF && !(ok && netErr.Timeout()) {
		assert.ErrorContains(t, err, "reset by peer")
	}
}
