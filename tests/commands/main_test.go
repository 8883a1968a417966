// Package commands_test tries what each command answers and stores on a real server. What a person can read as examples
// is in spec/.
package commands_test

import (
	"testing"

	"redis-throttle/tests/kit"
)

func TestMain(m *testing.M) { kit.Run(m) }
