package rendition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

const (
	// A job that waits for another process looks after minWait, and then after pauses that double up to maxWait.
	minWait = 25 * time.Millisecond
	maxWait = 500 * time.Millisecond
)

// job finds or makes one rendition, for all requests of this process that wait for it:
//
//	begun ----- a worker takes it -----> taken ---> ended ---> its data are free
//	  |                                    |                   when the last request has released them
//	  +- the last request leaves:          +- the last request leaves: it goes on, and stores the
//	     it is canceled, and a later          picture. To kill the worker would cost more, again at
//	     request begins another one           each attempt of a client that leaves
type job struct {
	*Service
	wanted // by the request that began it
	// ctx ends after the timeout, and when the job is canceled.
	ctx    context.Context
	cancel context.CancelFunc

	// Service.mu guards what follows. users are the requests that wait, and then those that have not released the result.
	users        int
	taken, ended bool

	// done is closed when what follows is set.
	done   chan struct{}
	result Result
	source string
	err    error
	// free frees the data slot of the result's data after its last user, and contended reports whether others wait for
	// it; both are nil if the data hold none.
	free      func()
	contended func() bool
}

// jobKey identifies a job that requests can join.
type jobKey struct {
	Ref
	again bool // as of Request
}

func (w wanted) jobKey() jobKey { return jobKey{w.Ref, w.again} }

// join returns the job of a rendition for one more request. If it has just begun, the caller runs it.
func (s *Service) join(ctx context.Context, w wanted) (j *job, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, found := s.jobs[w.jobKey()]
	if !found {
		j = &job{Service: s, wanted: w, done: make(chan struct{})}
		j.ctx, j.cancel = context.WithTimeout(context.WithoutCancel(ctx), s.maker.cfg.Timeout)
		s.jobs[w.jobKey()], s.running[j] = j, struct{}{}
	}
	j.users++
	return j, !found
}

// wait returns the result of the job to one of its requests.
func (j *job) wait(ctx context.Context) (Result, error) {
	select {
	case <-j.done:
	case <-ctx.Done():
		j.leave()
		return Result{}, fault.Wrap(ctx.Err(), fault.Unavailable, "the request ended before its picture was made")
	}
	if j.free == nil {
		return j.result, j.err
	}
	return j.result.WithRelease(j.leave).WithContended(j.contended), j.err
}

// leave ends the use of the job by one request, or of its result if there is one.
func (j *job) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.users--
	switch {
	case j.users > 0, j.taken && !j.ended:
	case !j.ended:
		j.cancel()
		j.close()
	case j.free != nil:
		j.free()
	}
}

// take records that a worker has the job.
func (j *job) take() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.taken = true
}

// close removes the job from those that requests can join. The caller holds Service.mu.
func (j *job) close() {
	if j.jobs[j.jobKey()] == j {
		delete(j.jobs, j.jobKey())
	}
}

// run finds or makes the rendition. While another process makes it, it waits.
func (j *job) run() {
	defer j.end()
	for pause := minWait; ; pause = min(2*pause, maxWait) {
		state := Absent
		if !j.again {
			var stored Stored
			stored, state, j.err = j.deps.Store.FindRendition(j.ctx, j.item.AccountID, j.Ref)
			if j.err != nil {
				return
			}
			if state == Ready {
				j.keep(j.Ref, stored)
				j.result, j.source = stored.Result, fromDatabase
				return
			}
		}
		if state == Absent {
			var made bool
			if made, j.err = j.attempt(); made || j.err != nil {
				j.source = fromJob
				return
			}
		}
		select {
		case <-time.After(pause):
		case <-j.ctx.Done():
			j.err = j.ctx.Err()
			return
		}
	}
}

// end ends the job, also after a panic: run defers it.
func (j *job) end() {
	if panicked := recover(); panicked != nil {
		j.err = fmt.Errorf("%w: %v\n%s", errPanic, panicked, debug.Stack())
	}
	if j.err != nil && j.ctx.Err() != nil && !fault.Is(j.err, fault.Busy) {
		j.err = fault.Wrap(j.err, fault.Unavailable, "the picture could not be made in time")
	}
	j.cancel()
	j.mu.Lock()
	j.close()
	delete(j.running, j)
	j.ended = true
	unused := j.users == 0
	j.mu.Unlock()
	close(j.done)
	if unused && j.free != nil {
		j.free()
	}
}

// attempt makes the rendition; false if another process does. While nothing may be written, it makes it without a claim, and
// does not store it.
func (j *job) attempt() (made bool, err error) {
	if err := j.impossible(); err != nil {
		return false, err
	}
	slot, err := j.maker.Renderer.ReserveRender(j.item.AccountID)
	if err != nil {
		return false, err
	}
	defer slot.Release()
	if err := j.Admit(); err != nil {
		return false, err
	}
	free, err := j.acquireDataSlot(j.ctx, j.item.AccountID)
	if err != nil {
		return false, err
	}
	defer func() {
		if made && !j.result.Stored() {
			j.holdData(free)
		} else {
			free()
		}
	}()
	if j.again || j.maker.held() {
		j.metrics.keepNot(notWritable)
		err := j.render(slot)
		return err == nil, err
	}
	claim, claimed, err := j.maker.claim(j.ctx, j.wanted, false)
	if !claimed {
		return false, err
	}
	defer func() {
		if !j.result.Stored() {
			j.maker.abandon(j.ctx, claim)
		}
	}()
	started := time.Now()
	if err := j.render(slot); err != nil {
		return false, err
	}
	j.store(claim)
	j.metrics.duration.Observe(time.Since(started).Seconds())
	return true, nil
}

// impossible returns why no image worker has to be asked.
func (j *job) impossible() error {
	renderer, format := j.maker.Renderer, j.Recipe.Format
	switch {
	case renderer == nil || !renderer.Handles(j.original.MimeType, j.original.Bytes):
		return j.remember(j.wanted, fault.New(fault.UnsupportedType, "no picture can be made of this file"))
	case !renderer.Encodes(format):
		return j.remember(j.wanted, fault.Wrap(media.ErrOtherFormat, fault.UnsupportedType, "pictures cannot be made as %s here", format))
	}
	return cmp.Or(j.itemFailure(Ref{ItemID: j.ItemID}), j.itemFailure(formatRef(j.ItemID, format)))
}

// holdData keeps the data of a picture that is not stored, in the memory for such or else in the data slot, until the last request has
// released them.
func (j *job) holdData(free func()) {
	if release, kept := j.unstored.put(j.Ref, j.item.AccountID, j.result); kept {
		j.free = release
		free() // the data are in that memory
		return
	}
	j.free = free
	j.contended = func() bool { return j.dataSlots.HasWaiters(j.item.AccountID) }
}

// render makes the picture.
func (j *job) render(slot media.ImageSlot) error {
	j.metrics.made.Inc()
	pictures, err := j.maker.render(j.ctx, j.image, media.RenderJob{Purpose: media.OnDemand, Slot: slot, Taken: j.take, Recipes: []media.Recipe{j.Recipe}})
	if err == nil {
		err = pictures[0].Err
	}
	if err != nil {
		return j.remember(j.wanted, err)
	}
	j.result = resultOf(pictures[0])
	return nil
}

// store stores the picture. What goes wrong fails no request: the picture is there.
func (j *job) store(claim Claim) {
	log := j.maker.Log.With("item", j.ItemID, "account", j.item.AccountID, "preset", j.Preset, "bytes", j.result.Object.Bytes)
	key, err := j.maker.store(j.ctx, j.image, claim, j.result)
	switch {
	case err == nil:
		j.result.Object.Key = key
		j.keep(j.Ref, Stored{Result: j.result, UsedAt: j.deps.Now()})
		if len(j.result.Data) > smallData {
			j.result.Data = nil
		}
		log.DebugContext(j.ctx, "a rendition was made", "type", j.result.Object.MimeType, "width", j.result.Width, "height", j.result.Height)
	case errors.Is(err, errNoRoom):
		j.metrics.keepNot(noRoom)
		log.DebugContext(j.ctx, "the storage cap has no room for a rendition")
	case errors.Is(err, ErrLost):
		j.metrics.keepNot(ended)
		log.DebugContext(j.ctx, "a rendition was ended while it was made")
	default:
		j.metrics.keepNot(storeFailed)
		log.WarnContext(j.ctx, "a rendition is not stored", "error", err)
	}
}

// finish waits until no job runs, for at most grace. It cancels those that still run then, so they give their claims back:
// another process would have to wait until the leases end.
func (s *Service) finish(grace time.Duration) {
	late := time.NewTimer(grace)
	defer late.Stop()
	for {
		j := s.anyRunning()
		if j == nil {
			return
		}
		select {
		case <-j.done:
		case <-late.C:
			s.mu.Lock()
			for j := range s.running {
				j.cancel()
			}
			s.mu.Unlock()
			<-j.done // soon: what ends a claim is bounded
		}
	}
}

// anyRunning returns a job that runs; nil if there is none.
func (s *Service) anyRunning() *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	for j := range s.running {
		return j
	}
	return nil
}
