package installation

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// workers is how many requests a pass over objects or accounts has in flight.
const workers = 16

// progressInterval is the time between two lines of progress.
const progressInterval = time.Second

// progressLine is a line of a report during a long pass.
type progressLine struct {
	Step string `json:"step"`
	Done int64  `json:"done"`
	Of   int    `json:"of"`
}

// inParallel calls do for each element, by several workers, and writes a line of progress every second. The first error ends the pass.
func inParallel[T any](ctx context.Context, out *json.Encoder, step string, all []T, do func(context.Context, T) error) error {
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	finished := make(chan error, 1)
	go func() {
		for _, one := range all {
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				defer done.Add(1)
				return do(ctx, one)
			})
		}
		finished <- group.Wait()
	}()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-finished:
			return err
		case <-ticker.C:
			// A report that cannot be written does not stop what it reports.
			_ = out.Encode(progressLine{Step: step, Done: done.Load(), Of: len(all)})
		}
	}
}
