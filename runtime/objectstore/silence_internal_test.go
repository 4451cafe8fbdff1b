package objectstore

import (
	"io"
	"strings"
	"testing"
	"time"
)

// A client that reads slowly is not a store that hangs.
func TestBoundedBody_TimeBetweenReadsDoesNotCount(t *testing.T) {
	t.Parallel()
	ctx, silent := boundSilence(t.Context(), time.Hour)
	silent.heard()
	body := &boundedBody{ReadCloser: io.NopCloser(strings.NewReader("abcdef")), ctx: ctx, silence: silent}
	for range 3 {
		if n, err := body.Read(make([]byte, 2)); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		if silent.timer.Stop() {
			t.Error("the time after a read counts")
		}
	}
	if err := body.Close(); err != nil || ctx.Err() == nil || isSilent(ctx) {
		t.Errorf("after Close: %v, the context is %v", err, ctx.Err())
	}
}
