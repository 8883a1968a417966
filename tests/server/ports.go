package server

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range the kernel hands out for outgoing
// connections (32768 and up), and so that the cluster bus port, 10000 higher, is
// below it too.
const (
	firstPort  = 11000
	lastPort   = 22000
	busPortGap = 10000
)

// given holds the ports this binary handed out: two servers that start at the same
// time must not both find the same port free.
var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

func freePort() int {
	given.Lock()
	defer given.Unlock()
	for {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !given.ports[port] && bindable(port) && bindable(port+busPortGap) {
			given.ports[port] = true
			return port
		}
	}
}

func bindable(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
