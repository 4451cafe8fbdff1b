package rendition

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"mediastack.dev/runtime/fault"
)

// flight is a job for which requests of this process wait.
type flight struct {
	cancel context.CancelFunc
	// users are the requests that wait, and then those that have not released the result. A job without any ends, unless
	// a worker has it: to kill the worker would cost more than the picture, again at each attempt of a client that leaves.
	users  int
	taken  bool // a worker has the job: it goes on without users
	landed bool
	done   chan struct{}

	result Result
	source string
	err    error
	// free frees the data slot of the result's data after its last user; nil if they have none.
	free func()
	// contended reports whether others wait for the data slot; nil if there is none.
	contended func() bool
}

// flightKey identifies a flight.
type flightKey struct {
	Ref
	again bool // as of job
}

// join waits for the job of a rendition, which it starts with do unless it runs. The context of do ends after the
// timeout, and when nobody waits any more before a worker has taken the job. Before it returns, do sets free if the data of its result hold a data slot.
func (s *Service) join(ctx context.Context, key flightKey, do func(ctx context.Context, f *flight) (Result, string, error)) (Result, string, error) {
	s.mu.Lock()
	f, running := s.flights[key]
	if !running {
		working, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
		f = &flight{cancel: cancel, done: make(chan struct{})}
		s.flights[key] = f
		s.running[f] = struct{}{}
		go s.fly(working, key, f, do)
	}
	f.users++
	s.mu.Unlock()
	select {
	case <-f.done:
		if f.free == nil {
			return f.result, f.source, f.err
		}
		return f.result.WithRelease(func() { s.leave(key, f) }).WithContended(f.contended), f.source, f.err
	case <-ctx.Done():
		s.leave(key, f)
		return Result{}, "", fault.Wrap(ctx.Err(), fault.Unavailable, "the request ended before its picture was made")
	}
}

// fly runs a job.
func (s *Service) fly(ctx context.Context, key flightKey, f *flight, do func(ctx context.Context, f *flight) (Result, string, error)) {
	defer f.cancel()
	defer func() {
		if panicked := recover(); panicked != nil {
			f.err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
		s.mu.Lock()
		s.land(key, f)
		delete(s.running, f)
		f.landed = true
		unused := f.users == 0
		s.mu.Unlock()
		close(f.done)
		if unused && f.free != nil {
			f.free()
		}
	}()
	f.result, f.source, f.err = do(ctx, f)
	if f.err != nil && ctx.Err() != nil && !fault.Is(f.err, fault.Busy) {
		f.err = fault.Wrap(f.err, fault.Unavailable, "the picture could not be made in time")
	}
}

// leave ends the use of a job by one request: of its result if there is one. It ends a job for which nobody waits any more, and
// that no worker has taken.
func (s *Service) leave(key flightKey, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.users--
	switch {
	case f.users > 0, f.taken && !f.landed:
	case !f.landed:
		f.cancel()
		s.land(key, f) // a later request begins another one
	case f.free != nil:
		f.free()
	}
}

// take records that a worker has the job.
func (s *Service) take(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.taken = true
}

// land removes a job from those that requests can join. The caller holds s.mu.
func (s *Service) land(key flightKey, f *flight) {
	if s.flights[key] == f {
		delete(s.flights, key)
	}
}

// finish waits until no job runs, for at most grace. It ends those that still run then, so that they give their claims back: another process would
// have to wait until the leases end.
func (s *Service) finish(grace time.Duration) {
	late := time.NewTimer(grace)
	defer late.Stop()
	for {
		f := s.anyRunning()
		if f == nil {
			return
		}
		select {
		case <-f.done:
		case <-late.C:
			s.mu.Lock()
			for f := range s.running {
				f.cancel()
			}
			s.mu.Unlock()
			<-f.done // soon: what ends a claim is bounded
		}
	}
}

// anyRunning returns a job that runs; nil if there is none.
func (s *Service) anyRunning() *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.running {
		return f
	}
	return nil
}
