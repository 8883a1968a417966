// Package keys makes keys of different uses impossible to confuse.
package keys

import "strings"

// Plain is key without spaces. Middleware writes the pattern of a route and a space before a key, so what stands before
// the first space is never written by a client. Different keys stay different.
func Plain(key string) string {
	if !strings.ContainsAny(key, " %") {
		return key
	}
	return escaper.Replace(key)
}

var escaper = strings.NewReplacer(" ", "%20", "%", "%25")
