package twins_test

import (
	"fmt"
	"slices"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/resp"
)

// virtualEach counts what calls with EACH have shown.
type virtualEach struct{ partly, shadowed int }

// withEach now and then has a call reply with what each limit says, as the model does.
func (r *virtualRun) withEach(c virtualCall, reply naive.Reply, each []naive.Each) virtualCall {
	if r.IntN(3) > 0 {
		return c
	}
	c.words = append(slices.Clip(c.words), "EACH")
	isCompact := r.IntN(2) == 0
	if isCompact {
		c.words = append(c.words, "COMPACT")
	}
	limiting := 0
	for _, e := range each {
		limiting += int(e.Limited)
		c.want += fmt.Sprint(" ", e.Fields())
	}
	switch {
	case reply.Limited == 1 && limiting > 0 && limiting < len(each):
		r.each.partly++
	case reply.Limited == 0 && limiting > 0:
		r.each.shadowed++
	}
	without := c.shown
	c.shown = func(v resp.Value) string {
		if v.IsError() {
			return without(v)
		}
		rest, arrays := parted(v, isCompact, len(each))
		text := without(rest)
		if isCompact { // the same integers, whatever the command
			ints, err := rest.Ints()
			text = fmt.Sprint(ints)
			if err != nil {
				text = v.String()
			}
		}
		for _, array := range arrays {
			ints, err := array.Ints()
			if err != nil {
				return v.String()
			}
			text += fmt.Sprint(" ", ints)
		}
		return text
	}
	return c
}

// parted divides a reply into what it would be without EACH, and the arrays at its end.
func parted(v resp.Value, isCompact bool, limits int) (rest resp.Value, arrays []resp.Value) {
	rest = v
	end := len(v.Elems)
	switch {
	case isCompact && end > limits:
		rest.Elems, arrays = v.Elems[:end-limits], v.Elems[end-limits:]
	case !isCompact && end > 2 && v.Elems[end-2].Text == "each":
		rest.Elems, arrays = v.Elems[:end-2], v.Elems[end-1].Elems
	}
	return rest, arrays
}
