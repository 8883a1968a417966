// Sbom says what a release is made of, from what the Go linker wrote into the module file:
//
//	sbom spdx throttle.so          an SPDX 2.3 document (JSON)
//	sbom licenses throttle.so...   the license texts of all that is linked
//
// It runs in the bridge's folder, where go list finds the sources of what was linked.
// SOURCE_DATE_EPOCH (seconds) is the document's date, so that it is the same every time.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "spdx":
		return writeSPDX(os.Stdout, args[1])
	case len(args) >= 2 && args[0] == "licenses":
		return writeLicenses(os.Stdout, args[1:])
	}
	return errors.New("usage: sbom spdx FILE, or sbom licenses FILE [FILE ...]")
}
