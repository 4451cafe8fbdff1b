package rendition_test

import (
	"errors"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

func TestGet_RemembersWhatCannotBeMade(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	w.renderer.err = fault.New(fault.UnsupportedType, "broken")
	for range 3 {
		if _, err := w.service.Get(t.Context(), item, one.owner, of("a", 1)); !fault.Is(err, fault.UnsupportedType) {
			t.Errorf("%v", err)
		}
	}
	jobs(t, 1, w)
	w.clock.Advance(time.Minute)
	_, _ = w.service.Get(t.Context(), item, one.owner, of("a", 1))
	jobs(t, 2, w)
	w.renderer.err = fault.New(fault.Unavailable, "a worker died") // may succeed
	for range 2 {
		if _, err := w.service.Get(t.Context(), item, one.owner, of("a", 2)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v", err)
		}
	}
	jobs(t, 4, w)
	w.Counts(t, 0, "claims are left", `SELECT count(*) FROM rendition`)
}

// A file that holds workers for long, or kills them, does so once for all its recipes. What is stored of it is still served.
func TestGet_RemembersTheFileOnWhichWorkersFailed(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.CacheEntries = 0 })
	one := w.tenant(t, 100_000)
	item, other := w.sealed(t, one.Principal, 500), w.sealed(t, one.Principal, 600)
	w.get(t, one, item, of("a", 1))
	w.renderer.err = fault.Wrap(media.ErrWorkerFailed, fault.Unavailable, "the picture could not be made now")
	for width := 2; width < 5; width++ {
		_, err := w.service.Get(t.Context(), item, one.owner, of("a", width))
		if f := fault.From(err); f.Kind != fault.Unavailable || f.Public != "the picture could not be made now" || (width > 2) != (f.RetryAfter > 0) {
			t.Errorf("%d: %v, again after %s", width, err, f.RetryAfter)
		}
	}
	jobs(t, 2, w)
	if known := w.metric(t, "mediastack_rendition_failures_total", "known"); known != 2 {
		t.Errorf("%v failures were known", known)
	}
	w.renderer.err = nil
	w.get(t, one, item, of("a", 1))
	w.get(t, one, other, of("a", 2))
	jobs(t, 3, w)
	w.clock.Advance(time.Minute)
	w.get(t, one, item, of("a", 3))
	jobs(t, 4, w)
}

// What may be the encoder's fault is no failure of the file: other formats are made of it.
func TestGet_RemembersTheFormatOnWhichWorkersFailed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	died := fault.Wrap(errors.Join(media.ErrOtherFormat, media.ErrWorkerFailed), fault.Unavailable, "the picture could not be made as AVIF now")
	w.renderer.fails = func(recipe media.Recipe) error {
		if recipe.Format == settings.FormatAVIF {
			return died
		}
		return nil
	}
	avif := of("a", 1)
	avif.Recipe.Format = settings.FormatAVIF
	for width := range 3 {
		avif.Recipe.Width = 1 + width
		if _, err := w.service.Get(t.Context(), item, one.owner, avif); !errors.Is(err, media.ErrOtherFormat) || !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v", err)
		}
	}
	jobs(t, 1, w)
	w.get(t, one, item, of("a", 1))
	jobs(t, 2, w)
	w.renderer.fails = nil
	w.clock.Advance(time.Minute)
	w.get(t, one, item, avif)
	jobs(t, 3, w)
}

// Without an encoder no job is made; what another process has stored is served.
func TestGet_MakesNothingWithoutAnEncoder(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	lacking, w := all[0], all[1]
	lacking.renderer.without = settings.FormatAVIF
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	avif := of("a", 1)
	avif.Recipe.Format = settings.FormatAVIF
	for range 2 {
		if _, err := lacking.service.Get(t.Context(), item, one.owner, avif); !errors.Is(err, media.ErrOtherFormat) || !fault.Is(err, fault.UnsupportedType) {
			t.Errorf("%v", err)
		}
	}
	jobs(t, 0, lacking)
	avif.Recipe.Width = 2
	w.get(t, one, item, avif)
	lacking.get(t, one, item, avif)
	jobs(t, 1, all...)
}

// The claim of a job that panicked kept all other requests waiting until its lease ended.
func TestGet_AJobThatPanicsLeavesNoClaim(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	w.renderer.fails = func(media.Recipe) error { panic("broken") }
	if _, err := w.service.Get(t.Context(), item, one.owner, of("a", 100)); err == nil {
		t.Error("no error")
	}
	w.Counts(t, 0, "claims are left", `SELECT count(*) FROM rendition`)
	if n := w.service.Held(); n != 0 {
		t.Errorf("%d data slots are held", n)
	}
	w.renderer.fails = nil
	w.get(t, one, item, of("a", 100))
	w.balanced(t, one)
}

// A file that the object store does not have is lost, and not "not found": an administrator can restore it.
func TestGet_OfALostFile(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	original, _ := item.Objects.Find(media.Original)
	must(t, w.Objects.Remove(t.Context(), one.owner.Bucket, []string{original.Key}))
	if _, err := w.service.Get(t.Context(), item, one.owner, of("a", 100)); !fault.Is(err, fault.FileLost) {
		t.Errorf("a lost file: %v", err)
	}
	w.Counts(t, 0, "claims are left", `SELECT count(*) FROM rendition`)
}
