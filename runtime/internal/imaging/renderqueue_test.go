package imaging_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// holdRender is hold for a rendition.
func holdRender(account uuid.UUID, purpose media.Purpose, begin func()) (job media.RenderJob, h held) {
	h = hold(account, begin)
	job = renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))
	job.AccountID, job.Purpose, job.Source = account, purpose, h.Source
	return job, h
}

func (b *harness) beginRender(ctx context.Context, job media.RenderJob) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := b.Render(ctx, job)
		done <- err
	}()
	return done
}

// However many accounts ask for renditions, every other job is an upload's. What nobody waits for comes last.
func TestRender_PurposesTakeTurns(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	blocker := hold(uuid.New(), nil)
	first := pool.begin(t.Context(), blocker.ImageJob)
	<-blocker.started
	var order []string
	var renders []<-chan error
	var uploads []<-chan derived
	for i, name := range []string{"eager1", "demand1", "demand2", "demand3", "eager2", "upload1", "upload2", "upload3"} {
		begin := func() { order = append(order, name[:len(name)-1]) }
		switch {
		case strings.HasPrefix(name, "upload"):
			h := hold(uuid.New(), begin)
			h.release()
			uploads = append(uploads, pool.begin(t.Context(), h.ImageJob))
		default:
			purpose := media.OnDemand
			if strings.HasPrefix(name, "eager") {
				purpose = media.Eager
			}
			job, h := holdRender(uuid.New(), purpose, begin)
			h.release()
			renders = append(renders, pool.beginRender(t.Context(), job))
		}
		pool.waiting(i + 1)
	}
	blocker.release()
	for _, done := range append(uploads, first) {
		if d := <-done; d.err != nil {
			t.Error(d.err)
		}
	}
	for _, done := range renders {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(order) != 8 {
		t.Fatalf("%v", order)
	}
	for i, name := range order {
		switch {
		case (name == "eager") != (i >= 6):
			t.Errorf("job %d is %s: %v", i, name, order)
		case i > 0 && i < 6 && name == order[i-1]:
			t.Errorf("two of %s in a row, while others wait: %v", name, order)
		}
	}
}

func TestRender_IsBusyWhenTheQueueIsFull(t *testing.T) {
	t.Parallel()
	cfg := config(fakeWorker(t, "works"))
	cfg.RenderQueue = 2
	pool := open(t, cfg)
	hot, quiet := uuid.New(), uuid.New()
	job, h := holdRender(hot, media.OnDemand, nil)
	running := pool.beginRender(t.Context(), job)
	<-h.started
	next, released := holdRender(hot, media.OnDemand, nil)
	released.release()
	waiting := pool.beginRender(t.Context(), next)
	pool.waiting(1)
	_, err := pool.Render(t.Context(), next)
	if f := fault.From(err); f.Kind != fault.Busy || f.RetryAfter <= 0 {
		t.Errorf("the account has half of the queue: %v", err)
	}
	// An upload of the same account, another account, and what nobody waits for are not affected.
	if _, err := pool.Reserve(hot); err != nil {
		t.Errorf("an upload: %v", err)
	}
	slot, err := pool.ReserveRender(quiet)
	must(t, err)
	other, released := holdRender(quiet, media.OnDemand, nil)
	released.release()
	other.Slot = slot
	eager, released := holdRender(hot, media.Eager, nil)
	released.release()
	rest := []<-chan error{pool.beginRender(t.Context(), other), pool.beginRender(t.Context(), eager)}
	pool.waiting(3)
	h.release()
	for _, done := range append(rest, running, waiting) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, err := pool.ReserveRender(hot); err != nil {
		t.Errorf("after all: %v", err)
	}
}
