package rest_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/retryafter"
	"mediastack.dev/runtime/internal/api"
)

// One client that asks for every picture of every item held the share of the image workers of the account.
func TestPresets_OneClientHasALimitedNumberMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.runtime(t, withImages, func(o *options) {
		o.Limits.Pictures, o.Limits.PicturesBurst = 0.1, 3
		o.Limits.TrustedProxies = []string{"127.0.0.0/8"}
	})
	rt.Clock.Freeze() // making pictures takes a time, in which tokens would arrive
	decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [{"name": "a", "width": 20, "densities": [1, 2]}, {"name": "b", "width": 30, "format": "png"}]}`)))
	item := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 200, 100)), field("access", "public"))
	ask := func(method, variant, client string, send ...option) answer {
		t.Helper()
		return rt.do(t, method, "/media/file/"+item.MediaId.String()+"/"+variant+"/x", append(send, header("X-Forwarded-For", client))...)
	}
	greedy, neighbour, other := "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"
	for i, c := range []struct{ method, variant, client, left string }{
		{http.MethodGet, "a.webp", greedy, "2"}, {http.MethodHead, "a@2x.webp", neighbour, "1"}, // HEAD counts, and so does the same network
		{http.MethodGet, "a.webp", greedy, "1"}, {http.MethodGet, "a@2x.webp", greedy, "1"}, // they are stored, and count no more
		{http.MethodGet, "b", greedy, "0"},
	} {
		got := ask(c.method, c.variant, c.client)
		if got.Status != http.StatusOK || !strings.Contains(strings.Join(got.Header.Values("RateLimit"), ","), `"pictures";r=`+c.left) {
			t.Errorf("%d: %d %v", i, got.Status, got.Header)
		}
	}
	rows, made := w.QueryInt(t, "SELECT count(*) FROM rendition"), jobs(t, rt)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		got := ask(method, "a.jpeg", neighbour)
		if got.Status != http.StatusTooManyRequests || !retryafter.Is(got.Header, 10) || got.Header.Get("Cache-Control") != "no-store" || !strings.Contains(strings.Join(got.Header.Values("RateLimit"), ","), `"pictures";r=0;t=10`) {
			t.Errorf("%s: %d %v %s", method, got.Status, got.Header, got.Body)
		}
		if method == http.MethodGet {
			if detail := got.rejected(t, http.StatusTooManyRequests, "Too Many Requests"); detail != "too many new pictures for this address" {
				t.Errorf("detail %q", detail)
			}
		}
	}
	if got := ask(http.MethodGet, "a", greedy, header("Accept", "image/avif")); got.Status != http.StatusTooManyRequests || !negotiated(got) {
		t.Errorf("negotiated: %d %v", got.Status, got.Header)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM rendition"); n != rows || jobs(t, rt) != made {
		t.Errorf("%d rows of %d, %g jobs of %g", n, rows, jobs(t, rt), made)
	}
	// What is stored is served, and so is the file.
	for _, variant := range []string{"a.webp", "b", "original", "thumbnail"} {
		ask(http.MethodGet, variant, greedy).Is(t, http.StatusOK, "%s", variant)
	}
	ask(http.MethodGet, "a.jpeg", other).Is(t, http.StatusOK, "another client")
	ask(http.MethodGet, "a.jpeg", greedy).Is(t, http.StatusOK, "which the other one had made")
	rt.Clock.Advance(10 * time.Second)
	ask(http.MethodGet, "a.png", greedy).Is(t, http.StatusOK, "after Retry-After")
	if metrics := string(rt.admin(t, "/metrics").Body); !strings.Contains(metrics, `mediastack_rate_limit_rejections_total{limit="pictures"} 3`) {
		t.Error("the rejections are not counted")
	}
}

// A browser shows a broken image for an error, and does not ask again: a page of more new pictures than the limit allows had
// holes.
func TestPresets_BrowsersGetASubstituteOverTheLimit(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, withImages, func(o *options) { o.Limits.Pictures, o.Limits.PicturesBurst = 0.1, 2 })
	rt.Clock.Freeze()
	decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [
		{"name": "small", "width": 20, "format": "png"}, {"name": "large", "width": 60, "format": "png"}, {"name": "medium", "width": 30, "format": "png"},
		{"name": "square", "width": 40, "height": 40, "fit": "cover", "format": "png"}]}`)))
	public := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 200, 100)), field("access", "public"))
	other := rt.sealed(t, one.Key, filePart("other.jpg", photo(t, 200, 120)), field("access", "public"))
	private := rt.sealed(t, one.Key, filePart("private.jpg", photo(t, 200, 140)))
	address := func(item api.MediaItem, preset string) string { return rt.pictures(t, one.Key, item)[preset].Url }
	get := func(item api.MediaItem, preset string, send ...option) answer {
		t.Helper()
		return rt.do(t, http.MethodGet, address(item, preset), send...)
	}
	image := header("Sec-Fetch-Dest", "image")
	small, large := get(public, "small"), get(public, "large", image)
	if small.Status != http.StatusOK || large.Status != http.StatusOK || large.Header.Get("X-Picture-Substitute") != "" {
		t.Fatalf("within the limit: %d, %d %v", small.Status, large.Status, large.Header)
	}
	thumbnail := rt.do(t, http.MethodGet, "/media/file/"+public.MediaId.String()+"/thumbnail/x")
	otherThumbnail := rt.do(t, http.MethodGet, "/media/file/"+other.MediaId.String()+"/thumbnail/x")
	rows := w.QueryInt(t, "SELECT count(*) FROM rendition")

	for name, c := range map[string]struct {
		item       api.MediaItem
		preset     string
		send       option
		substitute string
		body       []byte
	}{
		"the next larger one of the shape":        {public, "medium", image, "large", large.Body},
		"no trustworthy origin":                   {public, "medium", header("Accept", "image/avif,image/webp,image/*;q=0.8,*/*;q=0.5"), "large", large.Body},
		"none of the shape":                       {public, "square", image, "thumbnail", thumbnail.Body},
		"nothing stored of the item":              {other, "large", image, "thumbnail", otherThumbnail.Body},
		"what is stored is no substitute":         {public, "small", image, "", small.Body},
		"a program without the headers of images": {public, "medium", header("Accept", "*/*"), "429", nil},
		"a script":                    {public, "medium", header("Sec-Fetch-Dest", "empty"), "429", nil},
		"a program with a signed URL": {private, "medium", header("Accept", "*/*"), "429", nil},
	} {
		got := get(c.item, c.preset, c.send)
		if c.substitute == "429" {
			if got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %v", name, got.Status, got.Header)
			}
			continue
		}
		if got.Status != http.StatusOK || got.Header.Get("X-Picture-Substitute") != c.substitute || !bytes.Equal(got.Body, c.body) {
			t.Errorf("%s: %d, substitute %q, %d bytes instead of %d", name, got.Status, got.Header.Get("X-Picture-Substitute"), len(got.Body), len(c.body))
		}
		if stored := got.Header.Get("Cache-Control"); (stored == "no-store") != (c.substitute != "") {
			t.Errorf("%s: Cache-Control %q", name, stored)
		}
	}
	if now := w.QueryInt(t, "SELECT count(*) FROM rendition"); now != rows {
		t.Errorf("%d renditions instead of %d", now, rows)
	}
	// The signature of one picture opens no other one. The tenant has given it to the client, so it is made.
	if got := get(private, "medium", image); got.Status != http.StatusOK || got.Header.Get("X-Picture-Substitute") != "" || got.Header.Get("Content-Type") != "image/png" {
		t.Errorf("a signed URL: %d %v", got.Status, got.Header)
	}
	rt.Clock.Advance(10 * time.Second)
	if got := get(public, "medium", image); got.Status != http.StatusOK || got.Header.Get("X-Picture-Substitute") != "" || strings.Contains(got.Header.Get("Cache-Control"), "no-store") {
		t.Errorf("when the limit allows it: %d %v", got.Status, got.Header)
	}
}
