package operator

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
)

// pingTimeout is shorter than the timeout of a readiness probe.
const pingTimeout = 500 * time.Millisecond

// objectCheck is a readiness check: a rollout with a wrong S3 key or region must not replace replicas that have
// the right one. A store that is away, and one that rejects the key later, leave the operator ready,
// because a restart repairs neither.
type objectCheck struct {
	// verified returns an error while the operator must not use the stores.
	verified func(*http.Request) error
	ping     func(context.Context) error
	accepted atomic.Bool // the store has accepted the key since the start
}

// Ready returns an error while the store has rejected every request ever since the start.
func (c *objectCheck) Ready(request *http.Request) error {
	if c.accepted.Load() || c.verified(request) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), pingTimeout)
	defer cancel()
	err := c.ping(ctx)
	if err == nil {
		c.accepted.Store(true)
	}
	if rejection := objectstore.Rejection(err); rejection != "" {
		return fmt.Errorf("the object store %s (%s): %w", rejection, fault.From(err).Detail, err)
	}
	return nil
}
