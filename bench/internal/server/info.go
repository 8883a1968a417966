package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"redis-throttle/bench/internal/must"
)

// Info is the server's INFO at one moment: the fields of all sections.
type Info map[string]string

// Fields asks the server for its INFO.
func (s *Server) Fields(ctx context.Context) Info {
	return ParseInfo(must.Get(s.Info(ctx, "all").Result()))
}

// ParseInfo reads what INFO answers.
func ParseInfo(text string) Info {
	info := Info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// Number is one field that is a number, 0 where the server has none of that name.
func (i Info) Number(name string) float64 {
	n, _ := strconv.ParseFloat(i[name], 64)
	return n
}

// CPUSeconds is the processor time the server has used, all its threads together.
func (i Info) CPUSeconds() float64 { return i.Number("used_cpu_user") + i.Number("used_cpu_sys") }

// Version is the server's name and version.
func (i Info) Version() string {
	if v, ok := i["valkey_version"]; ok {
		return "Valkey " + v
	}
	return "Redis " + i["redis_version"]
}

// CommandStats is what the server counted for one command since the last CONFIG RESETSTAT.
type CommandStats struct {
	Calls  int
	Usec   float64
	Failed int // rejected before they ran, or answered an error
}

// CommandStats returns the line of one command, in any case of letters.
func (i Info) CommandStats(command string) (s CommandStats, err error) {
	line, ok := i["cmdstat_"+strings.ToLower(command)]
	if !ok {
		return s, nil // never called
	}
	var perCall float64
	var rejected int
	_, err = fmt.Sscanf(line, "calls=%d,usec=%f,usec_per_call=%f,rejected_calls=%d,failed_calls=%d", &s.Calls, &s.Usec, &perCall, &rejected, &s.Failed)
	s.Failed += rejected
	return s, err
}
