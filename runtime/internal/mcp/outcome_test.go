package mcp

import (
	"context"
	"errors"
	"testing"

	"mediastack.dev/runtime/fault"
)

func TestOutcome_OfEveryFault(t *testing.T) {
	t.Parallel()
	left, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		err        error
		here, left string
	}{
		{nil, outcomeOK, outcomeOK},
		{fault.New(fault.Invalid, "x"), outcomeRejected, outcomeRejected},
		{fault.New(fault.Busy, "x"), outcomeRejected, outcomeRejected},
		{fault.New(fault.QuotaExceeded, "x"), outcomeRejected, outcomeRejected},
		{fault.New(fault.Unavailable, "x"), outcomeError, outcomeCanceled},
		{broken, outcomeError, outcomeCanceled},
	} {
		if here, gone := outcome(t.Context(), tt.err), outcome(left, tt.err); here != tt.here || gone != tt.left {
			t.Errorf("%v: %s, and %s when the client has left", tt.err, here, gone)
		}
	}
}
