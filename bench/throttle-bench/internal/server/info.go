package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Info is the server's INFO at one moment, all sections.
type Info map[string]string

// Info asks the server.
func (s *Server) Info(ctx context.Context) (Info, error) {
	text, err := s.Client.Info(ctx, "all").Result()
	if err != nil {
		return nil, err
	}
	return parseInfo(text), nil
}

func parseInfo(text string) Info {
	info := Info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// Text is one field, "" where the server has none of that name.
func (i Info) Text(name string) string { return i[name] }

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

// CommandStats is what the server counted for one command since the last
// CONFIG RESETSTAT.
type CommandStats struct {
	Calls  int
	Failed int // answered an error, or rejected before they ran
	Usec   float64
}

// CommandStats returns the line of one command, in any case of letters.
func (i Info) CommandStats(command string) (CommandStats, error) {
	var s CommandStats
	line, ok := i["cmdstat_"+strings.ToLower(command)]
	if !ok {
		return s, nil // never called
	}
	for field := range strings.SplitSeq(line, ",") {
		name, text, _ := strings.Cut(field, "=")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return s, fmt.Errorf("INFO commandstats has %q for %s", line, command)
		}
		switch name {
		case "calls":
			s.Calls = int(value)
		case "usec":
			s.Usec = value
		case "rejected_calls", "failed_calls":
			s.Failed += int(value)
		}
	}
	return s, nil
}
