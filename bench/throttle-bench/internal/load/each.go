package load

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// batch is how many keys' calls go out before their replies are read: enough to hide the
// round trip, and few enough that neither side waits for the other to read.
const batch = 200

// Each makes the calls once for every number below n, in order; RandomKey in them is that
// number. It fails at the first call that is answered an error.
func Each(ctx context.Context, addr string, calls [][]string, n int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // ends a read or write

	var one []byte // the calls for one number
	var positions []int
	for _, call := range calls {
		request, at := encode(call)
		for _, p := range at {
			positions = append(positions, len(one)+p)
		}
		one = append(one, request...)
	}
	replies := replyReader{conn: conn}
	for from := 0; from < n; from += batch {
		var out []byte
		upTo := min(from+batch, n)
		for i := from; i < upTo; i++ {
			number := KeyNumber(i)
			for _, at := range positions {
				copy(one[at:], number)
			}
			out = append(out, one...)
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
		if err := replies.skip((upTo - from) * len(calls)); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(calls[0], " "), err)
		}
	}
	return ctx.Err()
}

// replyReader reads replies that matter only where they are errors.
type replyReader struct {
	conn   net.Conn
	unread []byte
}

func (r *replyReader) skip(n int) error {
	chunk := make([]byte, 64<<10)
	for n > 0 {
		end := replyEnd(r.unread, 0)
		if end < 0 {
			k, err := r.conn.Read(chunk)
			if err != nil {
				return err
			}
			r.unread = append(r.unread, chunk[:k]...)
			continue
		}
		if r.unread[0] == '-' {
			return fmt.Errorf("the server answers %q", r.unread[:end])
		}
		r.unread = r.unread[end:]
		n--
	}
	return nil
}
