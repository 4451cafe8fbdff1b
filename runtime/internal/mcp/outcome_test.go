package mcp

import (
	"context"
	"errors"
	"testing"

	"mediastack.dev/runtime/fault"
)

func TestWhatAFaultCountsAs(t *testing.T) {
	t.Parallel()
	left, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		err        error
		here, left string
	}{
		{nil, callOK, callOK},
		{fault.New(fault.Invalid, "x"), callRefused, callRefused},
		{fault.New(fault.Busy, "x"), callRefused, callRefused},
		{fault.New(fault.QuotaExceeded, "x"), callRefused, callRefused},
		{fault.New(fault.Unavailable, "x"), callFailed, callLeft},
		{broken, callFailed, callLeft},
	} {
		if here, gone := outcome(t.Context(), tt.err), outcome(left, tt.err); here != tt.here || gone != tt.left {
			t.Errorf("%v: %s, and %s when the client has left", tt.err, here, gone)
		}
	}
}
