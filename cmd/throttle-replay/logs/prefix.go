package logs

import (
	"bytes"
	"net/netip"

	"github.com/valyala/fastjson"
)

// prefixed is a log whose lines have something in front: what a collector of logs, or grep, has put there.
type prefixed struct {
	Layout
	strip stripper
}

// stripper returns a line without what stands in front. ok is false for a line that has nothing of the kind.
type stripper func(line []byte) (rest []byte, ok bool)

func (l *prefixed) Parse(line []byte, r *Record) error {
	rest, ok := l.strip(line)
	if !ok {
		return NotInFormat
	}
	return l.Layout.Parse(rest, r)
}

// strippers are what is recognized. Each has a state of its own.
func strippers() []stripper {
	return []stripper{dockerJSON(), cri, syslog5424, syslog3164, compose, bracketed, grepped, vhost}
}

// deepest is how many prefixes a line may have.
const deepest = 2

// stripperOf finds what stands in front of the lines of a log, and how the rest is read. It is nil if nothing does.
func stripperOf(start []byte, c clock, depth int) (strip stripper, f Format) {
	if depth == 0 {
		return nil, ""
	}
	for _, one := range strippers() {
		var rest []byte
		stripped, all := 0, 0
		for line := range bytes.Lines(start) {
			if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
				continue
			}
			if all++; all > 50 {
				break
			}
			if text, ok := one(line); ok {
				stripped++
				rest = append(append(rest, text...), '\n')
			}
		}
		if stripped == 0 || stripped*2 < all {
			continue
		}
		if f := detect(rest, c); f != "" && f != CSV && (f != Combined || hasAddresses(rest, c)) {
			return one, f
		}
		if inner, f := stripperOf(rest, c, depth-1); f != "" {
			return func(line []byte) ([]byte, bool) {
				rest, ok := one(line)
				if !ok {
					return nil, false
				}
				return inner(rest)
			}, f
		}
	}
	return nil, ""
}

// hasAddresses reports whether most lines of a log in the combined format begin with an address.
func hasAddresses(start []byte, c clock) bool {
	l, r := newCombined(c), Record{}
	addresses, all := 0, 0
	for line := range bytes.Lines(start) {
		if l.Parse(bytes.TrimRight(line, "\r\n"), &r) != nil {
			continue
		}
		if all++; IsAddress(r.Fields[fieldAddr]) {
			addresses++
		}
	}
	return addresses*2 > all
}

// IsAddress reports whether a text is an IP address, also with a port.
func IsAddress(text []byte) bool {
	if len(text) < 2 || len(text) > 64 {
		return false
	}
	if _, err := netip.ParseAddr(string(bytes.Trim(text, "[]"))); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(string(text))
	return err == nil || len(WithoutPort(text)) < len(text)
}

// WithoutPort cuts the port off an IPv6 address that has all eight groups and no brackets, as load balancers of AWS
// write it. Any other text is returned as it is.
func WithoutPort(text []byte) []byte {
	if bytes.Count(text, []byte(":")) != 8 || bytes.Contains(text, []byte("::")) || text[0] == '[' {
		return text
	}
	at := bytes.LastIndexByte(text, ':')
	if _, err := netip.ParseAddr(string(text[:at])); err != nil {
		return text
	}
	return text[:at]
}

// dockerJSON reads {"log":"...\n","stream":"stdout","time":"..."}, of Docker's driver json-file.
func dockerJSON() stripper {
	var parser fastjson.Parser
	return func(line []byte) ([]byte, bool) {
		if !isDocker(line) {
			return nil, false
		}
		v, err := parser.ParseBytes(line)
		if err != nil {
			return nil, false
		}
		return bytes.TrimRight(v.GetStringBytes("log"), "\r\n"), true
	}
}

// token cuts a text at its first space.
func token(text []byte) (first, rest []byte) {
	first, rest, _ = bytes.Cut(text, []byte(" "))
	return first, rest
}

// isInstant reports whether a text begins like 2026-08-16T08:39:01.
func isInstant(text []byte) bool {
	return len(text) >= 19 && text[4] == '-' && text[7] == '-' && text[10] == 'T' && text[13] == ':' && text[0]-'0' <= 9
}

// cri reads 2026-08-16T08:39:01.8641Z stdout F ..., of Kubernetes.
func cri(line []byte) ([]byte, bool) {
	at, rest := token(line)
	stream, rest := token(rest)
	tag, rest := token(rest)
	isStream := string(stream) == "stdout" || string(stream) == "stderr"
	return rest, isInstant(at) && isStream && len(tag) > 0 && (tag[0] == 'F' || tag[0] == 'P')
}

// priority cuts <190> off.
func priority(line []byte) (rest []byte, ok bool) {
	end := bytes.IndexByte(line, '>')
	if len(line) == 0 || line[0] != '<' || end < 2 || end > 4 {
		return line, false
	}
	return line[end+1:], true
}

// syslog5424 reads <190>1 2026-08-16T08:39:01Z host app 123 - [data] ... of RFC 5424.
func syslog5424(line []byte) ([]byte, bool) {
	rest, ok := priority(line)
	if rest, ok2 := bytes.CutPrefix(rest, []byte("1 ")); ok && ok2 {
		at, rest := token(rest)
		for range 4 { // host, program, process, message
			_, rest = token(rest)
		}
		if text, ok := bytes.CutPrefix(rest, []byte("- ")); ok {
			return bytes.TrimPrefix(text, byteOrderMark), isInstant(at)
		}
		if end := bytes.Index(rest, []byte("] ")); end > 0 && rest[0] == '[' {
			return bytes.TrimPrefix(rest[end+2:], byteOrderMark), isInstant(at)
		}
	}
	return nil, false
}

// syslog3164 reads Aug 16 08:39:01 host program[123]: ..., of RFC 3164, or with a time of RFC 3339.
func syslog3164(line []byte) ([]byte, bool) {
	rest, _ := priority(line)
	switch {
	case len(rest) > 16 && rest[3] == ' ' && rest[6] == ' ' && rest[9] == ':' && rest[12] == ':' && rest[15] == ' ':
		rest = rest[16:]
	case isInstant(rest):
		_, rest = token(rest)
	default:
		return nil, false
	}
	_, rest = token(rest) // host
	program, rest := token(rest)
	return rest, bytes.HasSuffix(program, []byte(":")) && len(rest) > 0
}

// compose reads web-1  | ..., of docker compose logs.
func compose(line []byte) ([]byte, bool) {
	name, rest, found := bytes.Cut(line, []byte("| "))
	name = bytes.TrimRight(name, " ")
	return rest, found && len(name) > 0 && len(name) < 64 && !bytes.ContainsAny(name, " \"[{")
}

// bracketed reads [pod/web-1/nginx] ..., of kubectl logs --prefix.
func bracketed(line []byte) ([]byte, bool) {
	name, rest, found := bytes.Cut(line, []byte("] "))
	return rest, found && len(name) > 1 && name[0] == '[' && !bytes.ContainsAny(name, " \"{")
}

// grepped reads access.log:..., 17:... and access.log:17:..., of grep -H and -n.
func grepped(line []byte) ([]byte, bool) {
	first, _ := token(line)
	for from := 0; ; {
		at := bytes.IndexByte(first[from:], ':')
		if at < 0 {
			return nil, false
		}
		if from += at + 1; IsAddress(first[from:]) || bytes.HasPrefix(line[from:], []byte("{")) {
			return line[from:], from > 1
		}
	}
}

// vhost reads www.example.com:80 192.0.2.1 - - [...], of Apache's vhost_combined, and $host in front.
func vhost(line []byte) ([]byte, bool) {
	name, rest := token(line)
	addr, _ := token(rest)
	return rest, len(name) > 0 && name[len(name)-1] != ',' && !IsAddress(name) && IsAddress(addr)
}

// stripAll strips lines.
func stripAll(start []byte, strip stripper) (rest []byte) {
	for line := range bytes.Lines(start) {
		if text, ok := strip(bytes.TrimRight(line, "\r\n")); ok {
			rest = append(append(rest, text...), '\n')
		}
	}
	return rest
}
