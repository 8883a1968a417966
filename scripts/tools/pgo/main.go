// Pgo makes the profile that guides the compiler fit to be kept: pgo IN OUT. It takes out what
// is the machine's that took it: the paths of programs and libraries, and when it was.
package main

import (
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pgo:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	from, err := os.Open(in)
	if err != nil {
		return err
	}
	defer from.Close()
	p, err := profile.Parse(from)
	if err != nil {
		return err
	}
	for _, m := range p.Mapping {
		m.File, m.BuildID = "", ""
	}
	p.TimeNanos, p.Comments = 0, nil
	to, err := os.Create(out)
	if err != nil {
		return err
	}
	defer to.Close()
	return p.Compact().Write(to)
}
