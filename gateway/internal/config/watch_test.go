package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watched is a file that is watched, in a folder of its own.
type watched struct {
	t       *testing.T
	folder  string
	changes chan Files
}

// watchOne watches a file. said is called at each change, as what writes a log would be.
func watchOne(t *testing.T, said func(w *watched)) *watched {
	w := &watched{t, t.TempDir(), make(chan Files, 100)}
	w.write("limits.yaml", "domain: first")
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	path := filepath.Join(w.folder, "limits.yaml")
	require.NoError(t, Watch(ctx, Read(path), func(f Files) {
		said(w)
		w.changes <- f
	}, path))
	return w
}

func (w *watched) write(name, text string) {
	assert.NoError(w.t, os.WriteFile(filepath.Join(w.folder, name), []byte(text), 0o644))
}

// await waits until the file that is watched is known to say a text.
func (w *watched) await(text string) {
	w.t.Helper()
	for {
		select {
		case f := <-w.changes:
			if len(f.list) == 1 && f.list[0].text == text {
				return
			}
		case <-time.After(30 * time.Second):
			require.Fail(w.t, "a change was not seen", text)
		}
	}
}

func TestOnlyAChangeOfTheFilesIsAReasonToReadThem(t *testing.T) {
	lines := 0
	w := watchOne(t, func(w *watched) {
		lines++
		w.write("log", string(make([]byte, lines)))
	})
	w.write("limits.yaml", "domain: second")
	w.await("domain: second")
	w.write("other.yaml", "domain: other")
	assert.Never(t, func() bool { return len(w.changes) > 0 }, 5*settle, settle, "a line of a log is no change")
	w.write("limits.yaml", "domain: third")
	w.await("domain: third")
}

func TestALogThatNeverRestsDoesNotKeepAChangeFromBeingSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest := newRest()
		lasts := func(every time.Duration) time.Duration {
			log := time.NewTicker(every)
			defer log.Stop()
			for begun := time.Now(); ; {
				select {
				case <-rest.C:
					rest.end()
					return time.Since(begun)
				case <-log.C:
					require.Less(t, time.Since(begun), 2*patience, "it does not end")
					rest.disturb()
				}
			}
		}
		assert.Equal(t, settle, lasts(time.Hour))
		for range 2 {
			rest.disturb()
			assert.Equal(t, patience, lasts(settle-1))
		}
	})
}

// What is written between the first look and the watch has no event.
func TestAChangeBeforeTheWatchIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(path, []byte("domain: first"), 0o644))
	first := Read(path)
	require.NoError(t, os.WriteFile(path, []byte("domain: second"), 0o644))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	changes := make(chan Files, 1)
	require.NoError(t, Watch(ctx, first, func(f Files) { changes <- f }, path))
	assert.Equal(t, Read(path).Version, (<-changes).Version)
}
