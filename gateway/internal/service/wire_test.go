package service

import (
	"math"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"redis-throttle/gateway/internal/config"
)

// fieldsOf are the bytes of a message: fields that it has, those that it has not, and now and then what is no field.
func fieldsOf(t *rapid.T, value func(number protowire.Number) []byte) (wire []byte) {
	for range rapid.IntRange(0, 4).Draw(t, "fields") {
		number := protowire.Number(rapid.SampledFrom([]int{1, 1, 1, 2, 2, 2, 3, 4, 15, 16, 536870911}).Draw(t, "number"))
		switch rapid.IntRange(0, 19).Draw(t, "kind") {
		case 0:
			wire = append(wire, rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "noise")...)
		case 1:
			wire = protowire.AppendFixed64(protowire.AppendTag(wire, number, protowire.Fixed64Type), 7)
		case 2, 3:
			wire = protowire.AppendVarint(protowire.AppendTag(wire, number, protowire.VarintType), rapid.Uint64().Draw(t, "varint"))
		case 4: // a tag and a number that are longer than they need to be
			wire = append(wire, 3<<3|0x80, 0x80, 0, byte(rapid.IntRange(0, 255).Draw(t, "first")), 0x80, 0)
		default:
			wire = protowire.AppendBytes(protowire.AppendTag(wire, number, protowire.BytesType), value(number))
		}
	}
	return wire
}

// Whatever comes as a request, reading it plainly either makes the same of it as protobuf does, or leaves it to that.
func TestARequestIsReadAsProtobufReadsIt(t *testing.T) {
	t.Parallel()
	plainly := 0
	rapid.Check(t, func(t *rapid.T) {
		text := func(protowire.Number) []byte {
			return []byte(rapid.SampledFrom([]string{"", "a", "ü", "\xff", "path"}).Draw(t, "text"))
		}
		wire := fieldsOf(t, func(number protowire.Number) []byte {
			if number != 2 {
				return text(number)
			}
			return fieldsOf(t, func(protowire.Number) []byte { return fieldsOf(t, text) })
		})
		data, want := mem.BufferSlice{mem.SliceBuffer(wire)}, &rls.RateLimitRequest{}
		refused, got := proto.Unmarshal(wire, want), &asked{}
		if got.readPlain(data) {
			plainly++
			require.NoError(t, refused)
			assert.True(t, proto.Equal(want, got), "%v, not %v", got, want)
		}
		if got = (&asked{}); refused == nil {
			require.NoError(t, Codec().Unmarshal(data, got))
			assert.True(t, proto.Equal(want, got), "%v, not %v", got, want)
		}
	})
	assert.Positive(t, plainly)
}

// The requests of Envoy are read plainly, up to a length.
func TestUsualRequestsAreReadPlainly(t *testing.T) {
	t.Parallel()
	request := &rls.RateLimitRequest{Domain: "web", HitsAddend: 300}
	for n := range 4 {
		d := &common.RateLimitDescriptor{}
		for range n {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: "key", Value: "välue"})
		}
		request.Descriptors = append(request.Descriptors, d)
		wire := must(proto.Marshal(request))
		got := &asked{}
		assert.True(t, got.readPlain(mem.BufferSlice{mem.SliceBuffer(wire)}))
		assert.True(t, proto.Equal(request, got), "%v", got)
	}
	request.Domain = string(make([]byte, longestPlain))
	assert.False(t, new(asked).readPlain(mem.BufferSlice{mem.SliceBuffer(must(proto.Marshal(request)))}))
}

// A status is written as protobuf writes it, whatever it tells.
func TestAStatusIsWrittenAsProtobufWritesIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Uint32(), rapid.SampledFrom([]uint32{0, 1, 127, 128, math.MaxUint32}))
		one := told{
			code: rls.RateLimitResponse_Code(rapid.IntRange(1, 2).Draw(t, "code")), known: rapid.Bool().Draw(t, "known"), remaining: number.Draw(t, "remaining"),
		}
		if one.known {
			one.name = rapid.StringN(0, 200, -1).Draw(t, "name")
			one.limit = config.Shown{
				Requests: number.Draw(t, "requests"), Unit: config.Unit(rapid.IntRange(0, 7).Draw(t, "unit")), Units: number.Draw(t, "units"),
			}
			one.reset = time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "reset"))
		}
		var whole statusOf
		whole.set(&one)
		assert.Equal(t, must(proto.Marshal(&whole.RateLimitResponse_DescriptorStatus)), one.append(nil))
	})
}
