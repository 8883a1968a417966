package ratelimit

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// answering is how long before the deadline of a context the server has to answer: otherwise the end of a
// wait could be a read that timed out, which looks like an outage.
const answering = 100 * time.Millisecond

// withinDeadline is timeout, 0 being forever, or what ctx leaves of it.
func withinDeadline(ctx context.Context, timeout time.Duration) (time.Duration, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return timeout, nil
	}
	left := time.Until(deadline)
	if left <= 0 {
		return 0, context.DeadlineExceeded
	}
	left -= min(answering, left/4)
	if timeout == 0 || left < timeout {
		return left, nil
	}
	return timeout, nil
}

// patience is how much longer than the server's answer may take a read may take.
const patience = 10 * time.Second

// patient returns client with a read timeout longer than timeout, 0 being forever.
func patient(client Client, timeout time.Duration) (Client, error) {
	var readTimeout time.Duration
	switch c := client.(type) {
	case *redis.Client:
		if suffices(c.Options().ReadTimeout, timeout) {
			return c, nil
		}
		if timeout == 0 {
			return c.WithTimeout(0), nil
		}
		return c.WithTimeout(timeout + patience), nil
	case *redis.ClusterClient:
		readTimeout = c.Options().ReadTimeout
	case *redis.Ring:
		readTimeout = c.Options().ReadTimeout
	}
	if !suffices(readTimeout, timeout) {
		return nil, fmt.Errorf("the client's ReadTimeout of %v must be longer than the timeout, %v", readTimeout, timeout)
	}
	return client, nil
}

// suffices says whether a read timeout, which is none at 0 and below, outlasts timeout.
func suffices(readTimeout, timeout time.Duration) bool {
	return readTimeout <= 0 || (timeout > 0 && timeout < readTimeout)
}
