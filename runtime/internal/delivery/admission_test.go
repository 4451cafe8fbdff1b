package delivery

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// admitting makes pictures that are admitted, unless they are stored.
type admitting struct {
	maker
	stored bool
}

// Get makes a picture if it is admitted.
func (a *admitting) Get(ctx context.Context, item media.Item, owner media.Owner, request rendition.Request) (rendition.Result, error) {
	if !a.stored {
		if err := request.Admit(); err != nil {
			return rendition.Result{}, err
		}
	}
	result, err := a.maker.Get(ctx, item, owner, request)
	result.Object.Key = rendition.ObjectKey(item.ID, item.ID)
	if a.stored {
		result.Data = nil
	}
	return result, err
}

// Lost makes a picture again if that is admitted.
func (a *admitting) Lost(ctx context.Context, item media.Item, owner media.Owner, request rendition.Request, _ rendition.Result) (rendition.Result, error) {
	if err := request.Admit(); err != nil {
		return rendition.Result{}, err
	}
	return a.maker.Get(ctx, item, owner, request)
}

// Nearest finds nothing.
func (a *admitting) Nearest(ctx context.Context, item media.Item, width, height int) (rendition.Result, string, error) {
	return a.maker.Nearest(ctx, item, width, height)
}

// Only responses for pictures that were just made had the headers of the limit.
func TestPicture_EveryResponseShowsTheLimit(t *testing.T) {
	t.Parallel()
	presets := tenant(settings.Preset{Name: "hero", Width: 100})
	lost := &stored{fail: fault.New(fault.NotFound, "gone")}
	for name, c := range map[string]struct {
		variant  string
		stored   bool
		used     int // tokens of the client before
		objects  *stored
		redirect bool
		headers  []string
		status   int
		left     string
	}{
		"made":                         {variant: "hero", status: http.StatusOK, left: "1"},
		"stored":                       {variant: "hero", stored: true, objects: &stored{data: make([]byte, 64)}, status: http.StatusOK, left: "2"},
		"not modified":                 {variant: "hero", stored: true, headers: []string{"If-None-Match", "*"}, status: http.StatusNotModified, left: "2"},
		"of no preset":                 {variant: "other", status: http.StatusNotFound, left: "2"},
		"over the limit":               {variant: "hero", used: 2, status: http.StatusTooManyRequests, left: "0"},
		"stored, over the limit":       {variant: "hero", used: 2, stored: true, objects: &stored{data: make([]byte, 64)}, status: http.StatusOK, left: "0"},
		"lost, and made again":         {variant: "hero", stored: true, objects: lost, status: http.StatusOK, left: "1"},
		"lost, over the limit":         {variant: "hero", used: 2, stored: true, objects: lost, status: http.StatusTooManyRequests, left: "0"},
		"a redirect":                   {variant: "hero", stored: true, objects: &stored{data: make([]byte, 64)}, redirect: true, status: http.StatusFound, left: "2"},
		"lost in a redirect":           {variant: "hero", stored: true, objects: lost, redirect: true, status: http.StatusOK, left: "1"},
		"lost in a redirect, too many": {variant: "hero", used: 2, stored: true, objects: lost, redirect: true, status: http.StatusTooManyRequests, left: "0"},
		"the file of an item":          {variant: "original", objects: &stored{data: make([]byte, 10)}, status: http.StatusOK},
	} {
		limits, err := ratelimit.New(ratelimit.Config{Pictures: 0.001, PicturesBurst: 2}, ratelimit.Deps{Registry: prometheus.NewRegistry(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		m, d := &admitting{stored: c.stored}, newDelivery(t, imageItem(), c.objects)
		m.unstored = c.objects == lost
		handler := withPictures(d, &m.maker, presets)
		d.renditions, d.limits = m, limits
		if c.redirect {
			d.presign, d.ttl, d.present = presigned{}, time.Minute, newPresence(time.Now)
		}
		limit := &pictureLimit{limits: limits}
		for range c.used {
			_ = limit.admit()
		}
		got := ask(handler, http.MethodGet, c.variant, c.headers...)
		policies, states := got.Header().Values("RateLimit-Policy"), got.Header().Values("RateLimit")
		want := 1
		if c.left == "" {
			want = 0
		}
		if got.Code != c.status || len(policies) != want || len(states) != want || want > 0 && (!strings.HasPrefix(policies[0], `"pictures";q=2;`) || !strings.HasPrefix(states[0], `"pictures";r=`+c.left)) {
			t.Errorf("%s: %d, %q, %q", name, got.Code, policies, states)
		}
	}
}

// The lines of other limits stay.
func TestPictureLimit_ReplacesItsOwnLinesOnly(t *testing.T) {
	t.Parallel()
	limits, err := ratelimit.New(ratelimit.Config{Pictures: 0.001, PicturesBurst: 2}, ratelimit.Deps{Registry: prometheus.NewRegistry(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	limit := &pictureLimit{limits: limits, policies: []string{"other"}, states: []string{"another"}}
	header := http.Header{policyHeader: {"other"}, limitHeader: {"another"}}
	for range 2 {
		limit.show(header)
		_ = limit.admit()
	}
	if policies, states := header.Values("RateLimit-Policy"), header.Values("RateLimit"); len(policies) != 2 || policies[0] != "other" || len(states) != 2 || states[0] != "another" || !strings.HasPrefix(states[1], `"pictures";r=1`) {
		t.Errorf("%q, %q", policies, states)
	}
}

// Each of many requests for one picture read it from the object store, without a slot for its connection.
func TestPicture_RequestsShareTheLookForItsObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := &slowObjects{}
		m, d := &admitting{stored: true}, newDelivery(t, imageItem(), nil)
		d.objects = objects
		handler := withPictures(d, &m.maker, tenant(settings.Preset{Name: "hero", Width: 100}))
		d.renditions = m
		d.presign, d.ttl, d.present, d.downloads = presigned{}, time.Minute, newPresence(time.Now), testLimiter(t, Config{MaxDownloads: 1, DownloadPerClientPercent: 100})
		file := resolvedFile{item: imageItem(), picture: &picture{}, object: media.Object{Key: rendition.ObjectKey(imageItem().ID, imageItem().ID)}}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				own := file
				if err := d.findStored(httptest.NewRequest(http.MethodGet, "/", nil), &own); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := objects.opened.Load(); n != 1 || d.downloads.inFlight() != 0 {
			t.Errorf("%d requests to the object store, %d slots are held", n, d.downloads.inFlight())
		}
		// Without a slot the client is redirected without a look.
		d.present, d.downloads = newPresence(time.Now), fullLimiter(t)
		if got := ask(handler, http.MethodGet, "hero"); got.Code != http.StatusFound || objects.opened.Load() != 1 {
			t.Errorf("%d after %d requests to the object store", got.Code, objects.opened.Load())
		}
	})
}

// slowObjects has every object, after a moment of the synctest bubble.
type slowObjects struct{ opened atomic.Int64 }

// Open opens an object.
func (s *slowObjects) Open(context.Context, string, string, int64, int64) (io.ReadCloser, error) {
	s.opened.Add(1)
	time.Sleep(time.Millisecond) //nolint:forbidigo // the clock of synctest
	return io.NopCloser(strings.NewReader("x")), nil
}
