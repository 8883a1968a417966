package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Load reads files, and the files in folders and below. Files and folders whose name begins with a dot are left out, such as those
// that Kubernetes keeps beside the files of a ConfigMap. All mistakes are reported at once. With merge, several files can be
// about one domain.
func Load(merge bool, paths ...string) (*Config, error) {
	files, err := find(paths)
	if err != nil {
		return nil, err
	}
	c := &Config{Domains: map[string]*Domain{}}
	sum := sha256.New()
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(sum, "%d %d\n%s%s", len(file), len(text), file, text)
		r := &reader{file: file}
		c.domain(r, string(text), merge)
		errs = append(errs, r.errs...)
	}
	c.Version = hex.EncodeToString(sum.Sum(nil)[:6])
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no file in %s", strings.Join(paths, ", "))
	}
	return c, nil
}

// find lists files in the order of their names.
func find(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		var below []string
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), ".") {
				below = append(below, filepath.Join(path, entry.Name()))
			}
		}
		more, err := find(below)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that is being replaced is looked at again
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

// settle is how long nothing must have changed before files are read: an editor or a deployment writes several times.
const settle = 100 * time.Millisecond

// Watch calls changed after files have changed, until ctx ends. It looks at folders, not at files: editors and Kubernetes put
// another file in the place of one. A root that is a symbolic link is followed anew each time.
func Watch(ctx context.Context, changed func(), paths ...string) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if err := watch(watcher, paths); err != nil {
		return errors.Join(err, watcher.Close())
	}
	failed := func(err error) { slog.Error("files are not watched as they should be", "error", err) }
	go func() {
		defer watcher.Close()
		timer := time.NewTimer(settle)
		timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-watcher.Events:
				timer.Reset(settle)
			case err := <-watcher.Errors:
				failed(err)
				timer.Reset(settle) // events may be lost: look
			case <-timer.C:
				if err := watch(watcher, paths); err != nil { // folders may be new
					failed(err)
				}
				changed()
			}
		}
	}()
	return nil
}

// watch watches each folder at paths and below, and the folders that hold paths. The kernel forgets what was removed, so all are
// added every time, which changes nothing for those that are watched.
func watch(watcher *fsnotify.Watcher, paths []string) error {
	var errs []error
	add := func(folder string) {
		if err := watcher.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, path := range paths {
		add(filepath.Dir(path))
		if real, err := filepath.EvalSymlinks(path); err == nil {
			add(filepath.Dir(real))
			path = real
		}
		_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil: // it has just been removed
			case entry.IsDir():
				add(name)
			case entry.Type()&fs.ModeSymlink != 0:
				if real, err := filepath.EvalSymlinks(name); err == nil {
					add(filepath.Dir(real))
				}
			}
			return nil
		})
	}
	return errors.Join(errs...)
}
