// Sbom says what a release is made of, from what the Go linker wrote into a binary:
//
//	sbom spdx FILE NAME          an SPDX 2.3 document (JSON) of the binary that users know by this name
//	sbom licenses NAME FILE...   the license texts of all that is linked
//
// It runs in the folder of the binary's Go module, where go list finds the sources of what was linked.
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
	case len(args) == 3 && args[0] == "spdx":
		return writeSPDX(os.Stdout, args[1], args[2])
	case len(args) >= 3 && args[0] == "licenses":
		return writeLicenses(os.Stdout, args[1], args[2:])
	}
	return errors.New("usage: sbom spdx FILE NAME, or sbom licenses NAME FILE [FILE ...]")
}
