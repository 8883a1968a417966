package shared

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"redis-throttle/ratelimit/internal/lag"
)

// Overload is the error of a call for which this process was too busy. It says nothing about the server.
type Overload struct {
	why string
	err error // what it looked like
}

func (o *Overload) Error() string {
	if o.err == nil {
		return o.why
	}
	return o.why + ": " + o.err.Error()
}

// Unwrap returns what it looked like, such as a deadline that has passed.
func (o *Overload) Unwrap() error { return o.err }

func busy(late time.Duration, err error) *Overload {
	if late < time.Millisecond {
		return &Overload{"calls beside this one had no reply in time, which tells nothing of the server", err}
	}
	return &Overload{fmt.Sprintf("this process was too busy to see a reply in time, late by %v", late.Round(time.Millisecond)), err}
}

// Full is the error of a call for which there is no room beside so many others.
func Full(waiting int) *Overload {
	return &Overload{why: fmt.Sprintf("%d calls wait for the server", waiting)}
}

// Begins returns the error of a call whose context has ended before it began. A deadline that has passed by then says
// nothing about the server.
func Begins(ctx context.Context) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return &Overload{"the time of the call was over before it was sent", err}
	}
	return err
}

// Others is the error of a call whose time was over, while others have had their replies.
func Others(err error) *Overload { return &Overload{"others have had their replies meanwhile", err} }

// Watched is one call, and how late this process is meanwhile.
type Watched struct {
	server *lag.Server
	watch  *lag.Watch
	began  time.Time
	took   time.Duration // until its End
}

// Watch begins a call to a server. End has to be called.
func Watch(server *lag.Server) Watched {
	now := time.Now()
	return Watched{server: server, watch: server.Begin(now), began: now}
}

// Late is how late this process has been so far.
func (w *Watched) Late() time.Duration { return w.watch.Late() }

// Answered says whether another call has been answered meanwhile.
func (w *Watched) Answered() bool { return w.server.AnsweredSince(w.began) }

// Took is how long the call took, until its End.
func (w *Watched) Took() time.Duration { return w.took }

// End ends the call. It returns err, or an Overload if that says that the time of the call was over, and this process
// is to blame.
func (w *Watched) End(err error) error {
	now := time.Now()
	late := w.watch.EndAt(now)
	w.took = now.Sub(w.began)
	if !TimedOut(err) || errors.As(err, new(*Overload)) || !w.server.IsBusy(w.began, late, w.took) {
		return err
	}
	return busy(late, err)
}

// TimedOut says whether err is that of a call whose time was over: by its context, or by a timeout of the client.
func TimedOut(err error) bool {
	if err == nil { // which allocates nothing
		return false
	}
	var network net.Error // deadlines of contexts are such, too
	return errors.As(err, &network) && network.Timeout()
}
