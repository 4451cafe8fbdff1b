package upload

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
)

// limits bounds what uploads hold of this process, fairly between accounts.
type limits struct {
	uploads *fairlimit.Limiter[uuid.UUID]
	// partMemory bounds uploads that hold more than inlineLimit.
	partMemory *fairlimit.Limiter[uuid.UUID]
	timeout    time.Duration // of a wait
}

// newLimits returns the limits of cfg, and registers their gauges unless registry is nil.
func newLimits(cfg Config, registry prometheus.Registerer) (limits, error) {
	perAccount := func(slots int) int { return max(1, slots*cfg.UploadPerAccountPercent/100) }
	parts := int(cfg.UploadMemory / bufferSize)
	// A few accounts could otherwise hold all slots with clients that send slowly, and an upload of another one
	// would wait for the end of one of theirs.
	shared := func(slots, waiting int) *fairlimit.Limiter[uuid.UUID] {
		most := perAccount(slots)
		return fairlimit.New[uuid.UUID](fairlimit.Config{Limit: slots, PerKey: most, MaxWaiting: waiting, Reserve: fairlimit.ReserveOf(slots, most)})
	}
	l := limits{
		uploads: shared(cfg.MaxUploads, cfg.UploadQueue),
		// An upload that waits for memory holds an upload slot, so that those bound the queue.
		partMemory: shared(parts, 2*cfg.MaxUploads),
		timeout:    cfg.UploadQueueTimeout,
	}
	if registry == nil {
		return l, nil
	}
	if err := l.uploads.RegisterWithQueue(registry, "mediastack_uploads", "Slots of uploads"); err != nil {
		return limits{}, err
	}
	return l, l.partMemory.RegisterWithQueue(registry, "mediastack_upload_part_buffers", "Part buffers of uploads over 1 MiB")
}

// slot is a slot of a limiter that an upload holds. Its owner releases it once; the zero
// slot is not held.
type slot struct {
	limiter   *fairlimit.Limiter[uuid.UUID]
	accountID uuid.UUID
}

// acquire takes a slot of limiter, which the caller owns. It returns a Busy fault when the
// queue is full, and when no slot was free before the timeout or the end of ctx.
func (l limits) acquire(ctx context.Context, limiter *fairlimit.Limiter[uuid.UUID], accountID uuid.UUID) (slot, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := limiter.Acquire(ctx, accountID); err != nil {
		return slot{}, &fault.Error{Kind: fault.Busy, Public: "too many uploads at once", RetryAfter: 2 * time.Second}
	}
	return slot{limiter: limiter, accountID: accountID}, nil
}

// held reports whether the slot has not been released.
func (s *slot) held() bool { return s.limiter != nil }

// contended reports whether others wait for the slot.
func (s *slot) contended() bool { return s.held() && s.limiter.HasWaiters(s.accountID) }

// release releases the slot. It does nothing if the slot is not held.
func (s *slot) release() {
	if s.held() {
		s.limiter.Release(s.accountID)
		*s = slot{}
	}
}
