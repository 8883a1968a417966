// Package operating_test tries what anyone who runs a server relies on: users, TLS, configuration, INFO, replicas,
// files, time zones, and other versions of the module and of servers.
package operating_test

import (
	"testing"

	"redis-throttle/tests/kit"
)

func TestMain(m *testing.M) { kit.Run(m) }
