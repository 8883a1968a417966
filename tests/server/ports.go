package server

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are taken from below the range the kernel hands out for outgoing
// connections (32768 and up), and so that the cluster bus port, 10000 higher, is
// below it too.
const (
	firstPort  = 11000
	lastPort   = 22000
	busPortGap = 10000
)

// FreePort is a port that nobody listens on, nor on the one of the cluster bus. It belongs
// to the test until it ends, also while its server is stopped: another test, in whichever
// binary, does not get it. The sign of that is the UDP port of the same number, which no
// server uses and the kernel frees when the binary dies.
func FreePort(t testing.TB) int {
	t.Helper()
	for {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if claim(t, port) && claim(t, port+busPortGap) && bindable(port) && bindable(port+busPortGap) {
			return port
		}
	}
}

func claim(t testing.TB, port int) bool {
	c, err := net.ListenPacket("udp", local(port))
	if err != nil {
		return false
	}
	t.Cleanup(func() { _ = c.Close() })
	return true
}

func bindable(port int) bool {
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
