package config

import (
	"context"
	"os"
	"time"
)

// interval is the pause between two readings of the files. After a reading that took long it is longer, so that a tenth
// of the time goes into them at most. A change is seen when two readings agree: an editor or a deployment writes
// several times.
const interval = 500 * time.Millisecond

// Watch calls changed with the files at paths when they are no longer those that were seen before, until ctx ends. At a
// value of again it reads them at once and calls changed in any case.
//
// It reads them again and again, since the kernel's events leave too much out: what lies behind a symbolic link, above
// the paths, or on a file system of the network. Nor do they come while there is no memory or descriptor to spare.
func Watch(ctx context.Context, seen Files, again <-chan os.Signal, changed func(Files), paths ...string) {
	pause := interval
	for last := seen; ; {
		select {
		case <-ctx.Done():
			return
		case <-again:
			seen = Read(paths...)
			last = seen
			changed(seen)
			continue
		case <-time.After(pause):
		}
		begun := time.Now()
		now := Read(paths...)
		pause = max(interval, 9*time.Since(begun))
		if now.Version == last.Version && now.Version != seen.Version {
			seen = now
			changed(now)
		}
		last = now
	}
}
