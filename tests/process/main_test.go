// Package process_test tries what the module is to the process of the server: how it is loaded and unloaded, threads,
// memory, crashes and faults.
package process_test

import (
	"testing"

	"redis-throttle/tests/kit"
)

func TestMain(m *testing.M) { kit.Run(m) }
