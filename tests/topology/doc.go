// Package topology makes several servers into one: a master with replicas, Sentinels
// that watch them, a cluster. The servers are package server's, so each is stopped
// when its test ends.
package topology
