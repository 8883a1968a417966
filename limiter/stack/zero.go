package stack

import "math"

// stateless marks the kind of a limit of 0 units. It has no state: what the value holds of that kind and id is kept, as
// if the call did not name it. No such kind is encoded.
const stateless Kind = 0x80

// zeroOf returns the limit that lets nobody through who asks for a unit. Its kind tells only which requests go with it.
func zeroOf(kind Kind, id uint64) Limit { return Limit{kind: kind | stateless, id: id} }

// zero is the limiter of such a limit.
type zero struct{}

func (*zero) BringTo(int64) bool    { return false }
func (*zero) Available(int64) int64 { return 0 }

func (*zero) RetryAfter(_, quantity int64) int64 {
	if quantity > 0 {
		return Never
	}
	return 0
}

func (*zero) Standing(int64) (capacity, available, resetNs, nextNs int64) { return 0, 0, 0, 0 }
func (*zero) LongestWait() int64                                          { return math.MaxInt64 }
func (*zero) ExpireAt() uint64                                            { return 0 }
func (*zero) Charge(_, _, _ int64)                                        {}
func (*zero) Force(_, _ int64) int64                                      { return 0 }
func (*zero) ChargeDenied(_, _, _ int64) int64                            { return 0 }
func (*zero) Refund(_, _ int64) int64                                     { return 0 }
func (*zero) Append(dst []byte) []byte                                    { return dst }
func (*zero) Decode([]byte) error                                         { return ErrEncoding }
func (*zero) Clear()                                                      {}
