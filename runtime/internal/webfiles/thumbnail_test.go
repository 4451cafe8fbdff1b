package webfiles_test

import (
	"image"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// Deleted files were tiles without a picture, so that nobody knew which one to restore.
func TestThumbnail_OfADeletedFileIsForItsSession(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	theirs := w.Undoable(t, "theirs", "bo@example.org")
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Images = true })
	b, other := rt.Browser(t), rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	p = b.Upload(p, "red.png", string(imagetest.PNG(image.NewRGBA(image.Rect(0, 0, 640, 480)))))
	p = b.Change("delete", p, tenant, itemOf(t, p))
	list := b.Get(p.Action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + "&state=deleted")
	images := list.Elements(t, "img")
	if len(images) != 1 {
		t.Fatalf("%d pictures: %s", len(images), list.Text)
	}
	source, err := url.Parse(webtest.AttributeOf(images[0], "src"))
	must(t, err)
	got := b.Get(source.String())
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "image/webp" || !strings.HasPrefix(got.Text, "RIFF") || got.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(got.Header.Get("Cache-Control"), "private") {
		t.Errorf("%d %v", got.StatusCode, got.Header)
	}
	foreign := other.Login("/account/files", "bo@example.org")
	changed := func(name, value string) string {
		query := source.Query()
		query.Set(name, value)
		return source.Path + "?" + query.Encode()
	}
	for what, got := range map[string]webtest.Page{
		"without a session":      rt.Browser(t).Get(source.String()),
		"in another session":     other.Get(changed("request", foreign.Fields().Get("request"))),
		"of another key":         b.Get(changed("key", strings.Replace(source.Query().Get("key"), "thumbnail", "original", 1))),
		"of another account":     b.Get(changed("account", theirs.Account.ID.String())),
		"without a proof":        b.Get(changed("mac", "")),
		"with a wrong account":   b.Get(changed("account", "x")),
		"with the session's own": other.Get(source.String()),
	} {
		if got.StatusCode != http.StatusNotFound || strings.HasPrefix(got.Text, "RIFF") {
			t.Errorf("%s: %d", what, got.StatusCode)
		}
	}
}
