package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/prometheus/procfs"

	"redis-throttle/bench/internal/must"
)

// queue is a kind of call that blocks its client. Each caller has a connection.
type queue struct {
	Name string `json:"name"`
	// call is what each caller sends, with {id} for its number; "" for none. The first inFront do not wait.
	call    string
	inFront int
	// turns are calls, encoded, that let as many in at once as were in front.
	turns string

	Callers   int        `json:"callers"`
	Connected bytesOf    `json:"connected"` // each, before it calls
	AtFirst   bytesOf    `json:"at_first"`  // each, on top, when it has just come
	InLine    bytesOf    `json:"in_line"`   // each, on top, later: servers shrink the buffers of clients that are idle
	Worst     []worstOne `json:"worst"`
}

// bytesOf is memory of a server: what the kernel counts that is not of files, and what the server counts for
// maxmemory.
type bytesOf struct {
	Resident float64 `json:"resident"`
	Used     float64 `json:"used"`
}

// since is what has been added for each of some callers.
func (b bytesOf) since(before bytesOf, callers int) bytesOf {
	n := float64(max(1, callers))
	return bytesOf{(b.Resident - before.Resident) / n, (b.Used - before.Used) / n}
}

// worstOne is the slowest PING of a stage: what its sender saw, and what the main thread of the server worked
// meanwhile. The first depends on what else the machine does, the second hardly.
type worstOne struct {
	Stage    string  `json:"stage"`
	WaitedMs float64 `json:"waited_ms"`
	WorkedMs float64 `json:"worked_ms"`
}

// atOnce is how many are let in at once.
const atOnce = 1000

func queues() []*queue {
	var releases strings.Builder
	for id := range atOnce {
		releases.WriteString(fill(encode("CL.RELEASE line ID {id}"), 0, id))
	}
	return []*queue{
		{Name: "no call"},
		{Name: "BLPOP", call: "BLPOP line 0", turns: encode("RPUSH line" + strings.Repeat(" x", atOnce))},
		{
			Name: "CL.LEASE", call: "CL.LEASE line SLOTS 1000 TTL 1h ID {id} TIMEOUT 1h",
			inFront: atOnce, turns: releases.String(),
		},
		{
			Name: "CL.WAIT, a WINDOW", call: "CL.WAIT line WINDOW 1000/1h TIMEOUT 1h",
			inFront: atOnce, turns: encode("CL.REFUND line WINDOW 1000/1h COST 1000"),
		},
		{Name: "CL.WAIT, a RATE", call: "CL.WAIT line RATE 1/1h TIMEOUT 0", inFront: 1},
	}
}

// callers measures callers that wait: the memory of each, and the slowest PING while they come, wait, are let in and
// leave.
func callers(ctx context.Context, o options) {
	runtime.GOMAXPROCS(2) // who sends PING does not wait for who sends calls
	all := queues()
	var about []string
	for _, q := range all {
		about = q.measure(ctx, o)
	}
	o.publish("callers", results{About: about, Queues: all}, queueTables(all)...)
}

// spareFiles are the descriptors that a server has open beside its clients, and then some.
const spareFiles = 200

func (q *queue) measure(ctx context.Context, o options) (about []string) {
	defer must.Name("%s", q.Name)
	fmt.Fprintln(os.Stderr, q.Name)
	var files syscall.Rlimit
	must.Do(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	q.Callers = min(o.Callers, int(files.Cur)-spareFiles)
	dir := must.Get(os.MkdirTemp("", "throttle-bench-"))
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s") // TCP has no port for so many
	l := lineup{options: o, keys: o.Keys}
	defer l.close()
	l.assemble(ctx, nil, "--maxclients", strconv.Itoa(q.Callers+spareFiles/2), "--unixsocket", socket, "--throttle.max-waiting", "0")
	s := l.hosts[hostMain]
	p := &prober{pid: s.PID(), conn: must.Get(net.Dial("unix", socket))}
	defer p.conn.Close()

	conns := make([]net.Conn, q.Callers)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	memory := func() bytesOf {
		resident := must.Get(must.Get(procfs.NewProc(s.PID())).NewStatus()).RssAnon
		return bytesOf{float64(resident), s.Fields(ctx).Number("used_memory")}
	}
	empty := memory()
	stage := func(name string, work func()) { q.Worst = append(q.Worst, p.during(name, work)) }
	stage("connect", func() {
		for i := range conns {
			conns[i] = must.Get(net.Dial("unix", socket))
			exchange(conns[i], encode("PING"), 1)
		}
	})
	pause(ctx, o.Watch)
	connected := memory()
	q.Connected = connected.since(empty, q.Callers)
	if q.call != "" {
		call := encode(q.call)
		for i, c := range conns[:q.inFront] {
			exchange(c, fill(call, 0, i), 1)
		}
		pause(ctx, o.Watch)
		connected = memory()
		stage("come", func() {
			for i, c := range conns[q.inFront:] {
				exchange(c, fill(call, 0, q.inFront+i), 0)
			}
			for waiting := 0; waiting < q.Callers-q.inFront; waiting = int(s.Fields(ctx).Number("blocked_clients")) {
				pause(ctx, 100*time.Millisecond)
			}
			q.AtFirst = memory().since(connected, q.Callers-q.inFront)
		})
	}
	stage("stand", func() { pause(ctx, o.Watch) })
	q.InLine = memory().since(connected, q.Callers-q.inFront)
	if q.turns != "" {
		stage(fmt.Sprintf("%d enter", atOnce), func() {
			want := max(0, s.Fields(ctx).Number("blocked_clients")-atOnce)
			control := must.Get(net.Dial("unix", socket))
			defer control.Close()
			exchange(control, q.turns, 1)
			for s.Fields(ctx).Number("blocked_clients") > want {
				pause(ctx, 10*time.Millisecond)
			}
		})
	}
	stage("leave", func() {
		for _, c := range conns {
			_ = c.Close()
		}
		for s.Fields(ctx).Number("connected_clients") > 10 {
			pause(ctx, 100*time.Millisecond)
		}
	})
	return l.about(ctx)
}

// exchange sends calls, and reads lines of the replies.
func exchange(c net.Conn, calls string, lines int) {
	must.Get(c.Write([]byte(calls)))
	replies := bufio.NewReaderSize(c, 16)
	for range lines {
		if line := must.Get(replies.ReadString('\n')); line[0] == '-' {
			must.Fail("%s", strings.TrimSpace(line))
		}
	}
}

// prober sends PING every millisecond.
type prober struct {
	pid  int
	conn net.Conn
}

// during returns the worst while something is being done.
func (p *prober) during(stage string, work func()) (worst worstOne) {
	worst.Stage = stage
	done := make(chan struct{})
	var probing sync.WaitGroup
	probing.Go(func() {
		for {
			began, worked := time.Now(), p.worked()
			exchange(p.conn, encode("PING"), 1)
			worst.WaitedMs = max(worst.WaitedMs, time.Since(began).Seconds()*1000)
			worst.WorkedMs = max(worst.WorkedMs, (p.worked()-worked)/1e6)
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	func() {
		defer probing.Wait()
		defer close(done)
		work()
	}()
	return worst
}

// worked is the processor time of the main thread of the server, in nanoseconds.
func (p *prober) worked() float64 {
	ns, _, _ := strings.Cut(string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", p.pid, p.pid)))), " ")
	return must.Get(strconv.ParseFloat(ns, 64))
}

func queueTables(all []*queue) []table.Writer {
	memory := newTable("Memory of a caller, in bytes: resident, and what maxmemory counts", 1,
		"", "callers", "connection", "in line, on top", "connection", "in line at first, on top", "in line, on top")
	worst := newTable("Slowest PING, in ms, and work of the main thread until its reply", 2,
		"", "while callers", "waited", "worked")
	for _, q := range all {
		row := table.Row{q.Name, q.Callers}
		for _, bytes := range []float64{q.Connected.Resident, q.InLine.Resident, q.Connected.Used, q.AtFirst.Used, q.InLine.Used} {
			row = append(row, fmt.Sprintf("%.0f", bytes))
		}
		memory.AppendRow(row)
		label := q.Name
		for _, w := range q.Worst {
			worst.AppendRow(table.Row{label, w.Stage, fmt.Sprintf("%.1f", w.WaitedMs), fmt.Sprintf("%.1f", w.WorkedMs)})
			label = ""
		}
		worst.AppendSeparator()
	}
	return []table.Writer{memory, worst}
}
