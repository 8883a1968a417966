//go:build faultinject

package command

import "bytes"

// injectFault panics for keys that begin with fault:panic. It is how the tests
// show that a fault in a decision cannot take the server down, and exists in the
// test build only.
func injectFault(key []byte) {
	if bytes.HasPrefix(key, []byte("fault:panic")) {
		panic("injected fault")
	}
}
