package calendar_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/zonefile"
	"redis-throttle/limiter/calendar"
)

// use makes zones go by d until the test ends.
func use(t testing.TB, d *calendar.Data) {
	t.Cleanup(func() { calendar.Use(calendar.BuiltIn()) })
	calendar.Use(d)
}

var may2027 = time.Date(2027, time.May, 1, 12, 0, 0, 0, time.UTC)

func TestTheArchiveReadsAsTheBuiltInData(t *testing.T) {
	d, err := calendar.Read([]byte(calendar.Archive))
	require.NoError(t, err)
	builtIn := calendar.BuiltIn()
	assert.Equal(t, builtIn.Version(), d.Version())
	assert.True(t, builtIn.Time().Equal(d.Time()))
	assert.Equal(t, builtIn.Checksum(), d.Checksum())
	missing, _ := d.Missing()
	assert.Zero(t, missing)
	missing, _ = builtIn.Missing()
	assert.Zero(t, missing)
	assert.Greater(t, builtIn.Time(), time.Date(2026, time.October, 1, 0, 0, 0, 0, time.UTC))
}

func TestAnArchiveReplacesTheZonesThatItHas(t *testing.T) {
	noon := utc(t, "2026-12-01T12:00:00Z")
	berlin := spec(t, 1, calendar.Day, "Europe/Berlin", 0).At(noon)
	paris := spec(t, 1, calendar.Day, "Europe/Paris", 0).At(noon)
	d, err := calendar.Read(zonefile.Pack("2027a", may2027, map[string][]byte{
		"Europe/Berlin": zonefile.Fixed(2 * 3600), "Europe/Atlantis": zonefile.Fixed(-3600), "zone.tab": []byte("# no zone"), "Europe/": nil,
		"right/Europe/Paris": zonefile.Fixed(5 * 3600), "posix/Europe/Paris": zonefile.Fixed(5 * 3600), "localtime": zonefile.Fixed(1),
		"posixrules": zonefile.Fixed(1), "Factory": zonefile.Fixed(1),
	}))
	require.NoError(t, err)
	use(t, d)
	assert.Equal(t, d, calendar.Current())
	assert.Equal(t, "2027a", d.Version())
	assert.True(t, may2027.Equal(d.Time()), "that of what was read: %v", d.Time())
	assert.NotEqual(t, calendar.BuiltIn().Checksum(), d.Checksum())
	missing, example := d.Missing()
	assert.Equal(t, len(zoneNames(t))-1, missing)
	assert.Contains(t, zoneNames(t), example)

	now := spec(t, 1, calendar.Day, "Europe/Berlin", 0).At(noon)
	assert.Equal(t, calendar.Window{Index: berlin.Index, Start: berlin.Start - hour, End: berlin.End - hour}, now)
	assert.Equal(t, paris, spec(t, 1, calendar.Day, "Europe/Paris", 0).At(noon), "is not in the archive")
	assert.Equal(t, utc(t, "2026-12-01T01:00:00Z"), spec(t, 1, calendar.Day, "Europe/Atlantis", 0).At(noon).Start)
	for _, name := range []string{"localtime", "posixrules", "Factory", "zone.tab", "right/Europe/Paris", "posix/Europe/Paris", "Europe"} {
		_, err := calendar.LookupZone([]byte(name))
		assert.ErrorIs(t, err, calendar.ErrZone, name)
	}
	assert.Equal(t, "Europe/Atlantis", calendar.Suggest([]byte("atlantis")))
}

// What is stored names a zone by its ID, so the ID must not depend on the data.
func TestIDsAreTheSameInAllData(t *testing.T) {
	before := map[string]uint64{}
	for _, name := range zoneNames(t) {
		before[name] = spec(t, 1, calendar.Day, name, 0).ID()
	}
	d, err := calendar.Read(zonefile.Pack("", may2027, map[string][]byte{"Zulu": zonefile.Fixed(60), "Africa/Atlantis": zonefile.Fixed(60), "Africa/Accra": zonefile.Fixed(60)}))
	require.NoError(t, err)
	use(t, d)
	for name, id := range before {
		assert.Equal(t, id, spec(t, 1, calendar.Day, name, 0).ID(), name)
	}
}

func TestTheVersionOfAnArchive(t *testing.T) {
	zone := zonefile.Fixed(3600)
	for _, tt := range []struct{ comment, source, want string }{
		{"2027a", "", "2027a"},
		{"2027a", "# version 2027b\n", "2027a"},
		{"", "# version 2027b\n# more\n" + strings.Repeat("R x 1916 o - Jun 14 23s 1 S\n", 10_000), "2027b"},
		{"made by me", "# version 2027b-1+deb12u1\n", "2027b-1+deb12u1"},
		{"", "# version a b\n", "unknown"},
		{"", "# version \n", "unknown"},
		{"", "version 2027a\n", "unknown"},
		{"", "", "unknown"},
		{"2027a\r\nthrottle_errors_internal:7", "", "unknown"},
		{strings.Repeat("2", 32), "", strings.Repeat("2", 32)},
		{strings.Repeat("2", 33), "", "unknown"},
	} {
		files := map[string][]byte{"Europe/Berlin": zone}
		if tt.source != "" {
			files["tzdata.zi"] = []byte(tt.source)
		}
		d, err := calendar.Read(zonefile.Pack(tt.comment, may2027, files))
		require.NoError(t, err)
		assert.Equal(t, tt.want, d.Version(), "%+v", tt)
	}
}

func TestTheTimeOfAnArchive(t *testing.T) {
	earliest := time.Date(1990, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ modified, want time.Time }{
		{may2027, may2027},
		{earliest, earliest},
		{earliest.Add(-time.Second), time.Time{}}, // packed without dates: many tools write 1980
		{time.Time{}, time.Time{}},
	} {
		d, err := calendar.Read(zonefile.Pack("", tt.modified, map[string][]byte{"Europe/Berlin": zonefile.Fixed(3600)}))
		require.NoError(t, err)
		assert.True(t, tt.want.Equal(d.Time()), "%v: %v", tt.modified, d.Time())
	}
}

func TestABadArchiveIsRefused(t *testing.T) {
	zone := zonefile.Fixed(3600)
	many := map[string][]byte{"Europe/Berlin": zone}
	for i := range 1_999 {
		many[fmt.Sprintf("Europe/Atlantis%d", i)] = zone
	}
	tooMany := maps.Clone(many)
	tooMany["Europe/Atlantis"] = zone
	largest := func(zone []byte) []byte { return append(zone, make([]byte, 64<<10-len(zone))...) }
	full := map[string][]byte{"Europe/Berlin": largest(zone)}
	for i := range 63 {
		full[fmt.Sprintf("zone%d.tab", i)] = make([]byte, 64<<10)
	}
	huge := maps.Clone(full)
	huge["zone.tab"] = make([]byte, 1)
	const lastSec = math.MaxInt64 / int64(time.Second)
	for name, tt := range map[string]struct {
		files map[string][]byte
		says  string
	}{
		"nothing":                 {nil, "it has no time zone such as Europe/Berlin"},
		"no zones":                {map[string][]byte{"Europe/Berlin": []byte("hello")}, "it has no time zone such as Europe/Berlin"},
		"packed with its folder":  {map[string][]byte{"zoneinfo/Europe/Berlin": zone}, "the names in it must begin with the region, not with a folder"},
		"a name upwards":          {map[string][]byte{"Europe/Berlin": zone, "../Europe/Paris": zone}, `"../Europe/Paris" in it is no name of a time zone`},
		"a name in the middle":    {map[string][]byte{"Europe/../Berlin": zone}, `"Europe/../Berlin" in it is no name of a time zone`},
		"an absolute name":        {map[string][]byte{"/Europe/Berlin": zone}, `"/Europe/Berlin" in it is no name`},
		"a line in a name":        {map[string][]byte{"Europe/Ber\nlin": zone}, `"Europe/Ber\nlin" in it is no name`},
		"the longest name":        {map[string][]byte{"Europe/Berlin": zone, strings.Repeat("a", 64): zone}, ""},
		"a long name":             {map[string][]byte{strings.Repeat("a", 65): zone}, "is no name"},
		"cut off":                 {map[string][]byte{"Europe/Berlin": zone[:len(zone)/2]}, `"Europe/Berlin" in it is damaged`},
		"a day ahead":             {map[string][]byte{"Europe/Berlin": zonefile.Fixed(24 * 3600)}, `"Europe/Berlin" in it is damaged: its clocks are 86400 seconds ahead of UTC`},
		"a day behind":            {map[string][]byte{"Europe/Berlin": zonefile.Fixed(-24 * 3600)}, "its clocks are -86400 seconds ahead"},
		"just less":               {map[string][]byte{"Europe/Berlin": zonefile.Fixed(24*3600 - 1), "Europe/Paris": zonefile.Fixed(1 - 24*3600)}, ""},
		"a day ahead until 1970":  {map[string][]byte{"Europe/Berlin": zonefile.Changing([]int64{0}, 24*3600, 3600)}, "its clocks are 86400 seconds ahead"},
		"a day ahead long ago":    {map[string][]byte{"Europe/Berlin": zonefile.Changing([]int64{-lastSec + 1}, 24*3600, 3600)}, "its clocks are 86400 seconds ahead"},
		"a day ahead at the end":  {map[string][]byte{"Europe/Berlin": zonefile.Changing([]int64{lastSec}, 3600, 24*3600)}, "its clocks are 86400 seconds ahead"},
		"a day ahead afterwards":  {map[string][]byte{"Europe/Berlin": zonefile.Changing([]int64{lastSec + 1}, 3600, 24*3600)}, ""},
		"the largest zone":        {map[string][]byte{"Europe/Berlin": largest(zone)}, ""},
		"a larger zone":           {map[string][]byte{"Europe/Berlin": append(largest(zone), 0)}, `"Europe/Berlin" in it is larger than 64 KB`},
		"the most zones":          {many, ""},
		"more zones":              {tooMany, "it has more than 2000 zones"},
		"as much as there may be": {full, ""},
		"a byte more":             {huge, "what is in it is larger than 4 MB"},
	} {
		_, err := calendar.Read(zonefile.Pack("2027a", may2027, tt.files))
		if tt.says == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, tt.says, name)
		}
	}
	twice := bytes.ReplaceAll(zonefile.Pack("", may2027, map[string][]byte{"Europe/Berlin": zone, "Europe/Merlin": zone}), []byte("Merlin"), []byte("Berlin"))
	_, err := calendar.Read(twice)
	assert.ErrorContains(t, err, `"Europe/Berlin" is in it twice`)
	for _, text := range []string{"", "hello", "TZif2"} {
		_, err = calendar.Read([]byte(text))
		assert.ErrorContains(t, err, "it is not a zip file, or not all of it", "%q", text)
	}
	for length := 0; length < len(calendar.Archive); length += 997 {
		_, err = calendar.Read([]byte(calendar.Archive[:length]))
		assert.ErrorContains(t, err, "it is not a zip file, or not all of it", "%d bytes", length)
	}
	flipped := []byte(calendar.Archive)
	flipped[len(flipped)/3] ^= 1
	_, err = calendar.Read(flipped)
	assert.Error(t, err, "a bit")
}

// Whatever is in a file: it is refused, or windows end.
func TestDamagedClocksAreRefusedOrWindowsAreFoundNevertheless(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	names := zoneNames(t)
	read, refused := 0, 0
	for range 400 {
		files := map[string][]byte{"Europe/Berlin": zonefile.Fixed(0)}
		for range 3 {
			name := names[random.IntN(len(names))]
			content := bytes.Clone(zoneFile(t, name))
			for range 1 + random.IntN(3) {
				content[random.IntN(len(content))] = byte(random.Uint32())
			}
			files[name] = content
		}
		d, err := calendar.Read(zonefile.Pack("", may2027, files))
		if err != nil {
			refused++
			continue
		}
		read++
		calendar.Use(d)
		for name := range files {
			for unit := calendar.Day; unit <= calendar.Year; unit++ {
				s := spec(t, 1, unit, name, 0)
				now := random.Int64N(100 * 365 * day)
				w := s.At(now)
				require.LessOrEqual(t, w.Start, now)
				require.Less(t, now, w.End)
			}
		}
		calendar.Use(calendar.BuiltIn())
	}
	assert.Positive(t, read)
	assert.Positive(t, refused)
}

// The program is a server in a bounded heap, which collects nothing for less than 256 MB.
func TestReadingAnArchiveTakesLittleMemory(t *testing.T) {
	largest := map[string][]byte{"Europe/Berlin": zonefile.Fixed(0)}
	daily := make([]int64, 7_000)
	for i := range daily {
		daily[i] = int64(i * 86400)
	}
	changes := zonefile.Changing(daily, 3600, 7200)
	for i := range 60 {
		largest[fmt.Sprintf("Europe/Atlantis%d", i)] = changes
	}
	for name, archive := range map[string][]byte{"the usual": []byte(calendar.Archive), "the largest": zonefile.Pack("", may2027, largest)} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		d, err := calendar.Read(archive)
		require.NoError(t, err, name)
		runtime.ReadMemStats(&after)
		t.Logf("%s: %d KB", name, (after.TotalAlloc-before.TotalAlloc)>>10)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(40<<20), name)
		runtime.KeepAlive(d)
	}
}

// systemZones is the system's data, or that of the folder THROTTLE_ZONEINFO.
func systemZones(t *testing.T) (folder, version string) {
	folder = os.Getenv("THROTTLE_ZONEINFO")
	if folder == "" {
		folder = "/usr/share/zoneinfo"
	}
	source, err := os.ReadFile(filepath.Join(folder, "tzdata.zi"))
	if err != nil {
		t.Skip("the system does not tell the version of its time zones: ", err)
	}
	line, _, _ := strings.Cut(string(source), "\n")
	return folder, strings.TrimPrefix(line, "# version ")
}

// The generator compiled the zones; the system's packages have them as somebody else did.
func TestAllClocksAreTheSystems(t *testing.T) {
	folder, version := systemZones(t)
	if version != calendar.BuiltIn().Version() {
		t.Skipf("the system has version %s of the time zones, this package %s", version, calendar.BuiltIn().Version())
	}
	seen := map[string]bool{} // many zones have several names
	for _, name := range zoneNames(t) {
		content, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		pair := string(content) + string(zoneFile(t, name))
		if seen[pair] {
			continue
		}
		seen[pair] = true
		theirs, err := time.LoadLocationFromTZData(name, content)
		require.NoError(t, err)
		ours := location(t, name)
		for _, at := range changes(theirs, 2040) {
			for _, sec := range []int64{at - 1, at} {
				require.Equal(t, aheadAt(theirs, sec), aheadAt(ours, sec), "%s at %v", name, time.Unix(sec, 0).UTC())
			}
		}
		// Rules of later years are the same each year, or clocks are changed for a month at least (Ramadan in Gaza).
		for at := int64(0); at < utc(t, "2100-01-01T00:00:00Z")/1e9; at += 7 * 24 * 3600 {
			if want, got := aheadAt(theirs, at), aheadAt(ours, at); want != got {
				t.Fatalf("%s at %v: %d, should be %d", name, time.Unix(at, 0).UTC(), got, want)
			}
		}
	}
}

func aheadAt(zone *time.Location, sec int64) int {
	_, ahead := time.Unix(sec, 0).In(zone).Zone()
	return ahead
}
