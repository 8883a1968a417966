//go:build faultinject

package module

// #cgo CFLAGS: -DTHROTTLE_CHECK
import "C"
