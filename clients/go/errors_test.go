package mediastack

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter_ReadsSecondsAndDates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "soon": 0,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q is %s, want %s", value, got, want)
		}
	}
}

func TestDelay_IsBoundedByAttemptsAndMaxDelay(t *testing.T) {
	t.Parallel()
	transport := &transport{retry: Retry{MaxDelay: 2 * time.Second}}
	busy := func(after time.Duration) error { return &Error{Status: http.StatusTooManyRequests, RetryAfter: after} }
	for _, one := range []struct {
		err      error
		attempt  int
		again    bool
		from, to time.Duration
	}{
		{busy(0), 1, true, 125 * time.Millisecond, 250 * time.Millisecond},
		{busy(0), 8, true, time.Second, 2 * time.Second},
		{busy(2 * time.Second), 1, true, 2 * time.Second, 2 * time.Second},
		{busy(3 * time.Second), 1, false, 0, time.Hour},
		{busy(0), 10, false, 0, time.Hour},
		{&Error{Status: http.StatusInternalServerError}, 1, false, 0, time.Hour},
		{&credentialError{http.ErrNoCookie}, 1, false, 0, time.Hour},
		{http.ErrHandlerTimeout, 1, true, 125 * time.Millisecond, 250 * time.Millisecond},
	} {
		delay, again := transport.delay(one.err, one.attempt, 10)
		if again != one.again || delay < one.from || delay > one.to {
			t.Errorf("attempt %d after %v: %s, %v", one.attempt, one.err, delay, again)
		}
	}
}
