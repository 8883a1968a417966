package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"redis-throttle/bench/throttle-bench/internal/result"
)

// curve is a scale along which SET and CL.THROTTLE are compared.
type curve struct {
	name    string
	axis    string
	log     bool
	metrics []result.Metric // in the table
	charted []result.Metric // in the chart
	points  []curvePoint
}

// curvePoint is one place on the scale.
type curvePoint struct {
	x          float64
	label      string
	keys       int // 0: as the options say
	kind       sliceKind
	contenders []Contender
	serverArgs []string
	replicas   int
}

var (
	pipelinedMetrics = []result.Metric{result.Exec, result.CPU, result.Rate}
	latencyMetrics   = []result.Metric{result.P50, result.P95, result.P99, result.Rate}
)

// lastingContenders are set up once, so that ten million keys can be. The bucket of the
// allowed calls needs half an hour to refill, and has room for sixteen hours' worth; to
// the denied ones, whose limit is one per hour, the same bucket has no room.
var lastingContenders = []Contender{
	{Name: baseline, Group: groupBaseline, Args: callSetLong, Lasting: true, Verify: is("OK"), Writes: writesAlways},
	{
		Name: "CL.THROTTLE allowed", Group: groupThrottle, Args: "CL.THROTTLE {key} 1000000 1000 60 1",
		Setup: []string{"CL.THROTTLE {key} 1000000 1000 60 30000"}, Lasting: true, Verify: isAllowed, Writes: writesAlways,
	},
	{
		Name: "CL.THROTTLE denied", Group: groupThrottle, Args: callDenied,
		KeysOf: "CL.THROTTLE allowed", Verify: isDenied, Writes: writesNever,
	},
}

// quantityContenders take n units a call: within a million a second, or from a bucket of
// a million that is empty and regains one an hour.
func quantityContenders(n int) []Contender {
	return []Contender{
		lastingContenders[0],
		{
			Name: "CL.THROTTLE allowed", Group: groupThrottle, Verify: isAllowed, Writes: writesAlways,
			Args: fmt.Sprintf("CL.THROTTLE {key} 1000000000 1000000 1 %d", n),
		},
		{
			Name: "CL.THROTTLE denied", Group: groupThrottle, Verify: isDenied, Writes: writesNever,
			Args:  fmt.Sprintf("CL.THROTTLE {key} 1000000 1 3600 %d", n),
			Setup: []string{"CL.THROTTLE {key} 1000000 1 3600 1000001"}, Lasting: true,
		},
	}
}

// allCurves is every curve, in the order they run.
func allCurves() []curve {
	keys := curve{name: "keys", axis: "keys", log: true, metrics: pipelinedMetrics, charted: pipelinedMetrics[:1]}
	for e := 3; e <= 7; e++ {
		n := int(math.Pow10(e))
		keys.points = append(keys.points, curvePoint{x: float64(n), label: strconv.Itoa(n), keys: n, kind: pipelinedCalls, contenders: lastingContenders})
	}
	clients := curve{name: "clients", axis: "clients", log: true, metrics: latencyMetrics, charted: []result.Metric{result.P50, result.P99}}
	for _, n := range []int{1, 3, 10, 30, 100, 300, 1000} {
		kind := unpipelined(n)
		kind.onlyKind = true
		clients.points = append(clients.points, curvePoint{x: float64(n), label: strconv.Itoa(n), kind: kind, contenders: lastingContenders})
	}
	quantity := curve{name: "quantity", axis: "quantity", log: true, metrics: pipelinedMetrics, charted: pipelinedMetrics[:1]}
	for e := 0; e <= 6; e++ {
		n := int(math.Pow10(e))
		quantity.points = append(quantity.points, curvePoint{x: float64(n), label: strconv.Itoa(n), kind: pipelinedCalls, contenders: quantityContenders(n)})
	}
	durability := curve{name: "durability", axis: "where writes go", metrics: pipelinedMetrics, charted: []result.Metric{result.Exec, result.CPU}}
	aof := []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	for i, p := range []curvePoint{
		{label: "memory"},
		{label: "AOF", serverArgs: aof},
		{label: "2 replicas", replicas: 2},
		{label: "both", serverArgs: aof, replicas: 2},
	} {
		p.x, p.kind, p.contenders = float64(i), pipelinedCalls, lastingContenders
		durability.points = append(durability.points, p)
	}
	return []curve{keys, clients, quantity, durability}
}

func curveNames() string {
	var names []string
	for _, c := range allCurves() {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// chooseCurves returns those that are named, or all.
func chooseCurves(names []string) ([]curve, error) {
	if len(names) == 0 {
		return allCurves(), nil
	}
	var chosen []curve
	for _, name := range names {
		found := false
		for _, c := range allCurves() {
			if c.name == name {
				chosen, found = append(chosen, c), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no curve %q, only %s", name, curveNames())
		}
	}
	return chosen, nil
}
