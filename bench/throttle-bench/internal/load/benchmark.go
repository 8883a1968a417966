package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Benchmark runs redis-benchmark, whose path is given.
func Benchmark(ctx context.Context, program string, c Calls) (Report, error) {
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return Report{}, err
	}
	args := []string{
		"-h", host, "-p", port,
		"-c", strconv.Itoa(c.Clients), "-P", strconv.Itoa(c.Pipeline),
		"-n", strconv.Itoa(c.Requests), "-r", strconv.Itoa(c.Keys),
	}
	cmd := exec.CommandContext(ctx, program, append(args, c.Args...)...)
	// It goes away with its server; a Ctrl-C reaches it through the context only.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return Report{}, errors.Join(ctx.Err(), fmt.Errorf("redis-benchmark %s: %w: %s%s", c, err, stderr.Bytes(), lastLine(out)))
	}
	report, err := ParseBenchmark(bytes.NewReader(out))
	if err != nil {
		return Report{}, fmt.Errorf("redis-benchmark %s: %w: %s", c, err, stderr.Bytes())
	}
	return report, nil
}

// What redis-benchmark prints, from version 6.2 on, without -q and --csv. Every
// line may be preceded by progress that ends in a carriage return.
var (
	throughputLine = regexp.MustCompile(`^\s*throughput summary: ([\d.]+|inf) requests per second$`)
	percentileLine = regexp.MustCompile(`^([\d.]+)% <= ([\d.]+) milliseconds \(cumulative count (\d+)\)$`)
	summaryHeader  = "avg min p50 p95 p99 max"
)

// ParseBenchmark reads redis-benchmark's output. P999 is the first listed latency
// that at least 99.9 % of the calls did not exceed; the list goes in halves of the
// distance to 100 %, so that this is its 99.902 % line.
func ParseBenchmark(r io.Reader) (Report, error) {
	var report Report
	var counts []percentile
	var listing, summary bool
	for scanner := bufio.NewScanner(r); scanner.Scan(); {
		line := scanner.Text()
		line = line[strings.LastIndexByte(line, '\r')+1:]
		if m := throughputLine.FindStringSubmatch(line); m != nil {
			report.CallsPerSecond, _ = strconv.ParseFloat(m[1], 64) // a number by the expression
			continue
		}
		if m := percentileLine.FindStringSubmatch(line); m != nil && listing {
			counts = append(counts, newPercentile(m[2], m[3]))
			continue
		}
		// Lines of the same form follow under another heading.
		listing = line == "Latency by percentile distribution:"
		fields := strings.Fields(line)
		if summary && len(fields) == 6 {
			report.Latency.P50 = microseconds(fields[2])
			report.Latency.P95 = microseconds(fields[3])
			report.Latency.P99 = microseconds(fields[4])
		}
		summary = strings.Join(fields, " ") == summaryHeader
	}
	report.Latency.P999 = reaches(counts, 0.999)
	if math.IsInf(report.CallsPerSecond, 0) && len(counts) > 0 {
		// All were done within the millisecond that redis-benchmark counts in: at least so many.
		report.CallsPerSecond = 1000 * counts[len(counts)-1].count
	}
	if report.CallsPerSecond == 0 || report.Latency.P50 == 0 || report.Latency.P999 == 0 {
		return Report{}, errors.New("no summary in its output")
	}
	return report, nil
}

type percentile struct {
	us    float64
	count float64 // of the calls that took no longer
}

func newPercentile(ms, count string) percentile {
	n, _ := strconv.ParseFloat(count, 64) // a number by the expression
	return percentile{microseconds(ms), n}
}

func reaches(counts []percentile, fraction float64) float64 {
	if len(counts) == 0 {
		return 0
	}
	total := counts[len(counts)-1].count
	for _, c := range counts {
		if c.count >= fraction*total {
			return c.us
		}
	}
	return counts[len(counts)-1].us
}

func microseconds(ms string) float64 {
	n, _ := strconv.ParseFloat(ms, 64) // what is no number is caught as a missing summary
	return n * 1000
}

func lastLine(out []byte) string {
	lines := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}
