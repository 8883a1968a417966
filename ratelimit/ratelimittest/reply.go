package ratelimittest

import (
	"fmt"
	"strconv"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

// outcome is how a command ended.
type outcome struct {
	reply any
	err   error
}

// outcomeOf is r as go-redis returns the reply in RESP2.
func outcomeOf(r *embedded.Reply) outcome {
	if r.Kind == command.ReplyError {
		return outcome{err: ReplyError(r.Error)}
	}
	return outcome{reply: inRESP2(r.Value())}
}

// inRESP2 has arrays in place of maps.
func inRESP2(value any) any {
	switch v := value.(type) {
	case embedded.Map:
		return inRESP2([]any(v))
	case []any:
		for i, e := range v {
			switch e.(type) {
			case embedded.Map, []any:
				v[i] = inRESP2(e)
			}
		}
	}
	return value
}

// appendWord writes an argument as go-redis sends it.
func appendWord(b []byte, arg any) []byte {
	switch arg := arg.(type) {
	case string:
		return append(b, arg...)
	case []byte:
		return append(b, arg...)
	case int64:
		return strconv.AppendInt(b, arg, 10)
	}
	return fmt.Append(b, arg)
}
