package main

import (
	dev "github.com/alicebob/miniredis/v2/server"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

// writeReply writes a reply as the module does, in the client's protocol.
func writeReply(w *dev.Writer, r embedded.Reply) {
	if r.Kind == command.ReplyError {
		w.WriteError(r.Error)
		return
	}
	writeValue(w, r.Value())
}
