package mcp

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
)

// What became of a call, as the metric says it.
const (
	callOK      = "ok"
	callRefused = "rejected" // the arguments, the credential, the tool policy, a limit
	callFailed  = "error"    // the service, or one of its stores
	callLeft    = "canceled" // the client did not wait
)

// unknownTool stands for all names that no tool has: clients make them up.
const unknownTool = "unknown"

func newCalls(tools []tool) *prometheus.CounterVec {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_mcp_tool_calls_total", Help: "Calls of tools by name and outcome: ok, rejected, error (of the service), canceled (by the client).",
	}, []string{"tool", "outcome"})
	for _, t := range append([]tool{{name: unknownTool}}, tools...) {
		for _, outcome := range []string{callOK, callRefused, callFailed, callLeft} {
			if t.name != unknownTool || outcome == callRefused {
				calls.WithLabelValues(t.name, outcome) // there from the start, for rates
			}
		}
	}
	return calls
}

// Register shows how many calls there were, and how they ended.
func (a *API) Register(registry prometheus.Registerer) error { return registry.Register(a.calls) }

// count counts a call that ended with err.
func (a *API) count(ctx context.Context, tool string, err error) {
	a.calls.WithLabelValues(tool, outcome(ctx, err)).Inc()
}

func outcome(ctx context.Context, err error) string {
	if err == nil {
		return callOK
	}
	switch kind := fault.From(err).Kind; {
	case kind != fault.Internal && kind != fault.Unavailable:
		return callRefused
	case errors.Is(ctx.Err(), context.Canceled):
		return callLeft
	}
	return callFailed
}
