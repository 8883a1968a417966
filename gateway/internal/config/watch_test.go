package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tree is a folder whose files are watched in virtual time.
type tree struct {
	t       *testing.T
	folder  string
	mu      sync.Mutex // the detector of races does not know the order of a bubble
	changes []Files
}

// grow makes files, by name, and links, by name with "->" before what they lead to.
func grow(t *testing.T, files map[string]string) *tree {
	tr := &tree{t: t, folder: t.TempDir()}
	for name, text := range files {
		tr.write(name, text)
	}
	return tr
}

func (tr *tree) at(name string) string { return filepath.Join(tr.folder, name) }

func (tr *tree) write(name, text string) {
	tr.t.Helper()
	require.NoError(tr.t, os.MkdirAll(filepath.Dir(tr.at(name)), 0o755))
	require.NoError(tr.t, os.WriteFile(tr.at(name), []byte(text), 0o644))
}

// link puts a link in the place of what there was, as a deployment does.
func (tr *tree) link(to, name string) {
	tr.t.Helper()
	require.NoError(tr.t, os.MkdirAll(filepath.Dir(tr.at(name)), 0o755))
	require.NoError(tr.t, os.Symlink(to, tr.at("new")))
	require.NoError(tr.t, os.Rename(tr.at("new"), tr.at(name)))
}

func (tr *tree) remove(name string) { require.NoError(tr.t, os.RemoveAll(tr.at(name))) }

// watch watches a path in the tree while do runs.
func (tr *tree) watch(path string, do func()) {
	synctest.Test(tr.t, func(*testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go Watch(ctx, Read(tr.at(path)), nil, tr.note, tr.at(path))
		do()
	})
}

func (tr *tree) note(f Files) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.changes = append(tr.changes, f)
}

// since returns what was told since the last time, when two readings more are over.
func (tr *tree) since() (changes []Files) {
	time.Sleep(3 * interval)
	synctest.Wait()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	changes, tr.changes = tr.changes, nil
	return changes
}

// requireTold requires that one change was told, after which the files say so.
func (tr *tree) requireTold(texts ...string) {
	tr.t.Helper()
	changes := tr.since()
	require.Len(tr.t, changes, 1)
	require.Empty(tr.t, changes[0].errs)
	var have []string
	for _, one := range changes[0].list {
		have = append(have, one.text)
	}
	require.Equal(tr.t, texts, have)
}

func TestAChangeIsSeenWhereverItHappens(t *testing.T) {
	for name, test := range map[string]struct {
		files  map[string]string
		links  map[string]string
		watch  string
		change func(tr *tree)
	}{
		"the file": {map[string]string{"a.yaml": "1"}, nil, "a.yaml", func(tr *tree) { tr.write("a.yaml", "2") }},
		"a file that takes the place of another": {map[string]string{"a.yaml": "1"}, nil, "a.yaml", func(tr *tree) {
			tr.write("a.yaml~", "2")
			require.NoError(t, os.Rename(tr.at("a.yaml~"), tr.at("a.yaml")))
		}},
		"a link above":       {map[string]string{"r/1/c/a.yaml": "1", "r/2/c/a.yaml": "2"}, map[string]string{"current": "r/1"}, "current/c", func(tr *tree) { tr.link("r/2", "current") }},
		"a link":             {map[string]string{"r/1/a.yaml": "1", "r/2/a.yaml": "2"}, map[string]string{"current": "r/1"}, "current", func(tr *tree) { tr.link("r/2", "current") }},
		"a folder by a link": {map[string]string{"team/a.yaml": "1"}, map[string]string{"limits/x": "../team"}, "limits", func(tr *tree) { tr.write("team/a.yaml", "2") }},
		"a ConfigMap": {map[string]string{"limits/..1/a.yaml": "1", "limits/..2/a.yaml": "2"}, map[string]string{"limits/..data": "..1", "limits/a.yaml": "..data/a.yaml"}, "limits",
			func(tr *tree) { tr.link("..2", "limits/..data") }},
		"a new folder": {map[string]string{"limits/z.yaml": "1"}, nil, "limits", func(tr *tree) {
			tr.remove("limits/z.yaml")
			tr.write("limits/sub/a.yaml", "2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := grow(t, test.files)
			for name, to := range test.links {
				tr.link(to, name)
			}
			tr.watch(test.watch, func() {
				require.Empty(t, tr.since())
				test.change(tr)
				tr.requireTold("2")
				require.Empty(t, tr.since())
			})
		})
	}
}

func TestAChangeBeforeTheWatchIsSeen(t *testing.T) {
	tr := grow(t, map[string]string{"a.yaml": "1"})
	synctest.Test(t, func(t *testing.T) {
		first := Read(tr.at("a.yaml"))
		tr.write("a.yaml", "2")
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go Watch(ctx, first, nil, tr.note, tr.at("a.yaml"))
		tr.requireTold("2")
	})
}

// A log that is written beside them at each change is no reason to read them, and files that are written bit by bit are
// told when they are at rest.
func TestOnlyFilesAtRestAreTold(t *testing.T) {
	tr := grow(t, map[string]string{"limits/a.yaml": "1"})
	tr.watch("limits/a.yaml", func() {
		tr.write("limits/log", "a line")
		require.Empty(t, tr.since())
		time.Sleep(interval / 2) // between two readings
		for _, half := range []string{"", "2", "2 and", "2 and 3"} {
			time.Sleep(interval)
			tr.write("limits/a.yaml", half)
		}
		tr.requireTold("2 and 3")
	})
}

// What cannot be read is told once, and so is that it can be read again.
func TestFilesThatComeBackAreRead(t *testing.T) {
	tr := grow(t, map[string]string{"above/limits/a.yaml": "1"})
	tr.watch("above/limits", func() {
		tr.remove("above")
		changes := tr.since()
		require.Len(t, changes, 1)
		require.ErrorContains(t, errors.Join(changes[0].errs...), "no such file")
		require.Empty(t, tr.since())
		tr.write("above/limits/a.yaml", "2")
		tr.requireTold("2")
	})
}

// What leads nowhere, back or to something else is a mistake, and does not make the others disappear.
func TestWhatIsNoFileIsAMistake(t *testing.T) {
	for want, make := range map[string]func(path string) error{
		"no such file or directory":            func(path string) error { return os.Symlink("nowhere", path) },
		"is no file and no folder":             func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"leads back to a folder that it is in": func(path string) error { return os.Symlink("..", path) },
	} {
		t.Run(want, func(t *testing.T) {
			tr := grow(t, map[string]string{"limits/b.yaml": "domain: b", "limits/x/a.yaml": "domain: a"})
			require.NoError(t, make(tr.at("limits/x/zz.yaml")))
			f := Read(tr.at("limits"))
			assert.Len(t, f.list, 2)
			_, err := f.Parse(false)
			require.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, "zz.yaml")
		})
	}
}

// There are more ways through seven folders with links to each other than anybody would wait for.
func TestFoldersThatLeadToEachOtherAreRefused(t *testing.T) {
	tr := grow(t, map[string]string{"limits/a.yaml": "domain: a"})
	for from := range 7 {
		require.NoError(t, os.Mkdir(tr.at(fmt.Sprint("limits/", from)), 0o755))
		for to := range 7 {
			if from != to {
				tr.link(fmt.Sprint("../", to), fmt.Sprint("limits/", from, "/", to))
			}
		}
	}
	_, err := Read(tr.at("limits")).Parse(false)
	require.ErrorContains(t, err, fmt.Sprintf("there are more than 10000 files and folders in %s", tr.at("limits")))
}

// As in throttle-gateway check /dev/stdin.
func TestAPipeIsReadWhereItIsReadOnce(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, err = w.WriteString("domain: piped")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	path := fmt.Sprint("/dev/fd/", r.Fd())
	_, err = Read(path).Parse(false)
	require.ErrorContains(t, err, path+" is no file and no folder")
	c, err := ReadOnce(path).Parse(false)
	require.NoError(t, err)
	assert.Contains(t, c.Domains, "piped")
}

// A signal has the files read at once, whether they changed or not, and a change that it tells of is told once.
func TestASignalHasTheFilesReadAtOnce(t *testing.T) {
	t.Parallel()
	tr := grow(t, map[string]string{"a.yaml": "one"})
	synctest.Test(t, func(*testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		again := make(chan os.Signal)
		go Watch(ctx, Read(tr.folder), again, tr.note, tr.folder)
		for _, text := range []string{"one", "two"} {
			tr.write("a.yaml", text)
			again <- syscall.SIGHUP
			synctest.Wait()
			require.Len(t, tr.changes, 1)
			tr.requireTold(text)
		}
		require.Empty(t, tr.since())
	})
}
