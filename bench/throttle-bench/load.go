package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Marks stand in an encoded command for what differs from call to call, and are as long.
const (
	keyMark = "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"
	idMark  = "\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02"
	mixMark = "\x03"
)

// stacks is how many different digits {mix} takes.
const stacks = 8

func keyNumber(n int) string  { return fmt.Sprintf("%0*d", len(keyMark), n) }
func mixDigit(key int) string { return strconv.Itoa(key % stacks) }

// encode writes a command as an array of bulk strings.
func encode(args []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}

// appendCall appends an encoded command with its marks filled in.
func appendCall(b, encoded []byte, key, id int) []byte {
	call := append(b, encoded...)
	for at := len(b); at < len(call); at++ {
		switch call[at] {
		case keyMark[0]:
			copy(call[at:], keyNumber(key))
		case idMark[0]:
			copy(call[at:], keyNumber(id))
		case mixMark[0]:
			copy(call[at:], mixDigit(key))
		}
	}
	return call
}

// randomKey is one for call number i, such that {mix} is another than in the call before.
func randomKey(keys, i int) int { return (rand.IntN(keys)/stacks*stacks + i%stacks) % keys }

// batch is calls that a client sends at once.
type batch struct {
	request []byte
	replies int
}

// batches splits n requests, of some replies each, into as many at a time as a pipeline is deep.
func batches(n, pipeline, replies int, appendTo func(b []byte, i int) []byte) (all []batch) {
	for from := 0; from < n; from += pipeline {
		var b batch
		for i := from; i < min(from+pipeline, n); i++ {
			b.request = appendTo(b.request, i)
			b.replies += replies
		}
		all = append(all, b)
	}
	return all
}

// report is how calls fared, as the clients saw it.
type report struct {
	callsPerSecond float64
	latencies      []float64 // of batches, in us, sorted
}

// load has every client send one batch after another, each when all replies to the one
// before are there. An endless load begins anew until its context ends.
func load(ctx context.Context, clients []net.Conn, all []batch, endless bool) (report, error) {
	r := report{latencies: make([]float64, len(all))}
	var taken, replies atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for _, client := range clients {
		group.Go(func() error {
			defer context.AfterFunc(ctx, func() { _ = client.SetDeadline(time.Unix(1, 0)) })() // ends a read or write
			buffer := make([]byte, 64<<10)
			for i := taken.Add(1) - 1; endless || i < int64(len(all)); i = taken.Add(1) - 1 {
				b := all[i%int64(len(all))]
				sent := time.Now()
				_, err := client.Write(b.request)
				if err == nil {
					err = awaitReplies(client, buffer, b.replies)
				}
				if err != nil {
					return errors.Join(ctx.Err(), err)
				}
				r.latencies[i%int64(len(all))] = float64(time.Since(sent).Nanoseconds()) / 1000
				replies.Add(int64(b.replies))
			}
			return nil
		})
	}
	err := group.Wait()
	r.callsPerSecond = float64(replies.Load()) / time.Since(start).Seconds()
	slices.Sort(r.latencies)
	return r, err
}

// awaitReplies reads so many replies, which matter only where they are errors.
func awaitReplies(client net.Conn, buffer []byte, n int) error {
	for unread := 0; n > 0; {
		received, err := client.Read(buffer[unread:])
		if err != nil {
			return err
		}
		unread += received
		at := 0
		for end := replyEnd(buffer[:unread], 0); end > 0; end = replyEnd(buffer[:unread], at) {
			if buffer[at] == '-' {
				return fmt.Errorf("the server answers %q", buffer[at:end-2])
			}
			at = end
			n--
		}
		if unread = copy(buffer, buffer[at:unread]); unread == len(buffer) {
			return errors.New("a reply is too long")
		}
	}
	return nil
}

// replyEnd is the index after the RESP2 reply that begins at from, or -1 where the reply
// is not complete.
func replyEnd(b []byte, from int) int {
	line := bytes.IndexByte(b[from:], '\n')
	if line < 0 {
		return -1
	}
	end := from + line + 1
	if b[from] != '$' && b[from] != '*' {
		return end
	}
	n, _ := strconv.Atoi(string(b[from+1 : end-2]))
	if b[from] == '$' && n >= 0 {
		if end += n + 2; end > len(b) {
			return -1
		}
	}
	for ; b[from] == '*' && n > 0 && end >= 0; n-- {
		end = replyEnd(b, end)
	}
	return end
}
