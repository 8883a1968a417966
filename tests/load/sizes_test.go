package load_test

import "os"

// of is what a test needs: small beside other tests, and large where make test-load runs it alone.
func of[T any](small, large T) T {
	if os.Getenv("THROTTLE_LOAD") != "" {
		return large
	}
	return small
}
