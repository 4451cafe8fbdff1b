package media

import (
	"context"
	"fmt"
	"time"

	"mediastack.dev/runtime/work"
)

// CapturePass reads the files of items of before there were captures, and of those whose task has failed: one after the other, with pauses.
// It is the worker of CapturesWork, which one process has at a time. A process continues where another one was stopped, because each item is
// recorded when it was read.
type CapturePass struct {
	*Captures
	rate int // files in a minute
	last CaptureItem
}

// Pass returns the worker of CapturesWork, which reads as many files in a minute as the backfill of facts.
func (c *Captures) Pass(cfg FactsConfig) *CapturePass {
	return &CapturePass{Captures: c, rate: cfg.FactsRate}
}

// Policy returns how the task runs. It is not there if the rate is 0, or without image workers.
func (p *CapturePass) Policy() work.Policy {
	policy := work.Policy{Slots: 1, Timeout: factsTimeout, MinBackoff: time.Minute, MaxBackoff: factsInterval, Ready: p.deps.Writable}
	if p.rate > 0 && p.deps.Reader.ReadsCaptures() {
		policy.Enqueue = func(ctx context.Context) (int, error) { return p.deps.Store.EnqueueCaptures(ctx, factsInterval) }
	}
	return policy
}

// Work goes on with the pass over all items that were not read. The next pass begins later.
func (p *CapturePass) Work(ctx context.Context, _ work.Task) error {
	if p.rate == 0 || !p.deps.Reader.ReadsCaptures() {
		return work.Snooze(factsInterval)
	}
	for began, read := time.Now(), 0; ; {
		items, err := p.deps.Store.ItemsWithoutCapture(ctx, p.last, factsBatch)
		switch {
		case err != nil:
			return err
		case len(items) == 0:
			p.last = CaptureItem{}
			return work.Snooze(factsInterval)
		}
		for _, item := range items {
			if p.deps.Writable() != nil {
				return work.Snooze(0) // Policy.Ready says when it goes on
			}
			if p.last = item; item.Resting {
				continue
			}
			// The next pass tries again.
			if err := p.read(ctx, item); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				p.deps.Log.WarnContext(ctx, "a file was not read for how it was made", "item", item.ID, "account", item.AccountID, "error", err)
			}
			read++
			if err := p.deps.Wait(ctx, time.Minute/time.Duration(p.rate)); err != nil {
				return err
			}
			if time.Since(began) > factsTurn {
				p.deps.Log.InfoContext(ctx, "read how stored files were made", "files", read)
				return work.Snooze(0)
			}
		}
	}
}

// Locations removes the locations of accounts that keep them no longer. It is the worker of LocationsWork.
type Locations struct{ deps CaptureDeps }

// Locations returns the worker of LocationsWork.
func (c *Captures) Locations() *Locations { return &Locations{c.deps} }

// locationsBatch is how many items one statement changes.
const locationsBatch = 500

// locationsPause is the pause before rows that other statements change are tried again.
const locationsPause = time.Second

// Policy returns how the tasks run.
func (p *Locations) Policy() work.Policy {
	return work.Policy{Slots: 1, Timeout: captureTimeout, MinBackoff: time.Second, MaxBackoff: time.Minute, Ready: p.deps.Writable}
}

// Work removes the locations of an account. The database adds a second task, which is due a minute later: a statement that ran while the account
// changed may have stored a location.
func (p *Locations) Work(ctx context.Context, task work.Task) error {
	for began := time.Now(); time.Since(began) < factsTurn; {
		removed, more, err := p.deps.Store.RemoveLocations(ctx, task.AccountID, locationsBatch)
		switch {
		case err != nil:
			return fmt.Errorf("remove the locations of account %s: %w", task.AccountID, err)
		case !more:
			return nil
		case removed == 0:
			return work.Snooze(locationsPause)
		}
	}
	return work.Snooze(0)
}
