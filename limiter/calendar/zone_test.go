package calendar_test

import (
	"archive/zip"
	"io/fs"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/calendar"
)

// zoneFiles reads the archive in a way of its own.
var zoneFiles = sync.OnceValues(func() (names []string, files map[string][]byte) {
	archive, err := zip.OpenReader("zones.zip")
	if err != nil {
		panic(err)
	}
	files = map[string][]byte{}
	for _, f := range archive.File {
		content, err := fs.ReadFile(archive, f.Name)
		if err != nil {
			panic(err)
		}
		names, files[f.Name] = append(names, f.Name), content
	}
	return names, files
})

func zoneNames(t require.TestingT) []string {
	names, _ := zoneFiles()
	require.Less(t, len(names), math.MaxInt16)
	return names
}

func zoneFile(t require.TestingT, name string) []byte {
	_, files := zoneFiles()
	require.Contains(t, files, name)
	return files[name]
}

func TestEveryZoneOfTheDatabaseIsThere(t *testing.T) {
	names := zoneNames(t)
	assert.Greater(t, len(names), 590)
	seen := map[calendar.Zone]string{}
	for _, name := range names {
		z, err := calendar.LookupZone([]byte(name))
		require.NoError(t, err)
		if name != "UTC" {
			assert.Empty(t, seen[z], "%s is a zone of its own", name)
		}
		seen[z] = name
		again, _ := calendar.LookupZone([]byte(name))
		assert.Equal(t, z, again)
	}
	assert.Equal(t, calendar.Zone{}, zone(t, "UTC"))
	assert.NotEqual(t, calendar.Zone{}, zone(t, "Etc/UTC"))
	assert.Regexp(t, `^20\d\d[a-z]$`, calendar.BuiltIn().Version())
}

func TestAllYieldsEveryZoneWithItsClocks(t *testing.T) {
	var names []string
	for name, location := range calendar.BuiltIn().All() {
		names = append(names, name)
		require.Equal(t, name, location.String())
	}
	assert.Equal(t, zoneNames(t), names)
	for name := range calendar.BuiltIn().All() {
		assert.Equal(t, names[0], name)
		break
	}
}

func TestNoOtherNameIsAZone(t *testing.T) {
	for _, name := range []string{"", "Local", "europe/berlin", "Europe/Berlin ", "Europe", "Europe/", "Factory",
		"../etc/passwd", "/usr/share/zoneinfo/Europe/Berlin", "UTC+1", "posixrules", "Europe/Berlin\x00"} {
		_, err := calendar.LookupZone([]byte(name))
		assert.ErrorIs(t, err, calendar.ErrZone, name)
	}
}

// Callers choose the names, and zones are never forgotten.
func TestAllZonesTogetherTakeLittleMemory(t *testing.T) {
	var before, after runtime.MemStats
	names := zoneNames(t)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 3 {
		for _, name := range names {
			zone(t, name)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc-before.HeapAlloc), int64(1<<20))
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "the collector does not run for less than 256 MB")
}

func TestALookUpDoesNotAllocate(t *testing.T) {
	known, unknown := []byte("Europe/Berlin"), []byte("Europe/Atlantis")
	zone(t, string(known))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = calendar.LookupZone(known)
		_, _ = calendar.LookupZone(unknown)
	}))
}
