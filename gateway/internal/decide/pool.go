package decide

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Pool collects the numbers of the connections to Redis, those to all nodes of a cluster together.
type Pool struct{ Client redis.UniversalClient }

// ofPool describes the number called name.
func ofPool(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("throttle_gateway_redis_pool_"+name, help, labels, nil)
}

var (
	connections = ofPool("connections", "Connections to Redis, by whether a call has one.", "state")
	waiting     = ofPool("waiting", "Calls that wait for a connection.")
	waits       = ofPool("waits_total", "Calls that have waited for a connection.")
	waited      = ofPool("wait_seconds_total", "How long calls have waited for a connection, all together.")
	timeouts    = ofPool("timeouts_total", "Calls that got no connection in time.")
	opened      = ofPool("misses_total", "Calls that found no free connection, so that another one was opened.")
	stale       = ofPool("stale_total", "Connections that were closed because they had ended, or were idle or old.")
)

// Describe implements prometheus.Collector.
func (p Pool) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(p, to) }

// Collect implements prometheus.Collector.
func (p Pool) Collect(to chan<- prometheus.Metric) {
	s := p.Client.PoolStats()
	gauge := func(of *prometheus.Desc, n uint32, labels ...string) {
		to <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, float64(n), labels...)
	}
	counter := func(of *prometheus.Desc, n float64) {
		to <- prometheus.MustNewConstMetric(of, prometheus.CounterValue, n)
	}
	gauge(connections, s.IdleConns, "idle")
	gauge(connections, s.TotalConns-min(s.IdleConns, s.TotalConns), "used")
	gauge(waiting, s.PendingRequests)
	counter(waits, float64(s.WaitCount))
	counter(waited, time.Duration(s.WaitDurationNs).Seconds())
	counter(timeouts, float64(s.Timeouts))
	counter(opened, float64(s.Misses))
	counter(stale, float64(s.StaleConns))
}
