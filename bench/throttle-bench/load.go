package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// stacks is how many different digits {mix} takes.
const stacks = 8

// fill replaces what differs from call to call. Numbers are of one length, which counts in
// bytes per key.
func fill(call string, key, id int) string {
	call = strings.ReplaceAll(call, "{key}", fmt.Sprintf("%012d", key))
	call = strings.ReplaceAll(call, "{id}", fmt.Sprintf("%012d", id))
	return strings.ReplaceAll(call, "{mix}", strconv.Itoa(key%stacks))
}

// encode writes a call as an array of bulk strings, as long as they will be once filled in.
func encode(call string) string {
	words := strings.Fields(call)
	encoded := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		encoded += fmt.Sprintf("$%d\r\n%s\r\n", len(fill(word, 0, 0)), word)
	}
	return encoded
}

// randomKey is one for call number i, such that {mix} is another than in the call before.
func randomKey(keys, i int) int { return (rand.IntN(keys)/stacks*stacks + i%stacks) % keys }

// batch is calls that a client sends at once.
type batch struct {
	request []byte
	replies int
}

// batches makes n times some calls, for the keys that are given: as many times at once as a
// pipeline is deep.
func batches(n, pipeline int, key func(i int) int, calls ...string) (all []batch) {
	var encoded string
	for _, call := range calls {
		encoded += encode(call)
	}
	ids := rand.Perm(n) // no id twice: two clients would end each other's leases
	for i := range n {
		if i%pipeline == 0 {
			all = append(all, batch{})
		}
		b := &all[len(all)-1]
		b.request = append(b.request, fill(encoded, key(i), ids[i])...)
		b.replies += len(calls)
	}
	return all
}

// load has every client send one batch after another, each when all replies to the one
// before are there. It fails unless each reply is the wanted one, where one is wanted. It
// returns how long each batch took, sorted, and all of them together.
func load(ctx context.Context, clients []*client, all []batch, wants ...string) (latenciesUs []float64, took time.Duration, err error) {
	latenciesUs = make([]float64, len(all))
	var taken atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for _, c := range clients {
		group.Go(func() error {
			defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })() // ends a read or write
			for i := taken.Add(1) - 1; i < int64(len(all)); i = taken.Add(1) - 1 {
				sent := time.Now()
				if err := c.send(all[i], wants...); err != nil {
					return err
				}
				latenciesUs[i] = float64(time.Since(sent).Nanoseconds()) / 1000
			}
			return nil
		})
	}
	err = group.Wait()
	took = time.Since(start)
	slices.Sort(latenciesUs)
	return latenciesUs, took, err
}

// client is a connection that puts load on a server. It allocates nothing for a call: what
// Go then spends on cleaning up would be part of the next one's latency.
type client struct {
	net.Conn
	in *bufio.Reader
}

// send sends a batch and reads the replies, of which wants are wanted in turn.
func (c *client) send(b batch, wants ...string) error {
	if _, err := c.Write(b.request); err != nil {
		return err
	}
	for i := range b.replies {
		want := wants[i%len(wants)]
		switch got, err := readReply(c.in, want, "limited"); {
		case err != nil:
			return err
		case want != "" && got != want:
			return fmt.Errorf("not what its name says: a reply does not begin with %s (with too few --keys, or too many --calls, limits are used up)", want)
		}
	}
	return nil
}

// readReply reads one reply in RESP2, and returns which of the words it is. Of an array
// that is its first element or, where that is the word "limited", the second.
func readReply(in *bufio.Reader, words ...string) (found string, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], line[1:len(line)-2]
	if kind == '-' {
		return "", fmt.Errorf("the server answers %q", text)
	}
	size := 0
	if kind == '$' || kind == '*' {
		size, _ = strconv.Atoi(string(text)) // -1 is nil
	}
	if kind == '*' {
		for i := range size {
			word, err := readReply(in, words...)
			if err != nil {
				return "", err
			}
			if i == 0 || i == 1 && found == "limited" {
				found = word
			}
		}
		return found, nil
	}
	if kind == '$' && size >= 0 {
		if text, err = in.Peek(size + len("\r\n")); err != nil {
			return "", err
		}
		text = text[:size]
		defer in.Discard(size + len("\r\n")) // is there
	}
	for _, word := range words {
		if string(text) == word {
			return word, nil
		}
	}
	return "", nil
}
