// Package size says how far tests go. Each test has two sizes:
//
//	make test       small   go test -short   what a change needs while you work on it
//	make test-full  full    go test          what every change passes before it is merged
//
// make race and make mutate repeat tests in slow motion, and take the small size. make prove goes beyond the full size:
// PROVE in the environment asks for the proofs. Tests ask this package, and nothing else, which size they have.
package size

import (
	"os"
	"testing"
)

// Of returns what a test needs in each size.
func Of[T any](small, full T) T {
	noteAsked()
	if testing.Short() {
		return small
	}
	return full
}

// OfProof returns what a test needs in each size, and in a proof.
func OfProof[T any](small, full, proof T) T {
	if Proving() {
		return proof
	}
	return Of(small, full)
}

// Proving reports whether make prove runs: it goes as far as there is anything to find, and skips nothing.
func Proving() bool { return os.Getenv("PROVE") != "" }

// NeedsFull skips a test that cannot be made smaller, where tests are small.
func NeedsFull(t testing.TB) {
	t.Helper()
	noteAsked()
	if testing.Short() {
		t.Skip("at full size only: make test-full")
	}
}
