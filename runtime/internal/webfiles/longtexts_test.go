package webfiles_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// hostile is a text with markup, bidirectional controls and 10,000 characters.
var hostile = `"><script>alert(1)</script></textarea><img src=x onerror=alert(1)>` + "\u202e\u2066" + strings.Repeat("ש<b>x", 2000)

// A text of 10,000 characters is rejected or cut, and neither the answer nor a page of the file runs it.
func TestFiles_LongHostileTextsAreHarmless(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	item := rt.Item(t, w, tenant, hostile, "x", true) // a name of an upload is cut
	if len(item.FileName) > 255 || strings.ContainsAny(item.FileName, "\u202e\u2066") {
		t.Errorf("the name has %d bytes: %q", len(item.FileName), item.FileName)
	}
	before := w.Rows(t)
	query := "?request=" + p.Fields().Get("request") + "&account=" + tenant.Account.ID.String()
	for what, fields := range map[string]url.Values{
		"name": {"name": {hostile}}, "caption": {"caption": {hostile}}, "group": {"group": {hostile}}, "access": {"access": {hostile}},
		"a key": {"key0": {hostile}, "value0": {"x"}}, "a value": {"key0": {"place"}, "value0": {hostile}},
	} {
		fields.Set("account", tenant.Account.ID.String())
		fields.Set("item", item.ID.String())
		got := b.Send("/account/files/edit", p, fields)
		if got.StatusCode != http.StatusBadRequest || !strings.Contains(got.Text, `role="alert"`) {
			t.Errorf("%s: %d %.300s", what, got.StatusCode, got.Text)
		}
		// What was typed stands in its field again, with its marks.
		got.Text = strings.NewReplacer("\u202e", "", "\u2066", "").Replace(got.Text)
		runsNothing(t, got)
	}
	for _, parameter := range []string{"q", "name", "type", "sort", "from", "capturedFrom", "size", "after", "page", "state", "back", "item", "done", "deleted", "count"} {
		for _, path := range []string{"/account/files", "/account/files/view"} {
			got := b.Get(path + query + "&" + parameter + "=" + url.QueryEscape(hostile[:3000]))
			if got.StatusCode >= http.StatusInternalServerError || got.StatusCode == http.StatusFound {
				t.Errorf("%s with %s: %d", path, parameter, got.StatusCode)
			}
			got.Text = strings.NewReplacer("\u202e", "", "\u2066", "").Replace(got.Text)
			runsNothing(t, got)
		}
	}
	if w.Rows(t) != before {
		t.Error("an item was changed")
	}

	// The longest texts that are kept.
	bounded := func(most int) string { return `<script>"'` + strings.Repeat("<b>\u202ex", (most-10)/7) }
	fields := url.Values{"account": {tenant.Account.ID.String()}, "item": {item.ID.String()}, "name": {strings.Repeat("<b>", 85)}, "caption": {bounded(4096)}, "group": {strings.Repeat("<b>", 85)}, "key0": {"place"}, "value0": {bounded(512)}}
	view := b.Post("/account/files/edit", p, fields)
	view.Says(t, http.StatusOK, "The file was changed.")
	list := b.Get("/account/files")
	for _, page := range []webtest.Page{view, list} {
		if !strings.Contains(page.Text, html.EscapeString("<b>")) {
			t.Error("the texts are not shown")
		}
	}
	runsNothing(t, list)
	for name, text := range facts(t, view) {
		if strings.ContainsAny(name+text, "\u202e\u2066") {
			t.Errorf("the fact %q changes the direction of text", name)
		}
	}
	view.Text = strings.ReplaceAll(view.Text, "\u202e", "") // fields have texts as they are kept
	runsNothing(t, view)
}
