package check_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"mediastack.dev/hack/testenv/check"
)

// recorder is a test that does not end: it notes what would have ended it.
type recorder struct {
	testing.TB
	ended []any
}

func (*recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.ended = append(r.ended, args...) }

func TestNoError_EndsTheTestWithTheError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tried := &recorder{TB: t}
	check.NoError(tried, nil)
	check.NoError(tried, check.ErrorOf(1, error(nil)))
	if len(tried.ended) != 0 {
		t.Errorf("it ended without an error: %v", tried.ended)
	}
	check.NoError(tried, check.ErrorOf(1, broken))
	if !slices.Equal(tried.ended, []any{broken}) {
		t.Errorf("it ended with %v, want %v", tried.ended, broken)
	}
}

func TestBuffer_KeepsWhatSeveralWrite(t *testing.T) {
	t.Parallel()
	var buffer check.Buffer
	var writers sync.WaitGroup
	for range 50 {
		writers.Go(func() { _, _ = buffer.Write([]byte("ab")); _ = buffer.String() })
	}
	writers.Wait()
	if n := len(buffer.String()); n != 100 {
		t.Errorf("it has %d bytes, want 100", n)
	}
}
