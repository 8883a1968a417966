package size

import (
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// A test that does not ask for its size is the same in both, and a second run at full size can do without it. While
// tests are small, each one that asks is noted in the file that THROTTLE_ASKED names, as a line with its package and
// its name; internal/size/rest reads them. Where it is not certain which test asks, in TestMain for one, the line has
// no name and stands for all tests of the package.

var noted sync.Map // by line

func noteAsked() {
	if file := os.Getenv("THROTTLE_ASKED"); file != "" && testing.Short() {
		note(file, asking())
	}
}

func note(file, test string) {
	line := strings.TrimSpace(tested()+" "+test) + "\n"
	if _, again := noted.LoadOrStore(line, true); again {
		return
	}
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err) // a test that is not noted would be left out
	}
	defer out.Close()
	if _, err := out.WriteString(line); err != nil {
		panic(err)
	}
}

// tested is the package whose tests this program is.
var tested = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "?"
	}
	return strings.TrimSuffix(info.Path, ".test")
})

// The functions of a test are named after it: example.org/a/b_test.TestX.func1.
var ofTest = regexp.MustCompile(`^[^.]+\.((?:Test|Fuzz)[^.]*)(?:\.|$)`)

// asking is the name of the test that called, or nothing where that is not certain.
func asking() string {
	var callers [256]uintptr
	n := runtime.Callers(2, callers[:])
	if n == len(callers) {
		return ""
	}
	outermost := ""
	frames := runtime.CallersFrames(callers[:n])
	for {
		frame, more := frames.Next()
		switch in, _, _ := strings.Cut(frame.Function, "."); in {
		case "runtime", "testing", "reflect":
		case "sync":
			return "" // what is found once serves other tests, too
		default:
			outermost = frame.Function
		}
		if !more {
			break
		}
	}
	match := ofTest.FindStringSubmatch(outermost[strings.LastIndex(outermost, "/")+1:])
	if match == nil || match[1] == "TestMain" {
		return ""
	}
	return match[1]
}
