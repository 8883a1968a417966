package main

import (
	"errors"
	"strings"
	"time"

	"redis-throttle/limiter/embedded"
	"redis-throttle/spec"
)

const wrongType = "(error) WRONGTYPE"

// played are the lines of a history: steps of the clock, and calls with the replies of the limiter. Calls that it
// refuses as they are written are left out. Where a key is of another kind the reply is wrongType alone.
func played(h []string) (lines []string) {
	for {
		refused := -1
		if lines, refused = replay(h); refused < 0 {
			return lines
		}
		h = without(h, refused, 1)
	}
}

// replay runs a history up to the first call that is refused, whose index it returns, -1 if there is none.
func replay(h []string) (lines []string, refused int) {
	host, now := embedded.Host{}, spec.Start
	for i, step := range h {
		lines = append(lines, step)
		words, isCall := strings.CutPrefix(step, "> ")
		if !isCall {
			by, err := time.ParseDuration(step)
			if err != nil {
				panic(err)
			}
			now = now.Add(by)
			continue
		}
		reply := ask(&host, strings.Fields(words), now)
		if strings.HasPrefix(reply, wrongType) {
			reply = wrongType
		} else if strings.HasPrefix(reply, "(error)") {
			return nil, i
		}
		lines = append(lines, reply)
	}
	return lines, -1
}

func ask(host *embedded.Host, words []string, now time.Time) string {
	if words[0] == "DEL" && len(words) == 2 { // the one command of servers
		existed := host.Get(now.UnixNano(), 0, words[1]) != nil
		host.Delete(0, words[1])
		return map[bool]string{true: "1", false: "0"}[existed]
	}
	call := embedded.Call{NowNs: now.UnixNano()}
	for _, word := range words {
		call.Words = append(call.Words, []byte(word))
	}
	r := host.Do(call)
	if r.Error != "" {
		return spec.Reply(errors.New(r.Error))
	}
	return spec.Reply(r.Value())
}
