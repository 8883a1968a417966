// Command floor is the floor of a module in Go, built with -buildmode=c-shared: floor.c, with an empty crossing into Go
// in each call.
package main

// #cgo CFLAGS: -O2 -DFLOOR_IN_GO
import "C"

//export floorCross
func floorCross() {}

func main() {}
