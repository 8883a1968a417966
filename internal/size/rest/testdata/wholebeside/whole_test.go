package wholebeside

import (
	"testing"

	"redis-throttle/internal/size"
)

func ask(to chan<- int) { to <- size.Of(1, 2) }

func TestBeside(*testing.T) {
	to := make(chan int)
	go ask(to)
	<-to
}

func TestAlsoBeside(*testing.T) {}
