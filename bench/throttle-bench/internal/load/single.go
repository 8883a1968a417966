package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"syscall"
	"time"

	"redis-throttle/bench/throttle-bench/internal/stat"
)

// readPatience bounds a server that does not answer.
const readPatience = 10 * time.Second

// Single sends one call after another over one connection. redis-benchmark sorts
// latencies into steps of 8 us, which is a good part of a call's round trip with
// nobody else around; Single takes them to the nanosecond. It reads and writes a
// blocking socket on a thread of its own, so that Go's scheduler has no share in
// what is measured. Clients and Pipeline of the calls do not matter.
func Single(ctx context.Context, c Calls) (Report, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := dialBlocking(c.Addr)
	if err != nil {
		return Report{}, err
	}
	defer s.close()

	request, positions := encode(c.Args)
	latenciesNs := make([]int64, c.Requests)
	start := time.Now()
	for i := range latenciesNs {
		for _, at := range positions {
			copy(request[at:], KeyNumber(rand.IntN(c.Keys)))
		}
		sent := time.Now()
		if err := s.roundTrip(request); err != nil {
			return Report{}, errors.Join(ctx.Err(), fmt.Errorf("%s: %w", c, err))
		}
		latenciesNs[i] = time.Since(sent).Nanoseconds()
		if i%1024 == 0 && ctx.Err() != nil {
			return Report{}, ctx.Err()
		}
	}
	elapsed := time.Since(start)

	slices.Sort(latenciesNs)
	us := func(p float64) float64 { return float64(stat.Percentile(latenciesNs, p)) / 1000 }
	return Report{
		CallsPerSecond: float64(c.Requests) / elapsed.Seconds(),
		Latency:        Latency{P50: us(50), P95: us(95), P99: us(99), P999: us(99.9)},
	}, nil
}

// socket is a connection whose reads and writes block the thread.
type socket struct {
	fd    int
	close func()
	reply []byte
}

func dialBlocking(addr string) (*socket, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // the file is a duplicate
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return nil, err
	}
	fd := int(file.Fd()) // Fd makes it blocking
	timeout := syscall.NsecToTimeval(readPatience.Nanoseconds())
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout); err != nil {
		file.Close()
		return nil, err
	}
	return &socket{fd: fd, close: func() { file.Close() }, reply: make([]byte, 64<<10)}, nil
}

func (s *socket) roundTrip(request []byte) error {
	for sent := 0; sent < len(request); {
		n, err := retryInterrupted(syscall.Write, s.fd, request[sent:])
		if err != nil {
			return err
		}
		sent += n
	}
	for received := 0; ; {
		n, err := retryInterrupted(syscall.Read, s.fd, s.reply[received:])
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the server closed the connection, or its reply is too long")
		}
		received += n
		reply := s.reply[:received]
		if reply[0] == '-' {
			return fmt.Errorf("the server answers %q", reply)
		}
		if replyEnd(reply, 0) >= 0 {
			return nil
		}
	}
}

// retryInterrupted: the Go runtime sends its threads signals.
func retryInterrupted(f func(int, []byte) (int, error), fd int, b []byte) (int, error) {
	for {
		n, err := f(fd, b)
		if err != syscall.EINTR {
			return n, err
		}
	}
}
