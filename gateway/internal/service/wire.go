package service

import (
	"unicode/utf8"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// What follows reads and writes the messages that nearly all requests have, in few pieces of memory. Any other message
// is protobuf's.

// longestPlain bounds such a request, whose texts are one piece of memory: who keeps one of them keeps all.
const longestPlain = 4 << 10

// fields are those of a message that have not been read.
type fields string

// varint takes a number. ok is false unless it is one of at most nine bytes.
func (f *fields) varint() (n uint64, ok bool) {
	for i := range min(len(*f), 9) {
		b := (*f)[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			*f = (*f)[i+1:]
			return n, true
		}
	}
	return 0, false
}

// bytes takes what has a length.
func (f *fields) bytes() (value fields, ok bool) {
	n, ok := f.varint()
	if !ok || n > uint64(len(*f)) {
		return "", false
	}
	value, *f = (*f)[:n], (*f)[n:]
	return value, true
}

// text takes a text, which is UTF-8.
func (f *fields) text() (string, bool) {
	value, ok := f.bytes()
	return string(value), ok && utf8.ValidString(string(value))
}

// The tags of the fields that are read: the number of a field, and whether it is a varint (0) or has a length (2).
const (
	domainTag, descriptorTag, hitsTag = 1<<3 | 2, 2<<3 | 2, 3 << 3 // of a request
	entryTag                          = 1<<3 | 2                   // of a descriptor
	keyTag, valueTag                  = 1<<3 | 2, 2<<3 | 2         // of an entry
)

// described is a descriptor with its first entry, in one piece of memory.
type described struct {
	common.RateLimitDescriptor
	first   [1]*common.RateLimitDescriptor_Entry
	entries [1]common.RateLimitDescriptor_Entry
}

// asked is a request with its descriptors, in one piece of memory unless there are many.
type asked struct {
	rls.RateLimitRequest
	room        [2]described
	descriptors [2]*common.RateLimitDescriptor
}

// readPlain reads a request of a domain, hits and descriptors of entries alone. It returns false for any other, which
// protobuf may take or refuse, and then the request holds anything. Requests are read once.
func (request *asked) readPlain(data mem.BufferSlice) bool {
	if len(data) != 1 || data[0].Len() > longestPlain {
		return false
	}
	rest := fields(data[0].ReadOnlyData())
	n, ok := rest.count(descriptorTag)
	if !ok {
		return false
	}
	all := request.room[:]
	if request.Descriptors = request.descriptors[:0]; n > len(all) {
		all, request.Descriptors = make([]described, n), make([]*common.RateLimitDescriptor, 0, n)
	}
	for len(rest) > 0 && ok {
		var tag, hits uint64
		switch tag, ok = rest.varint(); {
		case !ok:
		case tag == domainTag:
			request.Domain, ok = rest.text()
		case tag == hitsTag:
			hits, ok = rest.varint()
			request.HitsAddend = uint32(hits)
		default: // of a descriptor, since they were counted
			var one fields
			one, ok = rest.bytes()
			d := &all[len(request.Descriptors)]
			request.Descriptors = append(request.Descriptors, &d.RateLimitDescriptor)
			ok = ok && d.read(one)
		}
	}
	return ok
}

// count is how many fields of a tag there are. ok is false if there are others than that and what a request has beside
// its descriptors.
func (f fields) count(of uint64) (n int, ok bool) {
	for len(f) > 0 {
		tag, ok := f.varint()
		switch {
		case ok && tag == of:
			n++
			_, ok = f.bytes()
		case ok && tag == domainTag:
			_, ok = f.bytes()
		case ok && tag == hitsTag:
			_, ok = f.varint()
		default:
			return 0, false
		}
		if !ok {
			return 0, false
		}
	}
	return n, true
}

func (d *described) read(f fields) bool {
	d.Entries = d.first[:0]
	for len(f) > 0 {
		if tag, ok := f.varint(); !ok || tag != entryTag {
			return false
		}
		entry, ok := f.bytes()
		e := &d.entries[0]
		if len(d.Entries) > 0 {
			e = &common.RateLimitDescriptor_Entry{}
		}
		if !ok || !readEntry(entry, e) {
			return false
		}
		d.Entries = append(d.Entries, e)
	}
	return true
}

func readEntry(f fields, e *common.RateLimitDescriptor_Entry) bool {
	for ok := true; len(f) > 0; {
		switch tag, _ := f.varint(); tag {
		case keyTag:
			e.Key, ok = f.text()
		case valueTag:
			e.Value, ok = f.text()
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return true
}

// sentPlain is a response as it is sent, in one piece of memory unless it is long.
type sentPlain struct {
	wire mem.SliceBuffer
	data [1]mem.Buffer
	room [112]byte // two statuses, and a name
}

// writePlain writes a response without header fields and metadata.
func (s *Service) writePlain(o *outcome) *sentPlain {
	var buffer [4]told
	all, _, _ := s.tell(o, buffer[:0])
	w := &sentPlain{}
	b := append(w.room[:0], 1<<3, byte(code(o.Over)))
	for i := range all {
		var status [96]byte
		b = protowire.AppendBytes(append(b, 2<<3|2), all[i].append(status[:0]))
	}
	w.wire = b
	w.data[0] = &w.wire
	return w
}

// append writes a rls.RateLimitResponse_DescriptorStatus.
func (t *told) append(b []byte) []byte {
	b = append(b, 1<<3, byte(t.code))
	if t.known {
		var limit, reset [48]byte
		b = protowire.AppendBytes(append(b, 2<<3|2), t.appendLimit(limit[:0]))
		b = appendNumber(b, 3, uint64(t.remaining))
		seconds, nanos := t.untilReset()
		return protowire.AppendBytes(append(b, 4<<3|2), appendNumber(appendNumber(reset[:0], 1, uint64(seconds)), 2, uint64(nanos)))
	}
	return appendNumber(b, 3, uint64(t.remaining))
}

// appendLimit writes a rls.RateLimitResponse_RateLimit.
func (t *told) appendLimit(b []byte) []byte {
	b = appendNumber(appendNumber(b, 1, uint64(t.limit.Requests)), 2, uint64(t.limit.Unit))
	if t.name != "" {
		b = protowire.AppendString(append(b, 3<<3|2), t.name)
	}
	if t.limit.Units > 1 {
		var units [8]byte
		b = protowire.AppendBytes(append(b, 4<<3|2), appendNumber(units[:0], 1, uint64(t.limit.Units)))
	}
	return b
}

// appendNumber writes a field of one of the first 15 numbers, unless it is 0.
func appendNumber(b []byte, field byte, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, field<<3), n)
}
