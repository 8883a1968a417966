package service

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
	poolConnections = ofPool("connections", "Connections to Redis, by whether a call has one.", "state")
	poolWaiting     = ofPool("waiting", "Calls that wait for a connection.")
	poolWaits       = ofPool("waits_total", "Calls that have waited for a connection.")
	poolWaited      = ofPool("wait_seconds_total", "How long calls have waited for a connection, all together.")
	poolTimeouts    = ofPool("timeouts_total", "Calls that got no connection in time.")
	poolMisses      = ofPool("misses_total", "Calls that found no free connection, so that another one was opened.")
	poolStale       = ofPool("stale_total", "Connections that were closed because they had ended, or were idle or old.")
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
	gauge(poolConnections, s.IdleConns, "idle")
	gauge(poolConnections, s.TotalConns-min(s.IdleConns, s.TotalConns), "used")
	gauge(poolWaiting, s.PendingRequests)
	counter(poolWaits, float64(s.WaitCount))
	counter(poolWaited, time.Duration(s.WaitDurationNs).Seconds())
	counter(poolTimeouts, float64(s.Timeouts))
	counter(poolMisses, float64(s.Misses))
	counter(poolStale, float64(s.StaleConns))
}
