package answer_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mediastack.dev/runtime/internal/answer"
)

// body is a body that a function reads.
type body struct {
	read   func(part []byte) (int, error)
	closed bool
}

func (b *body) Read(part []byte) (int, error) { return b.read(part) }
func (b *body) Close() error                  { b.closed = true; return nil }

// The times are those of a clock that the test has for itself.
func TestDiscard_WaitsNotLongForABody(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{"that never comes": 100 * time.Hour, "of one byte a minute": time.Minute, "of many bytes a second": time.Second / 200} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			b := &body{read: func([]byte) (int, error) {
				select {
				case <-time.After(pause): //nolint:forbidigo // the clock of synctest
					return 1, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}}
			began := time.Now()
			answer.Discard(b, cancel)
			if took := time.Since(began); took != answer.BodyTime || !b.closed {
				t.Errorf("a body %s: %s, closed: %t", name, took, b.closed)
			}
		})
	}
}

func TestDiscard_ReadsTheBeginningOfAnEndlessBody(t *testing.T) {
	t.Parallel()
	total := 0
	b := &body{read: func(part []byte) (int, error) {
		if total += len(part); total > 100*answer.MaxBody {
			return 0, errors.New("too much is read")
		}
		return len(part), nil
	}}
	answer.Discard(b, func() {})
	if total != answer.MaxBody || !b.closed {
		t.Errorf("%d bytes, closed: %t", total, b.closed)
	}
}

// A body that ends has its answer taken, and no request is cancelled meanwhile.
func TestDiscard_CancelsNoRequestThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &body{read: func([]byte) (int, error) { return 0, io.EOF }}
		answer.Discard(b, func() { t.Error("the request is cancelled") })
		time.Sleep(2 * answer.BodyTime) //nolint:forbidigo // the clock of synctest
	})
}

func TestRetryAfter_ReadsSecondsAndDates(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for text, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "1.5": 0, " 5": 0, "0": 0, "120": 2 * time.Minute, "86400": answer.MaxRetryAfter, "86401": answer.MaxRetryAfter, strings.Repeat("9", 30): answer.MaxRetryAfter,
		"Tue, 14 Nov 2023 22:14:20 GMT": time.Minute, "Tue, 14 Nov 2023 22:00:00 GMT": 0, "Tue, 14 Nov 2033 22:00:00 GMT": answer.MaxRetryAfter,
	} {
		if got := answer.RetryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
