package mcp

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
)

// The outcomes of a call, as the metric labels them.
const (
	outcomeOK       = "ok"
	outcomeRejected = "rejected" // the arguments, the credential, the tool policy, a limit
	outcomeError    = "error"    // the service, or one of its stores
	outcomeCanceled = "canceled" // the client disconnected
)

// unknownTool labels calls of unknown tools, whose names are the clients'.
const unknownTool = "unknown"

func newCalls(tools []tool) *prometheus.CounterVec {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_mcp_tool_calls_total", Help: "Calls of tools by name and outcome: `ok`, `rejected`, `error` (of the service), `canceled` (by the client).",
	}, []string{"tool", "outcome"})
	for _, t := range append([]tool{{operation: unknownTool}}, tools...) {
		for _, outcome := range []string{outcomeOK, outcomeRejected, outcomeError, outcomeCanceled} {
			if t.name() != unknownTool || outcome == outcomeRejected {
				calls.WithLabelValues(t.name(), outcome) // present from the start, for rates
			}
		}
	}
	return calls
}

func newDurations(tools []tool) *prometheus.HistogramVec {
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mediastack_mcp_tool_duration_seconds", Help: "Duration of a tool call that was authorized, whatever its outcome.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	}, []string{"tool"})
	for _, t := range tools {
		durations.WithLabelValues(t.name())
	}
	return durations
}

// Register registers the metrics.
func (a *API) Register(registry prometheus.Registerer) error {
	return errors.Join(registry.Register(a.calls), registry.Register(a.durations))
}

// count counts a call that ended with err.
func (a *API) count(ctx context.Context, tool string, err error) {
	a.calls.WithLabelValues(tool, outcome(ctx, err)).Inc()
}

func outcome(ctx context.Context, err error) string {
	if err == nil {
		return outcomeOK
	}
	switch kind := fault.From(err).Kind; {
	case kind != fault.Internal && kind != fault.Unavailable:
		return outcomeRejected
	case errors.Is(ctx.Err(), context.Canceled):
		return outcomeCanceled
	}
	return outcomeError
}
