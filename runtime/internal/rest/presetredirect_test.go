package rest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/imaging/webp"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/rendition"
)

// redirecting returns a runtime with presets that redirects its clients to the store for as long as it may.
func (w *world) redirecting(t *testing.T, access testenv.S3Access) *runtime {
	t.Helper()
	signer, err := objectstore.NewPresigner(runtimetest.ObjectStoreConfig(access), "")
	must(t, err)
	rt := w.runtime(t, withImages, func(o *options) {
		o.Delivery.Mode, o.Delivery.RedirectTTL, o.Presigner = delivery.Redirect, time.Hour, signer
		o.Delivery.PublicMaxAge = time.Hour
	})
	rt.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return rt
}

// objectOf returns the key of the object that a redirect leads to.
func objectOf(t *testing.T, from answer, bucket string) string {
	t.Helper()
	if from.Status != http.StatusFound {
		t.Fatalf("no redirect: %d %.100q", from.Status, from.Body)
	}
	target, err := url.Parse(from.Header.Get("Location"))
	must(t, err)
	_, key, found := strings.Cut(target.Path, "/"+bucket+"/")
	if !found {
		t.Fatalf("%s is not in the bucket", target.Path)
	}
	return key
}

func TestPresetsRedirect_LeadToThePicture(t *testing.T) {
	t.Parallel()
	for name, open := range testenv.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access := open(t)
			w := worldAt(t, testenv.Postgres(t), access)
			one := w.tenant(t, "one")
			rt := w.redirecting(t, access)
			decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [{"name": "hero", "width": 100}]}`)))
			public := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 800, 400)), field("access", "public"))
			private := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 800, 400)))
			for scope, item := range map[string]api.MediaItem{"public": public, "private": private} {
				address, ask := rt.pictures(t, one.Key, item)["hero"].Url, header("Accept", "image/webp")
				for _, method := range []string{http.MethodHead, http.MethodGet} { // HEAD makes it
					sent := rt.do(t, method, address, ask)
					got := follow(t, method, sent)
					target, err := url.Parse(sent.Header.Get("Location"))
					must(t, err)
					if !negotiated(sent) || sent.Header.Get("Cache-Control") != "no-store" || target.Query().Get("X-Amz-Expires") != strconv.Itoa(int(rendition.RedirectTTL/time.Second)) {
						t.Errorf("%s %s: %v", scope, method, sent.Header)
					}
					if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "image/webp" || got.Header.Get("Cache-Control") != fmt.Sprintf("%s, max-age=%d", scope, int(rendition.RedirectTTL/time.Second)) || !strings.HasPrefix(got.Header.Get("Content-Disposition"), `inline; filename="photo.webp"`) {
						t.Errorf("%s %s: %d %v", scope, method, got.Status, got.Header)
					}
				}
				whole := follow(t, http.MethodGet, rt.do(t, http.MethodGet, address, ask))
				if picture, err := webp.StripMetadata(whole.Body); err != nil || picture.Width != 100 || picture.Height != 50 {
					t.Errorf("%s: %d x %d, %v", scope, picture.Width, picture.Height, err)
				}
				span := header("Range", "bytes=3-12")
				if part := follow(t, http.MethodGet, rt.do(t, http.MethodGet, address, ask, span), span); part.Status != http.StatusPartialContent || !bytes.Equal(part.Body, whole.Body[3:13]) {
					t.Errorf("%s: a range: %d, %d bytes", scope, part.Status, len(part.Body))
				}
				same := header("If-None-Match", whole.Header.Get("ETag"))
				follow(t, http.MethodGet, rt.do(t, http.MethodGet, address, ask, same), same).Is(t, http.StatusNotModified, "%s: a condition", scope)
			}
			plain, _, _ := strings.Cut(rt.pictures(t, one.Key, private)["hero"].Url, "?")
			rt.do(t, http.MethodGet, plain).rejected(t, http.StatusNotFound, "Not Found")
			if n := jobs(t, rt); n != 2 {
				t.Errorf("%g jobs", n)
			}
		})
	}
}

// The URL of a redirect could be valid for longer than the object of a rendition that made room is kept.
func TestPresetsRedirect_FindTheObjectAfterAnEviction(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	w := worldAt(t, testenv.Postgres(t), access)
	const room = 300_000
	one := w.tenant(t, "one", func(s *account.Spec) { s.MaxStorage, s.MaxUploadSize = room, room })
	rt := w.redirecting(t, access)
	decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [{"name": "hero", "width": 100, "format": "png"}]}`)))
	item := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 400, 200)), field("access", "public"))
	address := rt.pictures(t, one.Key, item)["hero"].Url
	before := rt.do(t, http.MethodGet, address)
	follow(t, http.MethodGet, before).MustBe(t, http.StatusOK, "the answer")
	rt.Clock.Advance(30 * time.Second) // the row is cached for another 30 s
	free := room - w.QueryInt(t, "SELECT bytes FROM account_usage WHERE account_id = $1", one.Account.ID)
	filler := rt.upload(t, one.Key, filePart("filler.bin", randomBytes(1, int(free)+1)))
	if n := w.QueryInt(t, "SELECT count(*) FROM rendition"); n != 0 {
		t.Fatalf("%d renditions", n)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM object_removal WHERE account_id = $1 AND not_before < now() + $2 * interval '1 second'", one.Account.ID, int(rendition.RedirectTTL/time.Second)); n != 0 {
		t.Error("the object is not kept for as long as URLs of it are valid")
	}
	after := rt.do(t, http.MethodGet, address)
	for what, redirect := range map[string]answer{"before": before, "after": after} {
		follow(t, http.MethodGet, redirect).Is(t, http.StatusOK, "a redirect %s the eviction", what)
	}
	// Without room it is sent.
	rt.Clock.Advance(time.Minute)
	if got := rt.do(t, http.MethodGet, address); got.Status != http.StatusOK || got.Header.Get("Content-Type") != "image/png" {
		t.Errorf("without room: %d %v", got.Status, got.Header)
	}
	rt.do(t, http.MethodDelete, "/media/delete/"+filler.MediaId.String(), key(one.Key))
	rt.Clock.Advance(11 * time.Minute) // meanwhile what could not be stored is sent from memory
	again := rt.do(t, http.MethodGet, address)
	if got := follow(t, http.MethodGet, again); got.Status != http.StatusOK || objectOf(t, again, one.Account.Bucket) == objectOf(t, before, one.Account.Bucket) {
		t.Errorf("made again: %d at %s", got.Status, again.Header.Get("Location"))
	}
}

// A client was sent to an object that the store had lost, for ever.
func TestPresetsRedirect_MakeAPictureAgainWhoseObjectIsLost(t *testing.T) {
	t.Parallel()
	store := testenv.S3(t)
	w := worldAt(t, testenv.Postgres(t), store)
	one := w.tenant(t, "one")
	a, b := w.redirecting(t, store), w.redirecting(t, store)
	decode[api.Settings](t, a.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [{"name": "hero", "width": 100, "format": "webp"}]}`)))
	for _, access := range []string{"public", "private"} {
		item := a.sealed(t, one.Key, filePart("photo.jpg", photo(t, 400, 200)), field("access", access))
		wait.Until(t, "the preset is in effect", func() bool { return len(b.pictures(t, one.Key, item)) == 1 })
		address := a.pictures(t, one.Key, item)["hero"].Url
		made := jobs(t, a, b)
		lose := func() string {
			t.Helper()
			lost := objectOf(t, a.do(t, http.MethodGet, address), one.Account.Bucket)
			if other := objectOf(t, b.do(t, http.MethodGet, address), one.Account.Bucket); other != lost {
				t.Fatalf("%s at one replica, %s at the other one", lost, other)
			}
			must(t, w.Objects.Remove(t.Context(), one.Account.Bucket, []string{lost}))
			return lost
		}
		lost := lose()
		for _, rt := range []*runtime{a, b} { // both have the row in their cache, and have found the object
			rt.Clock.Advance(time.Minute)
			sent := rt.do(t, http.MethodGet, address)
			if got := follow(t, http.MethodGet, sent); got.Status != http.StatusOK || objectOf(t, sent, one.Account.Bucket) == lost {
				t.Errorf("%s: a minute later: %d at %s", access, got.Status, sent.Header.Get("Location"))
			}
		}
		if n := jobs(t, a, b) - made; n != 2 {
			t.Errorf("%s: %g jobs", access, n)
		}
		// A process that has not found it before notices it at once, for HEAD, too.
		lost = lose()
		fresh := w.redirecting(t, store)
		sent := fresh.do(t, http.MethodHead, address)
		if got := follow(t, http.MethodHead, sent); got.Status != http.StatusOK || objectOf(t, sent, one.Account.Bucket) == lost {
			t.Errorf("%s: another process: %d at %s", access, got.Status, sent.Header.Get("Location"))
		}
	}
	w.Counts(t, 2, "rows", "SELECT count(*) FROM rendition WHERE ready")
}
