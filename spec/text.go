package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"redis-throttle/limiter/embedded"
)

// Reply writes a reply as transcripts show it: integers as they are, texts in double quotes where they have spaces,
// errors as redis-cli does, an array in brackets unless it is the whole reply, and a map as name=value.
func Reply(value any) string {
	text := nested(value)
	if _, isInts := value.([]any); isInts && text != "[]" {
		return text[1 : len(text)-1]
	}
	return text
}

func nested(value any) string {
	switch v := value.(type) {
	case embedded.Map:
		return pairs(v)
	case []any:
		texts := make([]string, len(v))
		for i, e := range v {
			texts[i] = nested(e)
		}
		return "[" + strings.Join(texts, " ") + "]"
	case error:
		return "(error) " + v.Error()
	case string:
		if quoted := quote(v); v == "" || strings.ContainsAny(v, " =[]") || quoted != `"`+v+`"` {
			return quoted
		}
	}
	return fmt.Sprint(value)
}

// quote writes bytes between double quotes: printable ASCII as it is, all others as \xNN.
func quote(bytes string) string {
	b := []byte{'"'}
	for _, c := range []byte(bytes) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = fmt.Appendf(b, `\x%02x`, c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

func pairs(m embedded.Map) string {
	var texts []string
	for i := 0; i+1 < len(m); i += 2 {
		texts = append(texts, fmt.Sprintf("%v=%s", m[i], nested(m[i+1])))
	}
	return strings.Join(texts, " ")
}

// Lease is one of a sorted set: its id and the instant at which it lapses, in ms since the Unix epoch.
type Lease struct {
	ID       string
	LapsesMs int64
}

// Nothing is the Holding of a key that does not exist.
const Nothing = "nothing"

// Holding writes what a key holds at an instant: its value, or its leases and how long each of them lasts, and when the
// key expires. A key with the expiry 0 never does.
func Holding(now time.Time, value string, leases []Lease, expiresAtMs int64) string {
	text := value
	if _, err := strconv.ParseUint(value, 10, 64); err != nil {
		text = quote(value)
	}
	if len(leases) > 0 {
		texts := make([]string, len(leases))
		for i, l := range leases {
			texts[i] = l.ID + " " + until(now, l.LapsesMs)
		}
		text = strings.Join(texts, ", ")
	}
	if expiresAtMs == 0 {
		return text + " never expires"
	}
	return text + " expires in " + until(now, expiresAtMs)
}

// until writes a length of time in the largest units that give whole numbers, without those that are 0: 1h30m, not
// 1h30m0s.
func until(now time.Time, atMs int64) string {
	d := time.Duration(atMs-now.UnixMilli()) * time.Millisecond
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
