// Package load holds tests of programs at work: whose handlers compute, and that have more callers than they can serve
// at once. At most the limit passes, and a program that is busy takes no server for dead. make test-load runs them at
// full size.
package load
