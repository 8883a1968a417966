package settings

import (
	"log/slog"
	"os"
	"slices"
	"strings"
)

// ignored are upstream's variables that mean nothing here, with the reason. A name that ends with * stands for all that
// begin so.
var ignored = map[string]string{
	"MEMCACHE_*":                "limits are kept in Redis",
	"REDIS_PERSECOND_*":         "one server decides all limits of a request",
	"STATSD_*":                  "metrics are Prometheus's",
	"USE_STATSD":                "metrics are Prometheus's",
	"USE_DOG_STATSD":            "metrics are Prometheus's",
	"USE_DOG_STATSD_MOGRIFIERS": "metrics are Prometheus's",
	"DISABLE_STATS":             "USE_PROMETHEUS=false serves no metrics",
	"STATS_FLUSH_INTERVAL":      "Prometheus reads the metrics when it likes",
	"PROMETHEUS_MAPPER_YAML":    "the names of the metrics are those of upstream's default mapping",
	"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS": "response times are in seconds, in ratelimit_service_response_time_seconds",
	"RUNTIME_IGNOREDOTFILES":                   "files whose name begins with a dot are always left out",
	"EXPIRATION_JITTER_MAX_SECONDS":            "keys expire when their limits are full",
	"LOCAL_CACHE_SIZE_IN_BYTES":                "DENIALS is how many denials are remembered",
	"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT":  "what is denied is not charged, unless compat: true",
	"REDIS_PIPELINE_WINDOW":                    "requests that are under way at the same time share pipelines by themselves",
	"REDIS_PIPELINE_LIMIT":                     "requests that are under way at the same time share pipelines by themselves",
	"REDIS_CLUSTER_PIPELINE_PARALLELISM":       "requests that are under way at the same time share pipelines by themselves",
	"REDIS_POOL_ON_EMPTY_BEHAVIOR":             "a call waits for a connection for REDIS_TIMEOUT",
	"REDIS_STARTUP_INITIAL_INTERVAL":           "an outage at the start is one like any other: redis_down decides, and Redis is tried each second",
	"REDIS_STARTUP_MAX_INTERVAL":               "an outage at the start is one like any other: redis_down decides, and Redis is tried each second",
	"REDIS_STARTUP_MAX_ELAPSED_TIME":           "an outage at the start is one like any other: redis_down decides, and Redis is tried each second",
}

// WarnOfIgnored says of each variable that upstream knows and that is set whether it means nothing here.
func WarnOfIgnored() {
	var names []string
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if value != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if why := reason(name); why != "" {
			slog.Warn("this variable of envoyproxy/ratelimit is ignored", "variable", name, "because", why)
		}
	}
}

// reason is why a variable is ignored; "" if it is not.
func reason(name string) string {
	if why, ok := ignored[name]; ok {
		return why
	}
	for pattern, why := range ignored {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) {
			return why
		}
	}
	return ""
}
