package shared

import (
	"errors"
	"net"
	"strings"
)

// RunID is what tells a server from all others, and from itself before a restart, in its reply to INFO server. It is
// empty if that has none.
func RunID(info string) string {
	_, id, _ := strings.Cut(info, "\nrun_id:")
	id, _, _ = strings.Cut(id, "\r\n")
	return id
}

// Elsewhere is the error of a call that waits at a server while another one answers at its address. IsOutage knows it
// by its type.
func Elsewhere(at net.Addr) error {
	return &net.OpError{Op: "wait", Addr: at, Err: errors.New("another server answers at this address by now")}
}
