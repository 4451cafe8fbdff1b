// Package purge works through what has ended in batches, with pauses, so the service can use the stores meanwhile.
package purge

import (
	"context"
	"time"
)

// Pause waits after a batch that took so long. It returns the error of ctx if that ends first.
type Pause func(ctx context.Context, worked time.Duration) error

// Batches bounds how a purge works through many rows. Its methods may be called concurrently.
type Batches struct {
	// Size bounds the rows of one transaction; it is at least 1.
	Size int
	// Writable returns an error while nothing may be removed. It is asked before each batch; nil = anything may.
	Writable func() error
	// Pause is made between two batches; nil = none.
	Pause Pause
}

// Each repeats step until it handles less than a full batch, and returns the sum of its counts, also with an error.
func (b Batches) Each(ctx context.Context, step func(ctx context.Context, size int) (handled int, err error)) (total int, err error) {
	for {
		if b.Writable != nil {
			if err := b.Writable(); err != nil {
				return total, err
			}
		}
		started := time.Now()
		handled, err := step(ctx, b.Size)
		total += handled
		if err != nil || handled < b.Size {
			return total, err
		}
		if b.Pause == nil {
			continue
		}
		if err := b.Pause(ctx, time.Since(started)); err != nil {
			return total, err
		}
	}
}

// AtRate returns the batches with pauses that keep to so many rows per second; 0 = without pauses.
func (b Batches) AtRate(perSecond int) Batches {
	b.Pause = nil
	if perSecond > 0 {
		interval := time.Duration(b.Size) * time.Second / time.Duration(perSecond)
		b.Pause = func(ctx context.Context, worked time.Duration) error { return wait(ctx, interval-worked) }
	}
	return b
}

// Percent returns a pause of so many percent of the time that a batch took, so it follows the load of the stores.
func Percent(percent int) Pause {
	return func(ctx context.Context, worked time.Duration) error {
		return wait(ctx, worked*time.Duration(percent)/100)
	}
}

// wait waits, or returns the error of ctx.
func wait(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
