package fields

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"redis-throttle/cmd/throttle-replay/logs"
	"redis-throttle/ratelimit/keyby"
)

// Key is a template of keys, such as {remote_addr} or {request.headers.X-Account}:{method}.
type Key struct {
	text    string
	parts   []keyPart
	proxies []netip.Prefix
}

// keyPart is a text, or a field.
type keyPart struct {
	text  string
	field string
	bits  int // of an address: how many bits of IPv6 make a network
}

// The fields that are addresses without saying so.
const (
	peer   = "remote_addr"
	client = "client" // the address behind the trusted proxies
)

// usualBits is how many bits of an IPv6 address make a key, as package keyby has it.
const usualBits = 64

// ParseKey reads a template. A text without a field is one key for all requests. In braces stands the name of a field,
// and behind a slash how many bits of an IPv6 address count. Addresses make the keys that they make in all clients of
// the project: spec/clients/addresses.json. {client} is the address behind the trusted proxies.
func ParseKey(text string, trusted []netip.Prefix) (*Key, error) {
	k := &Key{text: text, proxies: trusted}
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return nil, fmt.Errorf("--key %q: a } without a {", text)
		}
		if before != "" {
			k.parts = append(k.parts, keyPart{text: before})
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed || name == "" || strings.Contains(name, "{") {
			return nil, fmt.Errorf("--key %q: expected a field in braces, such as {remote_addr}", text)
		}
		part, err := parsePart(name)
		if err != nil {
			return nil, fmt.Errorf("--key %q: %w", text, err)
		}
		k.parts, rest = append(k.parts, part), behind
	}
	if len(k.parts) == 0 {
		return nil, errors.New("--key needs a field in braces, such as {remote_addr}, or a text for all requests together")
	}
	return k, nil
}

func parsePart(name string) (keyPart, error) {
	field, number, isCut := strings.Cut(name, "/")
	p := keyPart{field: field}
	if isCut {
		bits, err := strconv.Atoi(number)
		if err != nil || bits < 1 || bits > 128 {
			return p, fmt.Errorf("{%s}: what stands behind the slash is how many bits of an IPv6 address count, 1 to 128, such as {%s/64}", name, field)
		}
		p.bits = bits
	} else if field == peer || field == client {
		p.bits = usualBits
	}
	return p, nil
}

// String is the template.
func (k *Key) String() string { return k.text }

// Bind has a layout read what the key is made of.
func (k *Key) Bind(l logs.Layout) (*BoundKey, error) {
	b := &BoundKey{}
	for _, p := range k.parts {
		bound := boundPart{text: p.text, field: -1, forwarded: -1}
		var err error
		switch {
		case p.field == "":
		case p.field == client:
			if bound.field, err = wants(l, "--key", peer); err != nil {
				return nil, err
			}
			if bound.forwarded, err = wants(l, "--key {client}", "x_forwarded_for"); err != nil {
				return nil, err
			}
			bound.address = newAddress(p.bits, k.proxies)
		default:
			if bound.field, err = wants(l, "--key", p.field); err != nil {
				return nil, err
			}
			if p.bits > 0 {
				bound.address = newAddress(p.bits, nil)
			}
		}
		b.parts = append(b.parts, bound)
	}
	return b, nil
}

// BoundKey makes keys of the records of one layout.
type BoundKey struct {
	parts []boundPart
	// NoAddress says that the record of the last Append has no address where the key asks for one. Wrong is what it has
	// there instead.
	NoAddress bool
	Wrong     []byte
}

type boundPart struct {
	text      string
	field     int // -1 for the text
	forwarded int // -1 for none
	address   *address
}

// Append appends the key of a record to dst. ok is false for a request that lacks a field of it: no limit applies to
// it.
func (k *BoundKey) Append(dst []byte, r *logs.Record) (key []byte, ok bool) {
	k.NoAddress = false
	for i := range k.parts {
		p := &k.parts[i]
		if p.field < 0 {
			dst = append(dst, p.text...)
			continue
		}
		value := r.Fields[p.field]
		if p.address != nil && !isIPv4(value) && !isPeer(value) {
			k.NoAddress, k.Wrong = true, value
		}
		switch {
		case p.forwarded >= 0:
			dst = p.address.appendClient(dst, value, r.Fields[p.forwarded])
		case p.address != nil:
			dst = p.address.append(dst, value)
		case isMissing(value):
			return dst, false
		default:
			dst = append(dst, value...)
		}
	}
	return dst, true
}

// address makes keys of addresses by the rules of package keyby, which are those of all clients.
type address struct {
	network   keyby.Network
	client    keyby.Func
	isTrusted bool // there are trusted proxies
	request   http.Request
}

func newAddress(bits int, trusted []netip.Prefix) *address {
	n := keyby.IPv6(bits)
	return &address{network: n, client: n.Client(trusted...), isTrusted: len(trusted) > 0, request: http.Request{Header: http.Header{}}}
}

// append appends the key of a peer.
func (a *address) append(dst, value []byte) []byte {
	if isIPv4(value) { // which is its own key
		return append(dst, value...)
	}
	a.request.RemoteAddr = peerOf(value)
	return append(dst, a.network.RemoteHost(&a.request)...)
}

// appendClient appends the key of the client behind the peer.
func (a *address) appendClient(dst, value, forwarded []byte) []byte {
	if !a.isTrusted && isIPv4(value) {
		return append(dst, value...)
	}
	a.request.RemoteAddr = peerOf(value)
	if host := a.request.RemoteAddr; host != "" && host[0] != '@' && host[0] != '/' {
		if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil { // Client expects a port
			a.request.RemoteAddr = netip.AddrPortFrom(addr, 0).String()
		}
	}
	delete(a.request.Header, "X-Forwarded-For")
	if !isMissing(forwarded) {
		a.request.Header["X-Forwarded-For"] = []string{string(forwarded)}
	}
	return append(dst, a.client(&a.request)...)
}

// peerOf is a peer as net/http calls it. nginx calls one at a Unix socket "unix:".
func peerOf(value []byte) string {
	if isMissing(value) || string(value) == "unix:" {
		return ""
	}
	return string(logs.WithoutPort(value))
}

// isPeer reports whether a log says who a peer is: an address, or a Unix socket.
func isPeer(value []byte) bool {
	return len(value) > 0 && (value[0] == '@' || value[0] == '/') || string(value) == "unix:" || logs.IsAddress(value)
}

// isIPv4 reports whether a text is an IPv4 address as netip writes it.
func isIPv4(text []byte) bool {
	if len(text) < 7 || len(text) > 15 {
		return false
	}
	dots, digits, n := 0, 0, 0
	for _, c := range text {
		digit := c - '0'
		switch {
		case digit <= 9 && !(digits == 1 && n == 0): // no leading zeros
			n = n*10 + int(digit)
			digits++
		case c == '.' && digits > 0:
			dots, digits, n = dots+1, 0, 0
		default:
			return false
		}
		if n > 255 {
			return false
		}
	}
	return dots == 3 && digits > 0
}
