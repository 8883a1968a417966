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

// slowWords load what makes the disk slow. Another library may be preloaded beside it.
func (h *Host) slowWords() []string {
	return []string{"THROTTLE_TEST_SLOWDISK=" + h.network.slowness.Path, fmt.Sprint("THROTTLE_TEST_SLOWDISK_HOST=", h.Number)}
}

// Preload is the library that makes a program on a host notice that its disk is slow.
func (n *Network) Preload() string { return n.slow }

// SlowDown makes each fsync on the host's disk take so much longer from now on; 0 for as fast as it is.
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
