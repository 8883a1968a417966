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
func Fixed(aheadSec int32) []byte {
	file := []byte("TZif2" + strings.Repeat("\x00", 15))
	for version := 1; version <= 2; version++ {
		if version == 2 {
			file = append(file, file[:20]...)
		}
		for _, count := range []uint32{0, 0, 0, 0, 1, 4} {
			file = binary.BigEndian.AppendUint32(file, count)
		}
		file = binary.BigEndian.AppendUint32(file, uint32(aheadSec))
		file = append(file, 0, 0, 'X', 'X', 'X', 0)
	}
	return append(file, "\n\n"...)
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
