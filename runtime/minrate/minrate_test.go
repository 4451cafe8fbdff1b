package minrate_test

import (
	"testing"
	"time"

	"mediastack.dev/runtime/minrate"
)

func TestBudget_IsConsumedByWaitingAndRefilledByBytes(t *testing.T) {
	t.Parallel()
	b := minrate.New(1000, time.Minute)
	for range 3 { // one byte every 19 seconds
		b.Record(1, 19*time.Second)
	}
	if left := b.Remaining(); left < 3*time.Second || left > 4*time.Second {
		t.Errorf("after 57 seconds with three bytes %s remains", left)
	}
	if b.Record(1, 4*time.Second); b.Remaining() != 0 || !b.Exceeded() {
		t.Errorf("a peer that is too slow goes on: %s remains", b.Remaining())
	}
	if b.Record(10_000, 0); b.Remaining() != 10*time.Second || b.Exceeded() {
		t.Errorf("10,000 bytes refill %s", b.Remaining())
	}
	if b.Record(1<<30, 0); b.Remaining() != time.Minute {
		t.Errorf("after many bytes %s remains", b.Remaining())
	}
	for range 1000 { // twice the rate, in large and slow steps
		if b.Record(100_000, 50*time.Second); b.Exceeded() {
			t.Fatal("a peer that is fast enough exceeded the budget")
		}
	}
}

func TestBudget_StaysFullWithoutARate(t *testing.T) {
	t.Parallel()
	b := minrate.New(0, time.Minute)
	if b.Record(0, time.Hour); b.Remaining() != time.Minute || b.Exceeded() {
		t.Errorf("%s remains", b.Remaining())
	}
}

func TestBudget_IsFullAfterReset(t *testing.T) {
	t.Parallel()
	b := minrate.New(1000, 5*time.Second)
	b.Record(0, 4*time.Second)
	if b.Reset(); b.Remaining() != 5*time.Second {
		t.Errorf("%s remains", b.Remaining())
	}
}
