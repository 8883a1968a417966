package replay

import (
	"encoding/binary"
	"fmt"
	"os"
)

// The requests of a client are kept as what is between them: two or three bytes each.

// units of the time between two requests, by their codes: the largest unit that leaves no fraction is written.
var unitsNs = [4]int64{1e9, 1e6, 1e3, 1}

// appendGap appends the time since the request before, which is not negative.
func appendGap(dst []byte, ns int64) []byte {
	code := uint64(3)
	switch {
	case ns == 0:
		return append(dst, 0)
	case ns%1e9 == 0:
		code, ns = 0, ns/1e9
	case ns%1e6 == 0:
		code, ns = 1, ns/1e6
	case ns%1e3 == 0:
		code, ns = 2, ns/1e3
	}
	return binary.AppendUvarint(dst, uint64(ns)<<2|code)
}

// decode appends n requests to times and costs. The first came at baseNs. Without costs each takes a unit, and costs
// stays empty.
func decode(encoded []byte, n int, baseNs int64, hasCosts bool, times, costs []int64) (_, _ []int64) {
	at := baseNs
	for i := range n {
		if i > 0 {
			gap := uint64(encoded[0])
			if gap < 0x80 {
				encoded = encoded[1:]
			} else {
				var used int
				gap, used = binary.Uvarint(encoded)
				encoded = encoded[used:]
			}
			at += int64(gap>>2) * unitsNs[gap&3]
		}
		times = append(times, at)
		if hasCosts {
			cost, used := binary.Uvarint(encoded)
			encoded = encoded[used:]
			costs = append(costs, int64(cost))
		}
	}
	return times, costs
}

// block is requests of one client that were moved out of memory.
type block struct {
	before    int64  // where the block before it is, noBlock for the first
	baseNs    int64  // when the first came
	held      int    // how many they are, up to blockEvents
	isEarlier bool   // the first came before the last one of the block before
	encoded   []byte // what is between them
}

const (
	blockEvents = 64 // in a block at most, and fewer in memory
	blockHead   = 8 + 8 + 2 + 1
	noBlock     = int64(-1)
	earlierBit  = 0x80 // beside the number of requests
)

// spool keeps blocks: some in memory, the others in a temporary file.
type spool struct {
	memory []byte
	most   int // bytes in memory
	dir    string
	file   *os.File
	size   int64 // of what is in the file
	late   []byte
}

// write appends a block, and returns where it is.
func (s *spool) write(b block) (at int64, err error) {
	at = s.size + int64(len(s.late))
	to := &s.late
	if s.file == nil {
		at, to = int64(len(s.memory)), &s.memory
	}
	held := byte(b.held)
	if b.isEarlier {
		held |= earlierBit
	}
	*to = binary.LittleEndian.AppendUint64(*to, uint64(b.before))
	*to = binary.LittleEndian.AppendUint64(*to, uint64(b.baseNs))
	*to = binary.LittleEndian.AppendUint16(*to, uint16(len(b.encoded)))
	*to = append(append(*to, held), b.encoded...)
	if s.file == nil && len(s.memory) > s.most || len(s.late) > 1<<20 {
		err = s.flush()
	}
	return at, err
}

// flush moves everything to the file.
func (s *spool) flush() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, "throttle-replay-"); err != nil {
			return fmt.Errorf("cannot make a temporary file (--temp names another folder): %w", err)
		}
		s.late, s.memory = s.memory, nil
	}
	if _, err = s.file.Write(s.late); err != nil {
		return fmt.Errorf("cannot write to the temporary file (--temp names another folder): %w", err)
	}
	s.size += int64(len(s.late))
	s.late = s.late[:0]
	return nil
}

// finish is called when all blocks are written.
func (s *spool) finish() error {
	if s.file == nil || len(s.late) == 0 {
		return nil
	}
	return s.flush()
}

// read returns a block. It is valid until the next read with the same room.
func (s *spool) read(at int64, room []byte) (b block, err error) {
	text := room
	if s.file == nil {
		text = s.memory[at:]
	} else {
		n, err := s.file.ReadAt(room, at)
		if n < blockHead {
			return b, fmt.Errorf("cannot read the temporary file: %w", err)
		}
		text = room[:n]
	}
	b.before, b.baseNs = int64(binary.LittleEndian.Uint64(text)), int64(binary.LittleEndian.Uint64(text[8:]))
	length, held := int(binary.LittleEndian.Uint16(text[16:])), text[18]
	b.held, b.isEarlier = int(held&^earlierBit), held&earlierBit != 0
	b.encoded = text[blockHead : blockHead+length]
	return b, nil
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}

// longestBlock is the length in bytes of the longest block.
const longestBlock = blockHead + blockEvents*2*binary.MaxVarintLen64
