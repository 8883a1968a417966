package main

import (
	"fmt"

	dev "github.com/alicebob/miniredis/v2/server"

	"redis-throttle/limiter/embedded"
)

// What a reply can be made of, beside int, int64, string (a bulk string) and []any (an array).
type (
	pairs  = embedded.Map
	status string   // a simple string
	flags  []status // a set
	set    []any
)

func (c *call) write(value any) {
	c.peer.Block(func(w *dev.Writer) { writeValue(w, value) })
}

func writeValue(w *dev.Writer, value any) {
	switch v := value.(type) {
	case nil:
		w.WriteNull()
	case int:
		w.WriteInt(v)
	case int64:
		w.WriteInt(int(v))
	case string:
		w.WriteBulk(v)
	case status:
		w.WriteInline(string(v))
	case flags:
		w.WriteSetLen(len(v))
		for _, flag := range v {
			w.WriteInline(string(flag))
		}
	case set:
		w.WriteSetLen(len(v))
		for _, e := range v {
			writeValue(w, e)
		}
	case []any:
		w.WriteLen(len(v))
		for _, e := range v {
			writeValue(w, e)
		}
	case pairs:
		w.WriteMapLen(len(v) / 2)
		for _, e := range v {
			writeValue(w, e)
		}
	default:
		panic(fmt.Sprintf("no reply is made of %T", value))
	}
}
