package auth

import (
	"context"

	"mediastack.dev/runtime/oauth"
)

// A reload is a look-up of a credential as the store has it now. It serves the requests that asked
// for it before it began: the one of a request that asks later may not, since a change may have been
// committed in between. So while a look-up is under way, all requests with the same credential share
// the next one, and a client with many uploads at once costs few look-ups.
type reload struct {
	done    chan struct{} // closed when the result is there
	session oauth.Session
	err     error
}

// reloadQueue is the reloads of one credential: one is under way, and next will follow it.
type reloadQueue struct {
	next *reload // nil if no request waits
}

// reload returns the session as the store has it now, and caches it.
func (c *sessionCache) reload(ctx context.Context, key cacheKey) (oauth.Session, error) {
	c.mu.Lock()
	queue, busy := c.reloads[key]
	if !busy {
		queue = &reloadQueue{}
		c.reloads[key] = queue
	}
	if queue.next == nil {
		queue.next = &reload{done: make(chan struct{})}
	}
	mine := queue.next
	c.mu.Unlock()
	if busy {
		<-mine.done
		return mine.session, mine.err
	}
	if c.runReload(ctx, key, queue) {
		go func() {
			for c.runReload(context.WithoutCancel(ctx), key, queue) { // until no request waits
			}
		}()
	}
	return mine.session, mine.err
}

// runReload does the next reload. It reports whether requests wait for another one.
func (c *sessionCache) runReload(ctx context.Context, key cacheKey, queue *reloadQueue) (more bool) {
	c.mu.Lock()
	r, epoch := queue.next, c.epoch
	queue.next = nil
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	r.session, r.err = c.load(ctx, key, epoch)
	close(r.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	if queue.next == nil {
		delete(c.reloads, key)
		return false
	}
	return true
}
