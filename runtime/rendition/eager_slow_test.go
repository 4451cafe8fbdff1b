package rendition_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
)

// blocked is a database and an object store that do not respond until they are released.
type blocked struct {
	rendition.Claims
	rendition.Objects
	asked, released chan struct{}
	claiming, opens atomic.Bool // which of both block
}

func (b *blocked) wait(blocks *atomic.Bool) {
	if blocks.CompareAndSwap(true, false) {
		close(b.asked)
		<-b.released
	}
}

// ClaimRendition claims a rendition.
func (b *blocked) ClaimRendition(ctx context.Context, claim rendition.Claim) (bool, error) {
	b.wait(&b.claiming)
	return b.Claims.ClaimRendition(context.WithoutCancel(ctx), claim)
}

// Open opens an object.
func (b *blocked) Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error) {
	b.wait(&b.opens)
	return b.Objects.Open(ctx, bucket, key, offset, length)
}

// watched is a renderer that says when it is free again.
type watched struct {
	*renderer
	free chan error
}

// Render makes pictures.
func (w *watched) Render(ctx context.Context, job media.RenderJob) ([]media.Picture, error) {
	made, err := w.renderer.Render(ctx, job)
	w.free <- err
	return made, err
}

// A store that does not respond kept an image worker, of which requests may have the only one.
func TestEager_ASlowStoreKeepsNoWorker(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]bool{"the database": false, "the object store": true} {
		w := setup(t)
		one := w.tenant(t, 10<<20)
		w.present(t, one, eager("a", 20))
		settle(t, w.eagerly(t, w.renderer))
		item := w.sealedBytes(t, one.Principal, photo(t, 64, 64))
		stores := &blocked{Claims: w.Store.Pictures, Objects: w.Objects, asked: make(chan struct{}), released: make(chan struct{})}
		stores.opens.Store(object)
		stores.claiming.Store(!object)
		workers := &watched{w.renderer, make(chan error, 10)}
		e := w.eagerly(t, workers, func(deps *eagerDeps) { deps.Claims, deps.Objects = stores, stores })
		e.SetClaimWait(1)
		ended := make(chan error)
		go func() {
			ended <- e.step(t.Context())
		}()
		<-stores.asked
		if object {
			if n := w.renderer.jobs.Load(); n != 0 {
				t.Errorf("%s: %d jobs have a worker", name, n)
			}
		} else if err := <-workers.free; err == nil {
			t.Errorf("%s: the job was done", name)
		}
		close(stores.released)
		must(t, <-ended)
		if n := w.QueryInt(t, `SELECT count(*) FROM rendition WHERE NOT ready`); n != 0 {
			t.Errorf("%s: %d claims are left", name, n)
		}
		w.makeDue(t)
		settle(t, w.eagerly(t, w.renderer))
		if n := w.ready(t, item); n != 1 {
			t.Errorf("%s: %d renditions", name, n)
		}
	}
}
