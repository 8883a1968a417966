package calendar

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Archive is the time zones that come with this package: files in the format of RFC 9636, in a zip file whose
// comment is the version of the IANA database. IANA has put the database into the public domain.
//
//go:generate go run generate.go
//go:embed zones.zip
var Archive string

// MaxArchive is the largest archive that Read takes, in bytes.
const MaxArchive = 4 << 20

const (
	maxZones   = 2_000
	maxZone    = 64 << 10 // bytes; the largest in Debian's package has 4 KB
	maxContent = 4 << 20  // bytes of all files

	longestName = 64 // bytes; the longest in the database has 32
)

// Data is the clocks of all time zones.
type Data struct {
	version string
	time    time.Time
	sum     uint32
	read    int
	entries []entry
	places  map[string]int16 // index in entries + 1
}

type entry struct {
	name     string
	sum      uint32
	hash     uint64 // of the name
	file     *zip.File
	once     sync.Once
	location *time.Location
}

// current is what LookupZone reads; nil stands for the built-in data, which is not read before it is used.
var current atomic.Pointer[Data]

func database() *Data {
	if d := current.Load(); d != nil {
		return d
	}
	return BuiltIn()
}

// Use makes all zones go by d. It is for the start of a program: every Zone, Spec, Window and Cache of before must be
// forgotten, since the same Zone may stand for another name now.
func Use(d *Data) { current.Store(d) }

// Current is the data that zones go by.
func Current() *Data { return database() }

// BuiltIn is the data that comes with this package.
var BuiltIn = sync.OnceValue(func() *Data {
	archive, err := zip.NewReader(strings.NewReader(Archive), int64(len(Archive)))
	if err != nil {
		panic(err) // the tests have read it
	}
	d := &Data{version: archive.Comment, places: make(map[string]int16, len(archive.File))}
	d.entries = make([]entry, 0, len(archive.File))
	for _, file := range archive.File {
		d.add(file)
		d.note(file.Modified)
	}
	d.read = len(d.entries)
	d.sum = d.checksum()
	return d
})

// Read reads an archive such as Archive, or one of a folder zoneinfo of an operating system. What is no time zone in it
// is ignored, and so are the copies in posix/ and right/. The version is the archive's comment, or else what a
// tzdata.zi in it says. Zones that are missing are those of BuiltIn.
//
// All that is read is checked, in bounded memory: the archive itself must not be larger than MaxArchive. It is not
// kept.
func Read(archive []byte) (*Data, error) {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("it is not a zip file, or not all of it: %w", err)
	}
	d := &Data{version: versionOf(files), places: map[string]int16{}}
	known, room := false, maxContent
	seen := map[string]*time.Location{} // many zones have several names
	for _, file := range files.File {
		if isCopy(file.Name) {
			continue
		}
		content, err := contentOf(file)
		if err != nil {
			return nil, fmt.Errorf("%q in it cannot be read: %w", file.Name, err)
		}
		if room -= len(content); room < 0 {
			return nil, fmt.Errorf("what is in it is larger than %d MB", maxContent>>20)
		}
		if !bytes.HasPrefix(content, []byte("TZif")) {
			continue
		}
		switch {
		case !isZoneName(file.Name):
			return nil, fmt.Errorf("%q in it is no name of a time zone", file.Name)
		case len(content) > maxZone:
			return nil, fmt.Errorf("%q in it is larger than %d KB", file.Name, maxZone>>10)
		case len(d.entries) == maxZones:
			return nil, fmt.Errorf("it has more than %d zones", maxZones)
		case d.places[file.Name] != 0:
			return nil, fmt.Errorf("%q is in it twice", file.Name)
		}
		e := d.add(file)
		if e.location = seen[string(content)]; e.location == nil {
			if err := e.read(content); err != nil {
				return nil, fmt.Errorf("%q in it is damaged: %w", file.Name, err)
			}
			if err := checkClocks(e.location); err != nil {
				return nil, fmt.Errorf("%q in it is damaged: %w", file.Name, err)
			}
			seen[string(content)] = e.location
		}
		d.note(file.Modified)
		known = known || BuiltIn().places[file.Name] != 0
	}
	if !known {
		return nil, errors.New("it has no time zone such as Europe/Berlin: the names in it must begin with the region, not with a folder")
	}
	d.read = len(d.entries)
	for i := range BuiltIn().entries {
		if e := &BuiltIn().entries[i]; d.places[e.name] == 0 {
			d.add(e.file)
		}
	}
	for i := range d.entries[:d.read] {
		d.entries[i].file = nil // and with it the archive
	}
	d.sum = d.checksum()
	return d, nil
}

// Version is the version of the IANA time zone database, such as 2026f, or "unknown".
func (d *Data) Version() string { return d.version }

// Time is when the newest file of a zone was last changed, by the archive; the zero Time if it does not tell.
func (d *Data) Time() time.Time { return d.time }

// Checksum is one of all names and files. Two Data with the same one have the same zones.
func (d *Data) Checksum() uint32 { return d.sum }

// Missing is how many zones of BuiltIn an archive that was read did not have, and one of them.
func (d *Data) Missing() (n int, example string) {
	for i := range d.entries[d.read:] {
		example = d.entries[d.read+i].name
	}
	return len(d.entries) - d.read, example
}

// All yields all zones by their names. It reads those that were not used yet.
func (d *Data) All() iter.Seq2[string, *time.Location] {
	return func(yield func(string, *time.Location) bool) {
		for i := range d.entries {
			e := &d.entries[i]
			e.load()
			if !yield(e.name, e.location) {
				return
			}
		}
	}
}

func (d *Data) add(file *zip.File) *entry {
	d.entries = append(d.entries, entry{name: file.Name, sum: file.CRC32, hash: fnv1aStart, file: file})
	e := &d.entries[len(d.entries)-1]
	for _, c := range []byte(e.name) {
		e.hash = fnv1a(e.hash, c)
	}
	d.places[e.name] = int16(len(d.entries))
	return e
}

// note takes notice of when a file was changed. One before 1990 has no date.
func (d *Data) note(modified time.Time) {
	if modified.After(d.time) && modified.Year() >= 1990 {
		d.time = modified
	}
}

func (d *Data) checksum() uint32 {
	lines := make([]string, len(d.entries))
	for i := range d.entries {
		lines[i] = fmt.Sprintln(d.entries[i].name, d.entries[i].sum)
	}
	slices.Sort(lines)
	return crc32.ChecksumIEEE([]byte(strings.Join(lines, "")))
}

// isZoneName keeps names such as ../x out.
func isZoneName(name string) bool {
	if name == "" || len(name) > longestName {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.TrimLeft(part, letters+digits+"_+-") != "" || part == "" {
			return false
		}
	}
	return true
}

const (
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

func isVersion(text string) bool {
	return text != "" && len(text) <= 32 && strings.TrimLeft(text, letters+digits+"._+-") == ""
}

// isCopy says which files of a folder zoneinfo are no zones of their own. Those in right/ count leap seconds.
func isCopy(name string) bool {
	return strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/") ||
		name == "localtime" || name == "posixrules" || name == "Factory"
}

func versionOf(files *zip.Reader) string {
	if isVersion(files.Comment) {
		return files.Comment
	}
	for _, file := range files.File {
		if file.Name != "tzdata.zi" {
			continue
		}
		content, _ := contentOf(file)
		line, _, _ := strings.Cut(string(content), "\n")
		if version, ok := strings.CutPrefix(line, "# version "); ok && isVersion(version) {
			return version
		}
	}
	return "unknown"
}

// contentOf is what is in a file, or its first maxZone + 1 bytes.
func contentOf(file *zip.File) ([]byte, error) {
	opened, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return io.ReadAll(io.LimitReader(opened, maxZone+1))
}

// load reads a zone of BuiltIn when it is used for the first time.
func (e *entry) load() {
	e.once.Do(func() {
		if e.location != nil {
			return
		}
		content, err := contentOf(e.file)
		if err == nil {
			err = e.read(content)
		}
		if err != nil {
			panic(err) // the tests have read it
		}
	})
}

func (e *entry) read(content []byte) (err error) {
	e.location, err = time.LoadLocationFromTZData(e.name, content)
	return err
}

// checkClocks follows a zone's clocks through all the time that there is. Windows rely on clocks that are less than a
// day ahead of or behind UTC.
func checkClocks(zone *time.Location) error {
	const last = math.MaxInt64 / second
	for sec := -last; sec <= last; {
		ahead, end := interval(zone, sec)
		if ahead <= -daySec || ahead >= daySec {
			return fmt.Errorf("its clocks are %d seconds ahead of UTC", ahead)
		}
		sec = end
	}
	return nil
}
