package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"redis-throttle/tests/sharedlib"
)

// Network is a number of hosts and the bridge between them, which is also the host of this process.
type Network struct {
	Hosts []*Host
	// Here is this process's own host: that of the clients.
	Here *Host

	t         testing.TB
	slow      string // library
	slowness  *sharedlib.Numbers
	diskBytes int64
}

// Host is a place for servers.
type Host struct {
	Number    int
	Addr      string
	Disk      string // a folder on a disk of its own
	network   *Network
	namespace string // "" for that of this process
	device    string
}

// mostHosts is how many hosts there may be: their addresses end in 1 to 200.
const mostHosts = 200

// New makes n hosts, each with a disk of diskBytes. It is for tests in which Inside is true.
func New(t testing.TB, n int, diskBytes int64) *Network {
	t.Helper()
	require.True(t, isInside(), "hosts are for processes with namespaces of their own: see Inside")
	require.LessOrEqual(t, n, mostHosts)
	network := &Network{t: t, slow: sharedlib.Build(t, "slowdisk", slowdisk, "-ldl"), slowness: sharedlib.NewNumbers(t, n), diskBytes: diskBytes}
	// ip keeps names of namespaces below /run, which others see, too.
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	require.NoError(t, unix.Mount("tmpfs", "/run", "tmpfs", 0, ""))
	require.NoError(t, os.Mkdir("/run/netns", 0o755))
	network.ip("link", "set", "lo", "up")
	network.Here = &Host{Number: n, Addr: addr(254), network: network, device: "bridge"}
	network.ip("link", "add", "bridge", "address", network.Here.hardware(), "type", "bridge")
	network.ip("addr", "add", network.Here.Addr+"/24", "dev", "bridge")
	network.ip("link", "set", "bridge", "up")
	for i := range n {
		network.Hosts = append(network.Hosts, network.add(i))
	}
	network.Heal(network.Hosts...)
	return network
}

func addr(n int) string { return fmt.Sprint("10.0.0.", n) }

func (n *Network) add(i int) *Host {
	h := &Host{Number: i, Addr: addr(i + 1), Disk: n.t.TempDir(), network: n, namespace: fmt.Sprint("host", i), device: fmt.Sprint("eth", i)}
	plug := fmt.Sprint("plug", i)
	n.ip("netns", "add", h.namespace)
	n.ip("link", "add", plug, "type", "veth", "peer", "name", h.device, "address", h.hardware(), "netns", h.namespace)
	n.ip("link", "set", plug, "master", "bridge", "up")
	h.ip("addr", "add", h.Addr+"/24", "dev", h.device)
	h.ip("link", "set", "lo", "up")
	h.ip("link", "set", h.device, "up")
	require.NoError(n.t, unix.Mount("tmpfs", h.Disk, "tmpfs", 0, fmt.Sprint("size=", n.diskBytes)))
	n.t.Cleanup(func() { _ = unix.Unmount(h.Disk, unix.MNT_DETACH) }) // so that the folder can be removed
	return h
}

// hardware is the host's hardware address.
func (h *Host) hardware() string { return fmt.Sprintf("02:00:00:00:00:%02x", h.Number+1) }

// nowhere is a hardware address that no host has.
const nowhere = "02:00:00:00:01:00"

// Cut loses everything that one host sends to another from now on, as a broken switch does: neither of them is told.
// What is sent the other way still arrives.
func (n *Network) Cut(from, to *Host) { from.neighbour(to, nowhere) }

// Join undoes Cut.
func (n *Network) Join(from, to *Host) { from.neighbour(to, to.hardware()) }

// Heal undoes every Cut among hosts, and between them and this process.
func (n *Network) Heal(hosts ...*Host) {
	all := append([]*Host{n.Here}, hosts...)
	for _, from := range all {
		for _, to := range all {
			if from != to {
				n.Join(from, to)
			}
		}
	}
}

// neighbour sets the hardware address to which a host sends what is meant for another.
func (h *Host) neighbour(other *Host, hardware string) {
	h.ip("neigh", "replace", other.Addr, "lladdr", hardware, "dev", h.device, "nud", "permanent")
}

func (h *Host) ip(args ...string) {
	if h.namespace != "" {
		args = append([]string{"-n", h.namespace}, args...)
	}
	h.network.ip(args...)
}

func (n *Network) ip(args ...string) {
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(n.t, err, "ip %s: %s", strings.Join(args, " "), out)
}

// Words come before a program on the command line that is to run it on this host.
func (h *Host) Words() []string {
	return append([]string{"nsenter", "--net=" + filepath.Join("/run/netns", h.namespace), "env"}, h.slowWords()...)
}
