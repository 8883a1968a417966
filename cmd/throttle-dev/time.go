package main

import (
	"strconv"
	"strings"
	"time"
)

// CL.DEV.TIME [time | REAL] [STOP | RUN] [STEP]
//
// Replies with the server's time. Before, it sets it, or has it stand still or go on. REAL is the machine's time, which
// goes on unless STOP says otherwise. On the way to a later time callers that wait are answered at their instants. With
// STEP it jumps there: nobody is answered on the way.
func devTime(c *call) {
	words := c.words[1:]
	stop, told, steps := c.clock.stopped, false, false
	if n := len(words); n > 0 && strings.EqualFold(string(words[n-1]), "STEP") {
		steps, words = true, words[:n-1]
	}
	if n := len(words); n > 0 {
		switch strings.ToUpper(string(words[n-1])) {
		case "STOP":
			stop, told, words = true, true, words[:n-1]
		case "RUN":
			stop, told, words = false, true, words[:n-1]
		}
	}
	toNs := c.now()
	switch {
	case len(words) > 1:
		c.fail("ERR CL.DEV.TIME takes a time, or REAL, and then STOP or RUN, and STEP")
		return
	case len(words) == 1 && strings.EqualFold(string(words[0]), "REAL"):
		toNs, stop = time.Now().UnixNano(), told && stop
	case len(words) == 1:
		var err error
		if toNs, err = parseTime(string(words[0])); err != nil {
			c.fail("ERR " + err.Error())
			return
		}
	}
	c.clock.stop(stop)
	if toNs > c.now() && !steps { // time passes, as with CL.DEV.ADVANCE
		c.advance(toNs)
	} else {
		c.jump(toNs)
	}
	c.peer.WriteBulk(shown(c.now()))
}

// CL.DEV.ADVANCE duration
//
// Has so much time pass at once, and replies with the time after it. Callers that wait are answered as if it had
// passed.
func devAdvance(c *call) {
	toNs, err := after(c.now(), string(c.words[1]))
	if err != nil {
		c.fail("ERR " + err.Error())
		return
	}
	c.advance(toNs)
	c.peer.WriteBulk(shown(c.now()))
}

// TIME
func timeCommand(c *call) {
	nowNs := c.now()
	c.write([]any{strconv.FormatInt(nowNs/int64(time.Second), 10), strconv.FormatInt(nowNs%int64(time.Second)/int64(time.Microsecond), 10)})
}

// TTL key, PTTL key, EXPIRETIME key, PEXPIRETIME key
//
// miniredis rounds other than servers do, and its instants end in 2262.
func ttl(c *call) {
	key := c.host.Get(c.now(), c.db, string(c.words[1]))
	switch {
	case key == nil:
		c.peer.WriteInt(-2)
	case key.ExpireAtMs == 0:
		c.peer.WriteInt(-1)
	default:
		name, ms := c.name(), key.ExpireAtMs
		if strings.HasSuffix(name, "TTL") {
			ms -= c.now() / nsPerMs
		}
		if name == "TTL" || name == "EXPIRETIME" {
			ms = (ms + 500) / 1000
		}
		c.peer.WriteInt(int(ms))
	}
}

// DEBUG SLEEP seconds | SET-ACTIVE-EXPIRE 0|1
func debug(c *call) {
	switch sub := c.word(1); {
	case sub == "SLEEP" && len(c.words) == 3:
		seconds, err := strconv.ParseFloat(string(c.words[2]), 64)
		if err != nil || !(seconds >= 0 && seconds <= 3600) { // not NaN either
			c.fail("ERR seconds must be a number from 0 to 3600")
			return
		}
		time.Sleep(time.Duration(seconds * float64(time.Second)))
		c.peer.WriteOK()
	case sub == "SET-ACTIVE-EXPIRE" && len(c.words) == 3: // keys whose time is over are never seen, whether they are deleted or not
		c.peer.WriteOK()
	default:
		c.fail("ERR throttle-dev knows DEBUG SLEEP and SET-ACTIVE-EXPIRE")
	}
}

// SHUTDOWN [NOSAVE|SAVE|NOW|FORCE|ABORT]...
func shutdown(c *call) {
	c.client.leaves = true
	c.end()
}
