package server

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Thread is what the kernel counts of one thread since it began.
type Thread struct {
	ID        int
	Name      string
	Voluntary int // went to sleep, and so was woken
	Preempted int
}

// Threads reads them from the kernel, the main thread first.
func (s *Server) Threads() ([]Thread, error) {
	folders, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", s.PID()))
	if err != nil {
		return nil, err
	}
	var threads []Thread
	for _, folder := range folders {
		status, err := readStatus(folder)
		if os.IsNotExist(err) {
			continue // ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		id, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			return nil, err
		}
		threads = append(threads, Thread{
			ID: id, Name: status["Name"],
			Voluntary: status.number("voluntary_ctxt_switches"),
			Preempted: status.number("nonvoluntary_ctxt_switches"),
		})
	}
	return threads, nil
}

// Memory is what the server's process holds in memory, in bytes.
type Memory struct{ RSS, Anon, File int }

// Memory reads it from the kernel.
func (s *Server) Memory() (Memory, error) {
	status, err := readStatus(fmt.Sprintf("/proc/%d", s.PID()))
	const kib = 1024 // the kernel's "kB"
	return Memory{status.number("VmRSS") * kib, status.number("RssAnon") * kib, status.number("RssFile") * kib}, err
}

// status is a status file of /proc.
type status map[string]string

func readStatus(folder string) (status, error) {
	f, err := os.Open(filepath.Join(folder, "status"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fields := status{}
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		if name, value, ok := strings.Cut(scanner.Text(), ":"); ok {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields, scanner.Err()
}

// number is a field's leading number, 0 where there is none.
func (s status) number(name string) int {
	digits, _, _ := strings.Cut(s[name], " ")
	n, _ := strconv.Atoi(digits)
	return n
}
