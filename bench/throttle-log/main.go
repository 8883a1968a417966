// Throttle-log writes an access log of clients that do not exist, to try throttle-replay on: people who load pages,
// programs that poll, a few that crawl, and one that got stuck in a loop. The same numbers make the same log.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"
)

type options struct {
	Requests int           `help:"How many lines, about." default:"200000"`
	Clients  int           `help:"How many clients, about." default:"5000"`
	Hours    float64       `help:"How long the log is." default:"24"`
	Seed     uint64        `help:"Other numbers make another log." default:"1"`
	Start    time.Time     `help:"When it begins." default:"2026-11-02T00:00:00Z"`
	JSON     bool          `help:"Lines of JSON with times to the millisecond, as Envoy may write them."`
	Longest  time.Duration `help:"How long the longest request takes, by which lines are out of order." default:"0s"`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("throttle-log"), kong.Description("Writes an access log of clients that do not exist."))
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	o.write(out)
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// request is a line of the log.
type request struct {
	ms     int64 // since the start
	client int32
	path   uint16
}

func (o *options) write(out *bufio.Writer) {
	random := rand.New(rand.NewPCG(o.Seed, 1))
	all := o.requests(random)
	took := func(request) int64 { return 0 }
	if o.Longest > 0 {
		took = func(r request) int64 { return (r.ms*7919 + int64(r.client)*104_729) % (o.Longest.Milliseconds() + 1) }
	}
	// A line is written when a request ends, and says when it came.
	slices.SortStableFunc(all, func(a, b request) int { return cmp.Compare(a.ms+took(a), b.ms+took(b)) })
	var line []byte
	for _, r := range all {
		at := o.Start.Add(time.Duration(r.ms) * time.Millisecond).UTC()
		path := paths[int(r.path)%len(paths)]
		address := addressOf(r.client)
		if o.JSON {
			line = fmt.Appendf(line[:0], `{"start_time":"%s","downstream_remote_address_without_port":"%s","method":"GET","path":"%s","response_code":200,"bytes_sent":%d}`+"\n",
				at.Format("2006-01-02T15:04:05.000Z"), address, path, 200+int(r.path)*7)
		} else {
			line = append(append(line[:0], address...), " - - ["...)
			line = at.AppendFormat(line, "02/Jan/2006:15:04:05 -0700")
			line = fmt.Appendf(line, `] "GET %s HTTP/1.1" 200 %d "https://shop.example/" "%s"`+"\n", path, 200+int(r.path)*7, agents[int(r.client)%len(agents)])
		}
		_, _ = out.Write(line) // Flush says whether it worked
	}
}

var paths = []string{"/", "/api/items", "/api/items/1742?fields=name,price", "/assets/app.4f3c.js", "/assets/app.css", "/images/logo.svg", "/api/cart", "/search?q=lamp", "/login", "/api/orders"}

var agents = []string{
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1",
	"python-requests/2.32.4", "okhttp/5.1.0",
}

// addressOf is the address of a client, in networks that are for tests and, of many clients, private ones; one in eight
// has IPv6.
func addressOf(client int32) string {
	n := uint32(client)
	if n%8 == 7 {
		return fmt.Sprintf("2001:db8:%x:%x::%x", n>>16, n&0xffff, n%5+1)
	}
	if n < 1<<17 {
		return fmt.Sprintf("198.%d.%d.%d", 18+n>>16&1, n>>8&255, n&255)
	}
	return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// requests makes what all clients ask for, in no order.
func (o *options) requests(random *rand.Rand) (all []request) {
	lengthMs := int64(o.Hours * 3_600_000)
	all = make([]request, 0, o.Requests+o.Requests/8)
	add := func(ms int64, client int, path int) {
		if ms >= 0 && ms < lengthMs && len(all) < cap(all) {
			all = append(all, request{ms, int32(client), uint16(path)})
		}
	}
	perClient := float64(o.Requests) / float64(o.Clients)
	for client := range o.Clients {
		switch kind := client % 1000; {
		case client == 0 && o.Clients > 100: // a loop that nobody stops for ten minutes
			at := lengthMs * 6 / 10
			for end := at + min(lengthMs/20, 600_000); at < end; at += 20 + random.Int64N(25) {
				add(at, client, 1)
			}
		case kind < 3: // crawls, a few requests a second for an hour or so
			at := random.Int64N(lengthMs)
			for range int(perClient * 30) {
				at += 150 + random.Int64N(500)
				add(at, client, random.IntN(len(paths)))
			}
		case kind < 60: // polls
			every := int64(float64(lengthMs) / (perClient * 4) * (0.5 + random.Float64()))
			for at := random.Int64N(every + 1); at < lengthMs; at += max(every, 1) {
				add(at+random.Int64N(200), client, 6)
			}
		default: // loads pages: how many differs a lot
			left := int(math.Ceil(0.35 * perClient * math.Pow(1-random.Float64(), -0.5)))
			for left > 0 {
				at := o.daytime(random, lengthMs)
				for range 1 + random.IntN(4) { // pages
					for range min(2+random.IntN(14), left) { // what is on a page
						add(at+random.Int64N(1800), client, random.IntN(len(paths)))
						left--
					}
					at += 3000 + random.Int64N(40_000)
				}
			}
		}
	}
	return all
}

// daytime is an instant, which is rarely at night.
func (o *options) daytime(random *rand.Rand, lengthMs int64) int64 {
	for {
		at := random.Int64N(lengthMs)
		hour := math.Mod(float64(at)/3_600_000, 24)
		if random.Float64() < 0.15+0.85*math.Pow(math.Sin(math.Pi*hour/24), 2) {
			return at
		}
	}
}
