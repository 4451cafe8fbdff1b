package rendition_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/rendition"
)

// counted returns a request that counts how often it is asked whether it may begin a job, and what it answers.
func counted(request rendition.Request, asked *atomic.Int64, err error) rendition.Request {
	request.Admit = func() error { asked.Add(1); return err }
	return request
}

func TestGet_AsksForAdmissionOnceForEachJob(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	first, second := all[0], all[1]
	one := first.tenant(t, 100_000)
	item := first.sealed(t, one.Principal, 500)
	var asked atomic.Int64
	busy := fault.New(fault.Busy, "too many")
	rejected := counted(of("a", 100), &asked, busy)
	if _, err := first.service.Get(t.Context(), item, one.owner, rejected); !errors.Is(err, busy) || !fault.Is(err, fault.Busy) || asked.Load() != 1 {
		t.Fatalf("%v, asked %d times", err, asked.Load())
	}
	first.Counts(t, 0, "rows of a request that was rejected", `SELECT count(*) FROM rendition`)
	jobs(t, 0, all...)
	first.get(t, one, item, counted(of("a", 100), &asked, nil))
	if asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	// From the cache, and by another process from the database.
	for _, w := range all {
		if _, err := w.service.Get(t.Context(), item, one.owner, rejected); err != nil {
			t.Error(err)
		}
	}
	jobs(t, 1, all...)

	// Those that wait for a job, of this process or of another one, begin none.
	asked.Store(0)
	gate := make(chan struct{})
	first.renderer.gate, first.renderer.started = gate, make(chan struct{}, 1)
	done := make(chan error, 3)
	ask := func(w *world, request rendition.Request) {
		_, err := w.service.Get(t.Context(), item, one.owner, request)
		done <- err
	}
	go ask(first, counted(of("b", 200), &asked, nil))
	<-first.renderer.started
	go ask(first, counted(of("b", 200), &asked, busy))
	go ask(second, counted(of("b", 200), &asked, busy))
	wait.Until(t, "all wait", func() bool { return first.service.Waiting()+second.service.Waiting() == 3 })
	close(gate)
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	jobs(t, 2, all...)
}

// A client that is over its limit must not make the requests of others fail that wait for the job it may not begin.
func TestGet_ARejectionIsThatOfItsRequestAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	busy := fault.New(fault.Busy, "too many")
	asking, answer := make(chan struct{}), make(chan struct{})
	var asked atomic.Int64
	over := of("a", 100)
	over.Admit = func() error { close(asking); <-answer; return busy }
	first, others := make(chan error, 1), make(chan error, 10)
	go func() {
		_, err := w.service.Get(t.Context(), item, one.owner, over)
		first <- err
	}()
	<-asking
	for range cap(others) {
		go func() {
			result, err := w.service.Get(t.Context(), item, one.owner, counted(of("a", 100), &asked, nil))
			if err == nil {
				w.check(t, one, of("a", 100), result)
			}
			others <- err
		}()
	}
	wait.Until(t, "the others wait", func() bool { return w.service.Waiting() == 1+cap(others) })
	close(answer)
	if err := <-first; !errors.Is(err, busy) {
		t.Errorf("over its limit: %v", err)
	}
	for range cap(others) {
		if err := <-others; err != nil {
			t.Errorf("another request: %v", err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	jobs(t, 1, w)
	w.balanced(t, one)
}

// Each of many requests that are over their limit woke all others, which waited for the next one of them.
func TestGet_ManyRejectionsEndAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	busy := fault.New(fault.Busy, "too many")
	asking, answer := make(chan struct{}), make(chan struct{})
	var asked atomic.Int64
	over := of("a", 100)
	over.Admit = func() error { close(asking); <-answer; return busy }
	const others = 50
	done := make(chan error, 1+others)
	ask := func(request rendition.Request) {
		_, err := w.service.Get(t.Context(), item, one.owner, request)
		done <- err
	}
	go ask(over)
	<-asking
	for range others {
		go ask(counted(of("a", 100), &asked, busy))
	}
	wait.Until(t, "all wait", func() bool { return w.service.Waiting() == 1+others })
	close(answer)
	for range 1 + others {
		if err := <-done; !errors.Is(err, busy) {
			t.Errorf("over its limit: %v", err)
		}
	}
	if n := asked.Load(); n != others {
		t.Errorf("%d requests were asked %d times", others, n)
	}
	jobs(t, 0, w)
}
