//go:build ignore

// Makes zones.zip of the newest Debian package tzdata that apt knows of, or of the version named:
//
//	go generate ./calendar
//	cd calendar && go run generate.go 2026f-0+deb12u1
//
// It needs apt-get and dpkg-deb. The same version gives the same bytes.
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	log.SetFlags(0)
	folder, err := os.MkdirTemp("", "zones")
	check(err)
	defer os.RemoveAll(folder)

	name := "tzdata"
	if len(os.Args) > 1 {
		name += "=" + os.Args[1]
	}
	run(folder, "apt-get", "-q", "download", name)
	packages, err := filepath.Glob(filepath.Join(folder, "tzdata_*.deb"))
	check(err)
	run(folder, "dpkg-deb", "-x", packages[0], "package")
	zones := os.DirFS(filepath.Join(folder, "package/usr/share/zoneinfo"))

	var archive bytes.Buffer
	to := zip.NewWriter(&archive)
	to.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	check(to.SetComment(version(zones)))
	check(fs.WalkDir(zones, ".", func(path string, file fs.DirEntry, err error) error {
		switch {
		case path == "posix", path == "right": // the same again, and with leap seconds
			return fs.SkipDir
		case err != nil, file.IsDir(), path == "localtime", path == "posixrules", path == "Factory":
			return err
		}
		content, err := fs.ReadFile(zones, path)
		if err != nil || !bytes.HasPrefix(content, []byte("TZif")) {
			return err
		}
		info, err := fs.Stat(zones, path)
		check(err)
		w, err := to.CreateHeader(&zip.FileHeader{Name: path, Method: zip.Deflate, Modified: info.ModTime().UTC()})
		check(err)
		_, err = w.Write(slim(content))
		return err
	}))
	check(to.Close())
	check(os.WriteFile("zones.zip", archive.Bytes(), 0o644))
	log.Printf("zones.zip has the time zones of %s, in %d bytes", filepath.Base(packages[0]), archive.Len())
}

func version(zones fs.FS) string {
	source, err := fs.ReadFile(zones, "tzdata.zi")
	check(err)
	line := regexp.MustCompile(`^# version (20\d\d[a-z]+)\n`).FindSubmatch(source)
	if line == nil {
		log.Fatal("tzdata.zi does not begin with its version")
	}
	return string(line[1])
}

// slim leaves out what Debian's files have for programs that read the format of 1986: the 32-bit copy of the data, and
// changes of the clocks until 2037 that the rule at the end implies (RFC 9636).
func slim(file []byte) []byte {
	const header, transitions, isUT, isStd, leaps, types, chars = 44, 32, 20, 24, 28, 36, 40
	count := func(data []byte, at int) int { return int(binary.BigEndian.Uint32(data[at:])) }
	n := func(data []byte, size int) int {
		return header + count(data, transitions)*(size+1) + count(data, types)*6 + count(data, chars) + count(data, leaps)*(size+4) +
			count(data, isStd) + count(data, isUT)
	}
	head := append(bytes.Clone(file[:20]), make([]byte, 24)...) // no 32-bit data
	data := file[n(file, 4):]
	all := count(data, transitions)
	times, kinds, rest := data[header:header+8*all], data[header+8*all:header+9*all], data[header+9*all:]
	with := func(kept int) []byte {
		out := append(bytes.Clone(head), data[:header]...)
		binary.BigEndian.PutUint32(out[len(head)+transitions:], uint32(kept))
		out = append(append(out, times[:8*kept]...), kinds[:kept]...)
		return append(out, rest...)
	}
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(times[8*i:])) }
	// From the last change that is kept on, the rule holds.
	kept, until := all, time.Date(2040, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	for kept > 1 && agree(clocks(file), clocks(with(kept-1)), at(kept-2), until) {
		kept--
		until = at(kept)
	}
	return with(kept)
}

// agree compares clocks from a change on.
func agree(a, b *time.Location, from, until int64) bool {
	same := func(sec int64) bool {
		_, x := time.Unix(sec, 0).In(a).Zone()
		_, y := time.Unix(sec, 0).In(b).Zone()
		return x == y
	}
	for sec := from; sec < until; sec += 6 * 3600 {
		if !same(sec) {
			return false
		}
	}
	return same(until - 1)
}

func clocks(file []byte) *time.Location {
	zone, err := time.LoadLocationFromTZData("", file)
	check(err)
	return zone
}

func run(folder, program string, args ...string) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	if err := cmd.Run(); err != nil {
		log.Fatalf("%s: %v", cmd, err)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
