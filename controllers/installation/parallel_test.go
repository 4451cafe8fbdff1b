package installation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestInParallel_WritesProgressEachSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var running, most atomic.Int64
		err := inParallel(t.Context(), json.NewEncoder(&out), "close", make([]int, 40), func(context.Context, int) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(900 * time.Millisecond) //nolint:forbidigo // the clock of synctest
			return nil
		})
		want := `{"step":"close","done":16,"of":40}` + "\n" + `{"step":"close","done":32,"of":40}` + "\n"
		if err != nil || out.String() != want || most.Load() != workers {
			t.Errorf("%v, %d at a time:\n%s", err, most.Load(), out.String())
		}
	})
}

func TestInParallel_EndsAtTheFirstError(t *testing.T) {
	t.Parallel()
	failure := errors.New("no access")
	var calls atomic.Int64
	err := inParallel(t.Context(), json.NewEncoder(&bytes.Buffer{}), "close", make([]int, 1000), func(ctx context.Context, _ int) error {
		if calls.Add(1) == 1 {
			return failure
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, failure) || calls.Load() > workers {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}
