package logs

import (
	"strings"

	"github.com/valyala/fastjson"
)

// object is one JSON object a line. Fields are found by their names: those of nested objects by a path with dots, such
// as request.headers.X-Api-Key. Of an array all elements count, separated by ", ", as header fields are.
type object struct {
	clock  clock
	parser fastjson.Parser
	times  []place
	named  bool      // by the user
	wants  [][]place // of each field that is wanted: where it may be
	room   []byte    // for values that are no views of the line
}

// earliestNs is 1990: a number that is an earlier time is a duration, or a number of something else.
const earliestNs = 631_152_000e9

// place is where a value is in an object.
type place struct {
	name string   // of a value at the top, whose name may have dots
	path []string // of one that is deeper; nil for none
	part part
}

func placeOf(s source) place {
	p := place{name: s.name, part: s.part}
	if strings.Contains(s.name, ".") {
		p.path = strings.Split(s.name, ".")
	}
	return p
}

func newJSON(o Options, c clock) Layout {
	l := &object{clock: c, named: o.Time != ""}
	names := times
	if o.Time != "" {
		names = []string{o.Time}
	}
	for _, name := range names {
		l.times = append(l.times, placeOf(source{name, whole}))
	}
	return l
}

func (l *object) Want(name string) (int, error) {
	var places []place
	for _, s := range sourcesOf(name) {
		places = append(places, placeOf(s))
	}
	l.wants = append(l.wants, places)
	return len(l.wants) - 1, nil
}

func (l *object) Parse(line []byte, r *Record) error {
	v, err := l.parser.ParseBytes(line)
	if err != nil || v.Type() != fastjson.TypeObject {
		return NotJSON
	}
	l.room = l.room[:0]
	problem := NoTime
	for i := range l.times {
		text := l.value(v, &l.times[i])
		if isMissing(text) {
			continue
		}
		if ns, ok := l.clock.read(text); ok && ns < earliestNs && !l.named {
			r.TimeNs, problem = ns, "" // unless another field has a time of ours
			continue
		} else if ok {
			r.TimeNs, problem = ns, ""
			if i > 0 { // lines that follow will have it there, too
				l.times[0], l.times[i] = l.times[i], l.times[0]
			}
			break
		}
		if problem != "" {
			problem = BadTime
		}
	}
	if problem != "" {
		return problem
	}
	r.Fields = r.Fields[:0]
	for _, places := range l.wants {
		var value []byte
		for i := range places {
			if value = l.value(v, &places[i]); value != nil {
				break
			}
		}
		r.Fields = append(r.Fields, value)
	}
	return nil
}

// value is what an object has at a place, nil if it has no text and no number there.
func (l *object) value(v *fastjson.Value, p *place) []byte {
	at := v.Get(p.name)
	if at == nil && p.path != nil {
		at = v.Get(p.path...)
	}
	if at == nil {
		return nil
	}
	text := l.text(at)
	if text == nil || p.part == whole {
		return text
	}
	return p.part.of(text)
}

func (l *object) text(v *fastjson.Value) []byte {
	switch v.Type() {
	case fastjson.TypeString:
		return v.GetStringBytes()
	case fastjson.TypeNumber, fastjson.TypeTrue, fastjson.TypeFalse:
		from := len(l.room)
		l.room = v.MarshalTo(l.room)
		return l.room[from:len(l.room):len(l.room)]
	case fastjson.TypeArray:
		from := len(l.room)
		for i, element := range v.GetArray() {
			if element.Type() != fastjson.TypeString {
				return nil
			}
			if i > 0 {
				l.room = append(l.room, ", "...)
			}
			l.room = append(l.room, element.GetStringBytes()...)
		}
		return l.room[from:len(l.room):len(l.room)]
	}
	return nil
}
