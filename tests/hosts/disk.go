package hosts

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

//go:embed testdata/slowdisk.c
var slowdisk []byte

// slowWords tell the preloaded library which host it is on.
func (h *Host) slowWords() []string {
	return []string{"THROTTLE_TEST_SLOWDISK=" + h.network.slowness.Path, fmt.Sprint("THROTTLE_TEST_SLOWDISK_HOST=", h.Number)}
}

// Preload is the library to preload into a program on a host, for SlowDown to have an effect on it.
func (n *Network) Preload() string { return n.slow }

// SlowDown makes each fsync of programs on the host take d longer from now on; 0 ends that.
func (h *Host) SlowDown(d time.Duration) { h.network.slowness.Set(h.Number, int64(d)) }

func (h *Host) filler() string { return filepath.Join(h.Disk, "filler") }

// FillDisk leaves no byte free on the host's disk.
func (h *Host) FillDisk() {
	t := h.network.t
	f, err := os.OpenFile(h.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		_, err := f.Write(block)
		switch {
		case errors.Is(err, unix.ENOSPC):
			block = block[:len(block)/2]
		case err != nil:
			require.NoError(t, err)
		}
	}
}

// FreeDisk undoes FillDisk.
func (h *Host) FreeDisk() { require.NoError(h.network.t, os.RemoveAll(h.filler())) }
