package operating_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/internal/zonefile"
	"redis-throttle/limiter/calendar"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// writeZones makes a file for throttle.zones in which the clocks of Berlin are always so many hours ahead, and the
// first and the last zone of the module's data are others.
func writeZones(t *testing.T, version string, modified time.Time, hours int32) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "zones.zip")
	require.NoError(t, os.WriteFile(path, zonefile.Pack(version, modified, map[string][]byte{
		"Europe/Berlin": zonefile.Fixed(hours * 3600), "Europe/Atlantis": zonefile.Fixed(-5 * 3600),
	}), 0o644))
	return path
}

const hourMs = 3_600_000

func TestZonesOfAFileAreThoseThatCallsGoBy(t *testing.T) {
	t.Parallel()
	wall := clock.New(t, kit.Noon.UnixNano())
	path := writeZones(t, "2027c", kit.Noon, 3)
	used := func(s *server.Server, path string) {
		t.Helper()
		c := s.Raw()
		for zone, hours := range map[string]int64{"Europe/Berlin": 9, "Europe/Atlantis": 17, "Europe/Madrid": 11, "UTC": 12} {
			kit.Ask(t, c, "CL.LIMIT %s FIXED 10/d TZ %s", zone, zone)
			assert.Equal(t, hours*hourMs, kit.Ask(t, c, "CL.PEEK %s FIXED 10/d TZ %s", zone, zone).ResetAfterMs, zone)
		}
		info := s.Info("throttle")
		assert.Equal(t, "2027c", info["throttle_zone_data"])
		assert.Equal(t, path, info["throttle_zone_data_source"])
		assert.Equal(t, fmt.Sprint(kit.Noon.Unix()), info["throttle_zone_data_unix_time"])
		assert.NotEqual(t, fmt.Sprint(calendar.BuiltIn().Checksum()), info["throttle_zone_data_checksum"])
		assert.NotEmpty(t, s.LogLines("throttle.zones: the file lacks 596 time zones, such as "))
	}
	byArgument := wall.Start(server.ModuleArgs("ZONES", `"`+path+`"`, "top", "5"))
	used(byArgument, path)
	if !byArgument.Program.AtLeast(7, 0) {
		return
	}
	assert.Equal(t, "5", kit.TopOf(byArgument))
	spaced := filepath.Join(t.TempDir(), "zones of mine.zip")
	require.NoError(t, os.Link(path, spaced))
	byFile := wall.Start(server.Config(`throttle.zones "` + spaced + `"`))
	used(byFile, spaced)
	for s, path := range map[*server.Server]string{byArgument: path, byFile: spaced} {
		assert.Equal(t, path, kit.Pairs(s.MustDo("CONFIG", "GET", "throttle.zones"))["throttle.zones"].Text)
		for _, value := range []string{"", path, "/other.zip"} {
			assert.Contains(t, s.Do("CONFIG", "SET", "throttle.zones", value).Text, "immutable")
		}
		s.Configure(server.KeepConfig())
		s.MustDo("CONFIG", "REWRITE")
		s.Restart()
		used(s, path)
	}
}

func TestWithoutAFileTheZonesAreTheModules(t *testing.T) {
	t.Parallel()
	builtIn := calendar.BuiltIn()
	for _, opts := range [][]server.Option{nil, {server.ModuleArgs("zones", `""`)}} {
		s := server.Start(t, opts...)
		info := s.Info("throttle")
		assert.Equal(t, builtIn.Version(), info["throttle_zone_data"])
		assert.Equal(t, "built-in", info["throttle_zone_data_source"])
		assert.Equal(t, fmt.Sprint(builtIn.Time().Unix()), info["throttle_zone_data_unix_time"])
		assert.Equal(t, fmt.Sprint(builtIn.Checksum()), info["throttle_zone_data_checksum"])
		assert.Empty(t, s.LogLines("throttle.zones"))
	}
}

// The module's own archive is such a file, and one of an older version works with a warning.
func TestAnOlderFileIsUsedWithAWarning(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "zones.zip")
	version := calendar.BuiltIn().Version()
	require.NoError(t, os.WriteFile(path, []byte(calendar.Archive), 0o644))
	s := server.Start(t, server.ModuleArgs("zones", path))
	assert.Empty(t, s.LogLines("throttle.zones"))
	assert.Equal(t, fmt.Sprint(calendar.BuiltIn().Checksum()), s.Info("throttle")["throttle_zone_data_checksum"])

	older := bytes.Replace([]byte(calendar.Archive), []byte(version), []byte("2025b"), 1)
	require.NoError(t, os.WriteFile(path, older, 0o644))
	s.Restart()
	assert.Len(t, s.LogLines("throttle.zones: the file has time zones of version 2025b, the module has newer ones, of "+version), 1)
	assert.Equal(t, "2025b", s.Info("throttle")["throttle_zone_data"])
}

// The command of docs/operating.md, on this machine's folder.
func TestTheFolderOfTheSystemCanBePacked(t *testing.T) {
	t.Parallel()
	const folder = "/usr/share/zoneinfo"
	source, err := os.ReadFile(folder + "/tzdata.zi")
	if err != nil {
		t.Skip(err)
	}
	size.NeedsProgram(t, "zip")
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs/operating.md"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "zones.zip")
	command := regexp.MustCompile(`cd ` + folder + ` && zip .*`).FindString(string(page))
	command = regexp.MustCompile(`/etc/redis/\S+`).ReplaceAllString(command, path)
	output, err := exec.Command("sh", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s: %s", command, output)

	s := server.Start(t, server.ModuleArgs("zones", path))
	version, _, _ := strings.Cut(strings.TrimPrefix(string(source), "# version "), "\n")
	assert.Equal(t, version, s.Info("throttle")["throttle_zone_data"])
	info, err := os.Stat(folder + "/Europe/Berlin")
	require.NoError(t, err)
	date, err := strconv.ParseInt(s.Info("throttle")["throttle_zone_data_unix_time"], 10, 64)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, date, info.ModTime().Unix()-2, "the time in a zip file is even")
	kit.Ask(t, s.Raw(), "CL.LIMIT k FIXED 5/d TZ America/Vancouver")
}

func TestABadFileOfZonesIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, content []byte) string {
		require.NoError(t, os.WriteFile(in(name), content, 0o644))
		return in(name)
	}
	require.NoError(t, os.Mkdir(in("folder"), 0o755))
	require.NoError(t, syscall.Mkfifo(in("pipe"), 0o644))
	require.NoError(t, os.Symlink("loop", in("loop")))
	require.NoError(t, os.Truncate(write("huge", nil), calendar.MaxArchive+1))
	require.NoError(t, os.Truncate(write("large", nil), calendar.MaxArchive))
	far := func(length int) string { return dir + strings.Repeat("/", length-len(dir)-len("absent")) + "absent" }
	write("closed", []byte(calendar.Archive))
	require.NoError(t, os.Chmod(in("closed"), 0))
	const unreadable = "/sys/class/net/lo/speed" // a regular file that cannot be read: the loopback device has no speed
	berlin := zonefile.Fixed(3600)
	good := write("good.zip", []byte(calendar.Archive))
	for path, says := range map[string]string{
		in("absent"):        "No such file or directory",
		"zones.zip":         "the path must be an absolute one",
		in("folder"):        "it is a folder",
		in("pipe"):          "it is no regular file",
		"/dev/zero":         "it is no regular file",
		in("loop"):          "oo many levels of symbolic links",
		in("huge"):          "it is larger than 4 MB",
		in("large"):         "it is not a zip file",
		unreadable:          "nvalid argument",
		in("closed"):        "ermission denied",
		write("empty", nil): "it is not a zip file",
		write("cut", []byte(calendar.Archive[:200_000])):                                                    "it is not a zip file, or not all of it",
		write("text %s%n", []byte("zones")):                                                                 "it is not a zip file",
		write("up.zip", zonefile.Pack("", kit.Noon, map[string][]byte{"../../Europe/Berlin": berlin})):      `"../../Europe/Berlin" in it is no name of a time zone`,
		write("deep.zip", zonefile.Pack("", kit.Noon, map[string][]byte{"zoneinfo/Europe/Berlin": berlin})): "the names in it must begin with the region",
		write("half.zip", zonefile.Pack("", kit.Noon, map[string][]byte{"Europe/Berlin": berlin[:60]})):     `"Europe/Berlin" in it is damaged`,
	} {
		if path == in("closed") && os.Getuid() == 0 {
			continue // root may read it
		}
		if path == unreadable {
			if _, err := os.ReadFile(path); !errors.Is(err, syscall.EINVAL) {
				continue // this kernel has another
			}
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			want := "throttle.zones: the file " + path + " cannot be used: "
			_, err := server.TryStart(t, server.ModuleArgs("zones", `"`+path+`"`))
			require.Error(t, err)
			assert.Contains(t, err.Error(), want)
			assert.Contains(t, err.Error(), says)
			assert.Contains(t, err.Error(), "<throttle> not loaded: ")
			assert.NotContains(t, err.Error(), "BUG REPORT")
		})
	}
	_, err := server.TryStart(t, server.ModuleArgs("zones"))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "load argument zones: the path of the file is missing")

	const tooLong = "throttle.zones: the file that it names cannot be used: the path is too long"
	_, err = server.TryStart(t, server.ModuleArgs("zones", far(1024)))
	require.Error(t, err)
	assert.Contains(t, err.Error(), tooLong)
	_, err = server.TryStart(t, server.ModuleArgs("zones", far(1023)))
	require.Error(t, err) // of which the server's log has only the beginning
	assert.NotContains(t, err.Error(), tooLong)

	// A server that runs goes on, and takes the module with a good file.
	s := server.Start(t, server.WithoutModule())
	path, err := server.ModulePath()
	require.NoError(t, err)
	for range 2 {
		assert.True(t, s.Do("MODULE", "LOAD", path, "zones", in("huge")).IsError())
		s.MustDo("MODULE", "LOAD", path, "zones", good)
		s.MustDo("CL.LIMIT", "k", "FIXED", "10/d", "TZ", "Europe/Berlin")
		s.MustDo("MODULE", "UNLOAD", "throttle")
	}
	if s.Program.AtLeast(7, 0) { // which has a configuration of modules
		_, err = server.TryStart(t, server.Config("throttle.zones "+in("absent")))
		require.Error(t, err)
		assert.Contains(t, err.Error(), "configuration throttle.zones : throttle.zones: the file "+in("absent")+" cannot be used: No such file")
	}
}

// Newer data moves the end of a window that has begun, and loses no units.
func TestAWindowThatHasBegunKeepsItsUnitsInNewerData(t *testing.T) {
	t.Parallel()
	wall := clock.New(t, kit.Noon.UnixNano())
	s := wall.Start(server.AppendOnly("always"))
	const limit = "FIXED 10/d TZ Europe/Berlin"
	a := kit.Ask(t, s.Raw(), "CL.LIMIT k %s COST 4", limit)
	assert.EqualValues(t, []int64{6, 11 * hourMs}, []int64{a.Remaining, a.ResetAfterMs})
	value := s.MustDo("GET", "k").Text

	s.Configure(server.ModuleArgs("zones", `"`+writeZones(t, "2027c", kit.Noon, 3)+`"`))
	s.Restart()
	assert.Equal(t, value, s.MustDo("GET", "k").Text)
	a = kit.Ask(t, s.Raw(), "CL.LIMIT k %s COST 7", limit)
	assert.EqualValues(t, []int64{1, 6, 9 * hourMs}, []int64{a.Limited, a.Remaining, a.ResetAfterMs})
	a = kit.Ask(t, s.Raw(), "CL.LIMIT k %s COST 1", limit)
	assert.EqualValues(t, []int64{5, 9 * hourMs}, []int64{a.Remaining, a.ResetAfterMs})
	// At 21:00 UTC the day ends in the newer data.
	wall.Set(kit.Noon.Add(9 * time.Hour).UnixNano())
	assert.EqualValues(t, 10, kit.Ask(t, s.Raw(), "CL.PEEK k %s", limit).Remaining)
}

// What is remembered of calls is forgotten with the zones that they were for.
func TestTheModuleMayBeLoadedAgainWithOtherZones(t *testing.T) {
	t.Parallel()
	wall := clock.New(t, kit.Noon.UnixNano())
	s := wall.Start(server.WithoutModule())
	module, err := server.ModulePath()
	require.NoError(t, err)
	reset := func(command, zone string) int64 {
		return kit.Pairs(kit.Do(t, s.Raw(), command, zone, zone))["reset_after_ms"].Int
	}
	for _, tt := range []struct {
		zones string
		hours int64
	}{{"", 11}, {writeZones(t, "2027c", kit.Noon, 3), 9}, {writeZones(t, "2027d", kit.Noon, 4), 8}, {"", 11}} {
		s.MustDo("MODULE", "LOAD", module, "zones", tt.zones)
		for range 2 {
			assert.Equal(t, tt.hours*hourMs, reset("CL.LIMIT %s FIXED 100/d TZ %s", "Europe/Berlin"))
			assert.Equal(t, tt.hours*hourMs, reset("CL.MLIMIT 2 %s b FIXED 100/d TZ %s", "Europe/Berlin"))
			assert.Equal(t, int64(11*hourMs), reset("CL.LIMIT %s FIXED 100/d TZ %s", "Europe/Zurich"))
		}
		s.MustDo("FLUSHALL")
		s.MustDo("MODULE", "UNLOAD", "throttle")
	}
}

// A replica gets what was decided, whatever zones it has, and decides by its own when it is promoted. INFO tells that
// they differ.
func TestAReplicaWithOtherZonesDecidesByThemOnceItIsPromoted(t *testing.T) {
	t.Parallel()
	wall := clock.New(t, kit.Noon.UnixNano())
	master := wall.Start()
	replica := wall.Start(server.ReplicaOf(master), server.ModuleArgs("zones", `"`+writeZones(t, "2027c", kit.Noon, 3)+`"`))
	const limit = "FIXED 10/d TZ Europe/Berlin"
	require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "up" }, 30*time.Second, 10*time.Millisecond)
	a := kit.Ask(t, master.Raw(), "CL.LIMIT k %s COST 4", limit)
	assert.EqualValues(t, 11*hourMs, a.ResetAfterMs)
	require.Eventually(t, func() bool { return replica.MustDo("GET", "k").Text == master.MustDo("GET", "k").Text }, 30*time.Second, 10*time.Millisecond)
	assert.Equal(t, master.MustDo("PTTL", "k").Int, replica.MustDo("PTTL", "k").Int)
	a = kit.Ask(t, replica.Raw(), "CL.PEEK k %s", limit)
	assert.EqualValues(t, []int64{6, 9 * hourMs}, []int64{a.Remaining, a.ResetAfterMs})
	assert.NotEqual(t, master.Info("throttle")["throttle_zone_data_checksum"], replica.Info("throttle")["throttle_zone_data_checksum"])

	replica.MustDo("REPLICAOF", "NO", "ONE")
	a = kit.Ask(t, replica.Raw(), "CL.LIMIT k %s COST 2", limit)
	assert.EqualValues(t, []int64{4, 9 * hourMs}, []int64{a.Remaining, a.ResetAfterMs})
}

// Go opens no file: its runtime would keep descriptors for that.
func TestAFileOfZonesLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	open := func(s *server.Server) (all []string) {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Pid()))
		require.NoError(t, err)
		for _, f := range files {
			target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", s.Pid(), f.Name()))
			name := strings.Split(strings.ReplaceAll(target, s.Dir, "DIR"), ":[")[0]
			// Go's runtime opens files of cgroups, and what it waits with, in its own time.
			if err == nil && name != "socket" && !strings.HasPrefix(name, "anon_inode") && !strings.HasPrefix(name, "/sys/fs/cgroup/") {
				all = append(all, name)
			}
		}
		slices.Sort(all)
		return all
	}
	without := server.Start(t)
	with := server.Start(t, server.ModuleArgs("zones", `"`+writeZones(t, "2027c", kit.Noon, 3)+`"`))
	// For a moment, a server has its own files open, such as /proc/self/stat.
	assert.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, open(without), open(with)) }, kit.Patience, 20*time.Millisecond)
}
