//go:build !faultinject

package command

func injectFault([]byte, Turn) {}

func (*Call) injectFault() {}
