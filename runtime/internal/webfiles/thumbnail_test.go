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

// The pictures of deleted files are for their owners, and show no other object.
func TestThumbnail_OfADeletedFileIsForItsOwner(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	theirs := w.Undoable(t, "theirs", "bo@example.org")
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Images = true })
	b, other := rt.Browser(t), rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	picture := string(imagetest.PNG(image.NewRGBA(image.Rect(0, 0, 640, 480))))
	kept := itemOf(t, b.Upload(p, "kept.png", picture))
	p = b.Upload(p, "red.png", picture)
	p = b.Change("delete", p, tenant, itemOf(t, p))
	list := b.Get(p.Action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + "&state=deleted")
	images := list.Elements(t, "img")
	if len(images) != 1 {
		t.Fatalf("%d pictures: %s", len(images), list.Text)
	}
	source, err := url.Parse(webtest.AttributeOf(images[0], "src"))
	must(t, err)
	got := b.Get(source.String())
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "image/webp" || !strings.HasPrefix(got.Text, "RIFF") || got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", got.StatusCode, got.Header)
	}
	foreign := other.Login("/account/files", "bo@example.org")
	changed := func(name, value string) string {
		query := source.Query()
		query.Set(name, value)
		return source.Path + "?" + query.Encode()
	}
	for what, got := range map[string]webtest.Page{
		"without a session":        rt.Browser(t).Get(source.String()),
		"of an item that is there": b.Get(changed("item", kept)),
		"of no item":               b.Get(changed("item", "00000000-0000-4000-8000-000000000000")),
		"of a malformed item":      b.Get(changed("item", "../x")),
		"without an item":          b.Get(changed("item", "")),
		"of another account":       b.Get(changed("account", theirs.Account.ID.String())),
		"with a wrong account":     b.Get(changed("account", "x")),
		"of another owner":         other.Get(changed("request", foreign.Fields().Get("request"))),
		"with the session's own":   other.Get(source.String()),
	} {
		if got.StatusCode != http.StatusNotFound || strings.HasPrefix(got.Text, "RIFF") {
			t.Errorf("%s: %d", what, got.StatusCode)
		}
	}
}
