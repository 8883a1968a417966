package past

import (
	"encoding/binary"
	"math"
)

const (
	// MaxWords is how many words of a call are remembered at most.
	MaxWords = 96
	// maxWordLen is how many bytes a remembered word has at most. Calls with longer ones are read
	// again.
	maxWordLen = 16
)

// packed is a word of up to maxWordLen bytes: its length, and its first and last eight bytes,
// which overlap where it is shorter.
type packed struct{ len, head, tail uint64 }

// pack packs a word; different words pack differently. One of more than maxWordLen bytes is packed as what no word is.
func pack(word []byte) packed {
	switch n := len(word); {
	case n > maxWordLen:
		return packed{len: math.MaxUint64}
	case n >= 8:
		return packed{uint64(n), binary.LittleEndian.Uint64(word), binary.LittleEndian.Uint64(word[n-8:])}
	case n >= 4:
		return packed{uint64(n), uint64(binary.LittleEndian.Uint32(word)), uint64(binary.LittleEndian.Uint32(word[n-4:]))}
	case n > 0:
		return packed{uint64(n), uint64(word[0]) | uint64(word[n/2])<<8, uint64(word[n-1])}
	}
	return packed{}
}

// packedWords are the words of a call.
type packedWords struct {
	count int // 0: of none, as no call has no words
	words [MaxWords]packed
}

func (p *packedWords) are(args [][]byte) bool {
	return len(args) == p.count && p.haveAt(0, args)
}

// haveAt reports whether args stand at index at. They are compared as pack would pack them, without being packed: this
// is most of what a call costs that repeats an earlier one.
func (p *packedWords) haveAt(at int, args [][]byte) bool {
	if len(args) > len(p.words)-at {
		return false
	}
	past := p.words[at:]
	for i, word := range args {
		w, n := &past[i], len(word)
		if uint64(n) != w.len {
			return false
		}
		var head, tail uint64
		switch {
		case n >= 8:
			head, tail = binary.LittleEndian.Uint64(word), binary.LittleEndian.Uint64(word[n-8:])
		case n >= 4:
			head, tail = uint64(binary.LittleEndian.Uint32(word)), uint64(binary.LittleEndian.Uint32(word[n-4:]))
		case n > 0:
			head, tail = uint64(word[0])|uint64(word[n/2])<<8, uint64(word[n-1])
		}
		if head != w.head || tail != w.tail {
			return false
		}
	}
	return true
}

// note makes args the words that are remembered, and add appends some.
func (p *packedWords) note(args [][]byte) {
	p.count = 0
	p.add(args)
}

func (p *packedWords) add(args [][]byte) {
	for i, word := range args {
		p.words[p.count+i] = pack(word)
	}
	p.count += len(args)
}
