// Package resp speaks the Redis serialization protocol (RESP2 and RESP3) on a raw
// socket. A client library hides what a server really sent; the tests that ask
// whether every reply is well-formed read it here, and nothing is forgiven.
//
// Grammar: https://redis.io/docs/latest/develop/reference/protocol-spec/
package resp

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is the first byte of a reply.
type Kind byte

// The kinds of RESP2, then those that RESP3 adds.
const (
	SimpleString Kind = '+'
	Error        Kind = '-'
	Integer      Kind = ':'
	BulkString   Kind = '$'
	Array        Kind = '*'

	Null           Kind = '_'
	Boolean        Kind = '#'
	Double         Kind = ','
	BigNumber      Kind = '('
	BulkError      Kind = '!'
	VerbatimString Kind = '='
	Map            Kind = '%'
	Set            Kind = '~'
	Push           Kind = '>'
)

// Value is one reply, or one element of one.
type Value struct {
	Kind Kind
	// Text is the payload of every kind that has no elements, as it came.
	Text string
	// Int is the number of an Integer, and 0 or 1 for a Boolean.
	Int int64
	// Elems are the elements of an Array, Set or Push, and of a Map the keys and
	// values in turn.
	Elems []Value
	// IsNull marks RESP3's null and RESP2's null string and null array.
	IsNull bool
}

// IsError says whether the server answered an error.
func (v Value) IsError() bool { return v.Kind == Error || v.Kind == BulkError }

// Ints returns the elements of an aggregate of nothing but integers.
func (v Value) Ints() ([]int64, error) {
	if v.Kind != Array {
		return nil, fmt.Errorf("%v is no array of integers", v)
	}
	ints := make([]int64, len(v.Elems))
	for i, e := range v.Elems {
		if e.Kind != Integer {
			return nil, fmt.Errorf("element %d of %v is no integer", i, v)
		}
		ints[i] = e.Int
	}
	return ints, nil
}

// String shows a value in one line, for the messages of failing tests.
func (v Value) String() string {
	switch v.Kind {
	case Array, Map, Set, Push:
		if v.IsNull {
			return "(null array)"
		}
		parts := make([]string, len(v.Elems))
		for i, e := range v.Elems {
			parts[i] = e.String()
		}
		return string(v.Kind) + "[" + strings.Join(parts, " ") + "]"
	case Integer:
		return strconv.FormatInt(v.Int, 10)
	case Error, BulkError:
		return "(error) " + v.Text
	}
	if v.IsNull {
		return "(null)"
	}
	return strconv.Quote(v.Text)
}
