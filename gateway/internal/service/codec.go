package service

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one is built on
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Codec reads and writes protobuf. Envoy puts header fields and paths of clients into texts as they came, and protobuf
// refuses texts that are not UTF-8: a request that a single byte made undecidable would pass Envoy unlimited. So bytes
// that are not UTF-8 are percent-encoded, as a URL has them.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

// Marshal is of encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if w, ok := v.(*sentPlain); ok {
		return w.data[:], nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal is of encoding.CodecV2. What protobuf takes costs nothing more.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if request, ok := v.(*asked); ok && request.readPlain(data) {
		return nil
	}
	err := c.CodecV2.Unmarshal(data, v)
	m, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	wire, ok := encoded(data.Materialize(), m.ProtoReflect().Descriptor(), 0)
	if !ok || proto.Unmarshal(wire, m) != nil {
		return err
	}
	return nil
}

// deepestMessage bounds messages in messages, as protobuf itself does.
const deepestMessage = 100

// encoded is a message with its texts percent-encoded where they are not UTF-8. ok is false for what is no message at
// all.
func encoded(wire []byte, of protoreflect.MessageDescriptor, depth int) (whole []byte, ok bool) {
	if depth > deepestMessage {
		return nil, false
	}
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(number, kind, wire[n:])
		if size < 0 {
			return nil, false
		}
		field := of.Fields().ByNumber(number)
		if kind != protowire.BytesType || field == nil || (field.Kind() != protoreflect.StringKind && field.Kind() != protoreflect.MessageKind) {
			whole, wire = append(whole, wire[:n+size]...), wire[n+size:]
			continue
		}
		value, _ := protowire.ConsumeBytes(wire[n:])
		if field.Kind() == protoreflect.StringKind {
			value = percentEncoded(value)
		} else if value, ok = encoded(value, field.Message(), depth+1); !ok {
			return nil, false
		}
		whole = protowire.AppendBytes(append(whole, wire[:n]...), value)
		wire = wire[n+size:]
	}
	return whole, true
}

const hexadecimal = "0123456789ABCDEF"

// percentEncoded is text with %XX in place of each byte that is not UTF-8.
func percentEncoded(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	all := make([]byte, 0, 2*len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			all = append(all, '%', hexadecimal[text[0]>>4], hexadecimal[text[0]&15])
		} else {
			all = append(all, text[:n]...)
		}
		text = text[n:]
	}
	return all
}
