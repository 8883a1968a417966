// Chance compares an engine in another language with the limiter: random histories, each a transcript as in spec/, for
// `go run ./spec/chance`.
//
// It writes a history to its standard output, the calls with the replies of the limiter, and an empty line. Whoever has
// run it answers with a line: "ok", or what differs. Then the next one comes. Of a history that differs it sends
// shorter ones, writes the shortest to its standard error, and ends with the status 1.
//
// N in the environment is how many histories, SEED is that of the first: without it, or with 0, each run takes a new
// one. MOST is after how many histories that differ it gives up.
package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

func main() {
	differ, err := run(os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chance:", err)
	}
	if differ > 0 || err != nil {
		os.Exit(1)
	}
}

// peer is the engine that is compared.
type peer struct {
	in  *bufio.Reader
	out *bufio.Writer
}

func run(in io.Reader, out, report io.Writer) (differ int, err error) {
	n, err := fromEnv("N", 2000)
	if err != nil {
		return 0, err
	}
	seed, err := fromEnv("SEED", 0)
	if err != nil {
		return 0, err
	}
	most, err := fromEnv("MOST", 1)
	if err != nil {
		return 0, err
	}
	for seed == 0 {
		seed = rand.Uint64() >> 1
	}
	p := &peer{bufio.NewReader(in), bufio.NewWriter(out)}
	for i := range n {
		h := draw(rand.New(rand.NewPCG(seed+i, 0)))
		said, err := p.ask(h)
		if err != nil {
			return differ, err
		}
		if said == same {
			continue
		}
		h, said, err = p.shrink(h, said)
		if err != nil {
			return differ, err
		}
		fmt.Fprintf(report, "# SEED=%d N=1 differs: %s\n%s\n", seed+i, said, strings.Join(played(h), "\n"))
		if differ++; uint64(differ) == most {
			break
		}
	}
	return differ, nil
}

func fromEnv(name string, otherwise uint64) (uint64, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

const same = "ok"

// ask has the engine run a history, and returns what it says of it.
func (p *peer) ask(h []string) (said string, err error) {
	for _, line := range played(h) {
		_, _ = p.out.WriteString(line + "\n")
	}
	_, _ = p.out.WriteString("\n")
	if err := p.out.Flush(); err != nil {
		return "", err
	}
	said, err = p.in.ReadString('\n')
	return strings.TrimSpace(said), err
}

// shrink returns the shortest history found that still differs: without steps, and without words of calls. What the
// limiter refuses then is left out, so that no mistake of a call counts.
func (p *peer) shrink(h []string, said string) ([]string, string, error) {
	for again := true; again; {
		again = false
		for _, shorter := range shortened(h) {
			now, err := p.ask(shorter)
			if err != nil {
				return h, said, err
			}
			if now != same {
				h, said, again = shorter, now, true
				break
			}
		}
	}
	return h, said, nil
}

// shortened are histories that are shorter by some steps, or by one or two words of a call.
func shortened(h []string) (all [][]string) {
	for many := len(h) / 2; many > 0; many /= 2 {
		for i := 0; i+many <= len(h); i += many {
			all = append(all, without(h, i, many))
		}
	}
	for i, step := range h {
		words := strings.Fields(step)
		for _, many := range []int{3, 2, 1} {
			for at := 2; at+many <= len(words); at++ {
				shorter := without(h, i, 0)
				shorter[i] = strings.Join(without(words, at, many), " ")
				all = append(all, shorter)
			}
		}
	}
	return all
}

func without(of []string, at, many int) []string {
	return append(append([]string(nil), of[:at]...), of[at+many:]...)
}
