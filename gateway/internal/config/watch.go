package config

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	settle   = 100 * time.Millisecond
	patience = 10 * settle
)

// rest is a timer that ends when nothing has changed for as long as settle: an editor or a deployment writes several times. Where
// something changes all the time, such as a log in the same folder, it ends after patience.
type rest struct {
	*time.Timer
	due time.Time // at the latest; zero when it has ended
}

func newRest() *rest { return &rest{time.NewTimer(settle), time.Now().Add(patience)} }

func (r *rest) disturb() {
	if r.due.IsZero() {
		r.due = time.Now().Add(patience)
	}
	r.Reset(min(settle, time.Until(r.due)))
}

func (r *rest) end() { r.due = time.Time{} }

// Watch calls changed with the files at paths when they are no longer those that were seen before, until ctx ends. It looks at folders,
// not at files: editors and Kubernetes put another file in the place of one. What else changes in a folder is no reason for a call, which
// may itself write to a log there. A root that is a symbolic link is followed anew each time.
func Watch(ctx context.Context, seen Files, changed func(Files), paths ...string) error {
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
		rest := newRest() // they may have changed before they were watched
		for {
			select {
			case <-ctx.Done():
				return
			case <-watcher.Events:
				rest.disturb()
			case err := <-watcher.Errors:
				failed(err)
				rest.disturb() // events may be lost: look
			case <-rest.C:
				rest.end()
				if err := watch(watcher, paths); err != nil { // folders may be new
					failed(err)
				}
				if now := Read(paths...); now.Version != seen.Version {
					seen = now
					changed(now)
				}
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
