package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"redis-throttle/bench/throttle-bench/internal/result"
	"redis-throttle/bench/throttle-bench/internal/server"
)

// environment describes where figures come from, and names no machine and no path.
func environment(ctx context.Context, o options, s *server.Server) (result.Environment, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return result.Environment{}, err
	}
	return result.Environment{
		Server: info.Version(),
		Module: moduleVersion(s.Log()),
		Load:   loadVersion(o.benchmark),
		CPU:    cpuModel(),
		Cores:  runtime.NumCPU(),
		Kernel: kernel(),
		Go:     runtime.Version(),
	}, nil
}

// readyLine is what the module logs when it is loaded.
var readyLine = regexp.MustCompile(`<throttle> (throttle .*\)) ready`)

func moduleVersion(log string) string {
	if m := readyLine.FindStringSubmatch(log); m != nil {
		return m[1]
	}
	return "unknown"
}

func loadVersion(program string) string {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // none is an unknown model
	for line := range bytes.Lines(text) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
			return string(bytes.TrimSpace(value))
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}
