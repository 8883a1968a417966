// Package zonefile makes files with time zones, for tests.
package zonefile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"
)

// Fixed is the file of a zone (RFC 9636) whose clocks are always so far ahead of UTC.
func Fixed(aheadSec int32) []byte { return Changing(nil, aheadSec) }

// Changing is the file of a zone whose clocks are as far ahead of UTC as aheadSec[0], and from each of the times on,
// seconds since 1970, as the next one; the first follows the last.
func Changing(atSec []int64, aheadSec ...int32) []byte {
	file := []byte("TZif2" + strings.Repeat("\x00", 15))
	header := file
	file = block(file, nil, aheadSec[:1]) // for readers of version 1
	file = block(append(file, header...), atSec, aheadSec)
	return append(file, "\n\n"...)
}

func block(file []byte, atSec []int64, aheadSec []int32) []byte {
	for _, count := range []int{0, 0, 0, len(atSec), len(aheadSec), 4} {
		file = binary.BigEndian.AppendUint32(file, uint32(count))
	}
	for _, sec := range atSec {
		file = binary.BigEndian.AppendUint64(file, uint64(sec))
	}
	for i := range atSec {
		file = append(file, byte((i+1)%len(aheadSec)))
	}
	for _, sec := range aheadSec {
		file = append(binary.BigEndian.AppendUint32(file, uint32(sec)), 0, 0)
	}
	return append(file, "XXX\x00"...)
}

// Pack makes an archive of files, by name.
func Pack(comment string, modified time.Time, files map[string][]byte) []byte {
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	check(w.SetComment(comment))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: modified})
		check(err)
		_, err = f.Write(files[name])
		check(err)
	}
	check(w.Close())
	return packed.Bytes()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
