package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Comparison compares the statuses of all objects of a kind with the database, again and again.
type Comparison struct {
	// What is what is compared, for the log.
	What string
	// Interval is between two comparisons, and Rate how many reconciles are requested in a second at most.
	Interval time.Duration
	Rate     int
	// Outdated returns the objects whose status must show something else.
	Outdated func(ctx context.Context) ([]types.NamespacedName, error)
}

// Compare requests a reconcile of each outdated object, until ctx ends. Nothing is timed for one object. It does nothing while the operator may
// not write, or PostgreSQL is out.
func (d Deps) Compare(ctx context.Context, c Comparison) error {
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !d.Gate.IsOpen() || d.Outages.Standing(Database) != nil {
			continue
		}
		outdated, err := c.Outdated(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "compare "+c.What)
			continue
		}
		d.requestPaced(ctx, outdated, c.Rate)
	}
}

// requestPaced requests reconciles, rate of them in a second.
func (d Deps) requestPaced(ctx context.Context, keys []types.NamespacedName, rate int) {
	pause := time.NewTicker(time.Second)
	defer pause.Stop()
	for i, key := range keys {
		if i > 0 && i%max(1, rate) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
		}
		d.Queue.Add(PriorityRepeat, ctrl.Request{NamespacedName: key})
	}
}
