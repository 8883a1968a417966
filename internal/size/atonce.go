package size

import (
	"flag"
	"strconv"
)

// AtOnce lets n tests of a package run at once, unless -parallel says how many. It is for packages whose tests mostly
// wait, for servers or for time to pass: go test runs as many at once as there are processors. TestMain calls it.
func AtOnce(n int) {
	flag.Parse()
	isGiven := false
	flag.Visit(func(f *flag.Flag) { isGiven = isGiven || f.Name == "test.parallel" })
	if isGiven {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
