package main

import (
	"math"
	"slices"
	"strconv"
	"strings"

	dev "github.com/alicebob/miniredis/v2/server"
)

// The commands that wait for lists, sets and streams. miniredis would wait inside, where no caller of ours could be
// decided, so the server asks it once, in a transaction, which does not wait, and again after each command of others.

// blockingCommand says where a command has its timeout and its keys.
type blockingCommand struct {
	timeoutAt int // the word; from the end if it is negative
	block     bool
	// waitsFor is the type of the keys that the command waits for, empty where miniredis says what to do about other
	// types. The keys begin at first, and end before end, which counts from the end if it is not positive. If end is
	// first, the word before says how many they are.
	waitsFor   string
	first, end int
}

var blocking = map[string]blockingCommand{
	"BLPOP": {timeoutAt: -1, waitsFor: "list", first: 1, end: -1}, "BRPOP": {timeoutAt: -1, waitsFor: "list", first: 1, end: -1},
	"BLMOVE": {timeoutAt: -1, waitsFor: "list", first: 1, end: 2}, "BRPOPLPUSH": {timeoutAt: -1, waitsFor: "list", first: 1, end: 2},
	"BZPOPMIN": {timeoutAt: -1, waitsFor: "zset", first: 1, end: -1}, "BZPOPMAX": {timeoutAt: -1, waitsFor: "zset", first: 1, end: -1},
	"BZMPOP": {timeoutAt: 1, waitsFor: "zset", first: 3, end: 3},
	"XREAD":  {block: true}, "XREADGROUP": {block: true},
}

func (at blockingCommand) keys(words [][]byte) [][]byte {
	end := at.end
	switch {
	case end == at.first:
		n, _ := strconv.Atoi(string(words[end-1])) // miniredis has read it before
		end += n
	case end <= 0:
		end += len(words)
	}
	return words[at.first:end]
}

// isReady reports whether one of a client's keys is of the type that it waits for. Until then it waits, also while its
// keys are of other types.
func (s *server) isReady(c *client) bool {
	at := blocking[strings.ToUpper(string(c.words[0]))]
	if at.waitsFor == "" {
		return true
	}
	s.ask(false, "SELECT", itoa(c.db))
	return slices.ContainsFunc(at.keys(c.words), func(key []byte) bool {
		return s.ask(false, "TYPE", string(key)) == "+"+at.waitsFor+"\r\n"
	})
}

const (
	noFloat    = "ERR timeout is not a float or out of range"
	noInteger  = "ERR timeout is not an integer or out of range"
	outOfRange = "ERR timeout is out of range"
)

// endless is a wait that does not end: no clock here goes on for so many ms.
const endless = math.MaxInt64 / nsPerMs

// wait returns for how many ms a call waits at most, 0 for as long as it takes; ok is false if it does not wait.
// problem says what is wrong with the timeout, where miniredis takes it all the same.
func (at blockingCommand) wait(words [][]byte, nowNs int64) (ms int64, ok bool, problem string) {
	if at.block {
		return waitOfBlock(words, nowNs)
	}
	index := at.timeoutAt
	if index < 0 {
		index += len(words)
	}
	word := string(words[index])
	seconds, err := strconv.ParseFloat(word, 64)
	switch {
	case err != nil || seconds < 0: // miniredis says so
		return 0, false, ""
	case math.IsNaN(seconds) || strings.Contains(word, "_"):
		return 0, false, noFloat
	case seconds*1000 >= math.MaxInt64-float64(nowNs/nsPerMs):
		return 0, false, outOfRange
	}
	return int64(math.Ceil(seconds * 1000)), true, ""
}

// waitOfBlock looks for BLOCK ms among the options of XREAD and XREADGROUP.
func waitOfBlock(words [][]byte, nowNs int64) (ms int64, ok bool, problem string) {
	for i := 1; i < len(words)-1; i++ {
		switch strings.ToUpper(string(words[i])) {
		case "GROUP":
			i += 2
		case "COUNT":
			i++
		case "STREAMS":
			return ms, ok, ""
		case "BLOCK":
			i++
			n, err := strconv.ParseInt(string(words[i]), 10, 64)
			switch {
			case err != nil || strconv.FormatInt(n, 10) != string(words[i]):
				return 0, false, noInteger
			case n < 0: // miniredis says so
				return 0, false, ""
			case n > math.MaxInt64-nowNs/nsPerMs:
				return 0, false, outOfRange
			}
			ms, ok = n, true
		}
	}
	return ms, ok, ""
}

// block runs a command that waits if there is nothing for it.
func (c *call) block(at blockingCommand) {
	if len(c.words) < 2 {
		c.wrongArity()
		return
	}
	words := c.words
	waitMs, waits, problem := at.wait(words, c.now())
	if problem != "" {
		if before := c.problem(); before != "" {
			problem = before
		}
		c.fail(problem)
		return
	}
	if at.block {
		words = c.fixLast(words)
	}
	reply, empty := c.once(c.db, c.peer.Resp3, words)
	if !empty || !waits || !c.mayWait {
		c.host.StoreChanged()
		c.store.changed = c.store.changed || !empty
		c.peer.WriteRaw(reply)
		return
	}
	c.client.words, c.client.nothing = words, reply
	if waitMs > 0 && waitMs < endless-c.now()/nsPerMs {
		c.client.deadlineNs = c.now() + waitMs*nsPerMs
	}
	c.blocked = append(c.blocked, c.client)
}

// fixLast replaces the ids $, which stand for the last entry of a stream as of now, by those entries' ids.
func (c *call) fixLast(words [][]byte) [][]byte {
	words = append([][]byte(nil), words...)
	streams := 0
	for i, word := range words {
		if strings.EqualFold(string(word), "STREAMS") {
			streams = i + 1
			break
		}
	}
	keys := (len(words) - streams) / 2
	if streams == 0 || keys == 0 {
		return words
	}
	for i := range keys {
		if at := streams + keys + i; at < len(words) && string(words[at]) == "$" {
			words[at] = []byte("0-0")
			// An array of one entry, which is an array of two, of which the first is the id.
			if lines := strings.Split(c.ask("XREVRANGE", string(words[streams+i]), "+", "-", "COUNT", "1"), "\r\n"); len(lines) > 3 {
				words[at] = []byte(lines[3])
			}
		}
	}
	return words
}

// ask has miniredis run a command for the server itself, in the call's database.
func (c *call) ask(words ...string) string {
	c.server.ask(false, "SELECT", itoa(c.db))
	return c.server.ask(false, words...)
}

// once runs a command without waiting. empty says that there was nothing for it.
func (s *server) once(db int, resp3 bool, words [][]byte) (reply string, empty bool) {
	s.ask(resp3, "SELECT", itoa(db))
	s.ask(resp3, "MULTI")
	if queued := s.ask(resp3, texts(words)...); queued != "+QUEUED\r\n" {
		s.ask(resp3, "DISCARD")
		return queued, false
	}
	_, reply, _ = strings.Cut(s.ask(resp3, "EXEC"), "\r\n") // behind the length of the transaction's array
	empty = reply == "*-1\r\n" || reply == "$-1\r\n" || reply == "_\r\n"
	if empty && resp3 { // miniredis has the null of RESP2 for arrays
		reply = "_\r\n"
	}
	return reply, empty
}

// retry answers the clients for which there is something now, or whose time is over. It reports whether it answered
// any.
func (s *server) retry(nowNs int64) (some bool) {
	for _, c := range append([]*client(nil), s.blocked...) {
		reply, empty := c.nothing, true
		if s.isReady(c) {
			reply, empty = s.once(c.db, c.peer.Resp3, c.words)
		}
		if empty && (c.deadlineNs == 0 || nowNs < c.deadlineNs) {
			continue
		}
		some = true
		s.unblock(c)
		s.host.StoreChanged()
		s.store.changed = true
		c.answer(func(w *dev.Writer) { w.WriteRaw(reply) })
	}
	return some
}
