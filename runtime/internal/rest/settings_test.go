package rest_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/settings"
)

// A client can read the document, change it and write it back.
func TestSettings_CanBeReadChangedAndWrittenBack(t *testing.T) {
	t.Parallel()
	quality, wide := 70, 100
	for name, pins := range map[string]settings.Layer{"nothing pinned": {}, "a field pinned": {WebPOutputQuality: &quality}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := w.tenant(t, "one")
			rt := w.runtime(t)
			if len(pins.Fields()) > 0 {
				must(t, w.Settings.Pin(t.Context(), one.Account.ID, pins, settings.Object{Name: "team-a/site", UID: "uid of team-a/site"}))
			}
			read := func() map[string]any {
				return decode[map[string]any](t, rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)))
			}
			write := func(document map[string]any) answer {
				body, err := json.Marshal(document)
				must(t, err)
				return rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(string(body)))
			}
			before := read()
			if got := decode[api.Settings](t, write(before)); len(*got.Changed) != 0 {
				t.Errorf("the same document changed %v", *got.Changed)
			}
			before["thumbnailWidth"] = wide
			after := write(before)
			got := decode[api.Settings](t, after)
			if !slices.Equal(*got.Changed, []string{"thumbnailWidth"}) || got.ThumbnailWidth != wide {
				t.Errorf("one field was changed: %s", after.Body)
			}
			// Fields with the same value keep their source.
			want := settings.FromDefault
			if len(pins.Fields()) > 0 {
				want = settings.FromPin
			}
			if s := got.Sources; s["thumbnailWidth"] != settings.FromTenant || s["useWebP"] != settings.FromDefault || s["webpOutputQuality"] != want || s["thumbnailHeight"] != settings.FromDefault {
				t.Errorf("sources after one change: %+v", s)
			}
			// The response to a change can be written back too.
			if got := decode[api.Settings](t, write(decode[map[string]any](t, after))); len(*got.Changed) != 0 {
				t.Errorf("the answer of a change changed %v", *got.Changed)
			}
			if read := read(); read["changed"] != nil || read["thumbnailWidth"] != float64(wide) {
				t.Errorf("the settings: %v", read)
			}
		})
	}
}

func TestSettings_RejectAnotherValueOfAPinnedField(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	width, quality := 100, 70
	must(t, w.Settings.Pin(t.Context(), one.Account.ID, settings.Layer{ThumbnailWidth: &width, WebPOutputQuality: &quality}, settings.Object{Name: "team-a/site", UID: "uid of team-a/site"}))
	change := func(body string) answer {
		return rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(body))
	}
	detail := change(`{"thumbnailWidth": 101, "webpOutputQuality": 70, "useWebP": true}`).rejected(t, http.StatusConflict, "Conflict")
	if detail != "thumbnailWidth: pinned by MediaSettings team-a/site" {
		t.Errorf("the detail names other fields: %s", detail)
	}
	if rows := w.QueryInt(t, "SELECT count(*) FROM settings_tenant"); rows != 0 {
		t.Errorf("a rejected change left %d rows", rows)
	}
	if got := decode[api.Settings](t, change(`{"thumbnailWidth": 100, "useWebP": true}`)); !slices.Equal(*got.Changed, []string{"useWebP"}) {
		t.Errorf("the pinned value was rejected or stored: %v", *got.Changed)
	}
	// A pinned value that was written back is not a setting of the tenant after the pin is removed.
	must(t, w.Settings.Unpin(t.Context(), "uid of team-a/site"))
	if got := decode[api.Settings](t, rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key))); got.ThumbnailWidth != 320 || !got.UseWebP {
		t.Errorf("after the pin: %+v", got)
	}
}

func TestSettings_AnUpdateThatChangesNothingSaysSo(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	for _, body := range []string{`{}`, `{"useWebP": false, "thumbnailWidth": 320}`, `{"sources": null}`} {
		got := rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(body))
		if !strings.Contains(string(got.Body), `"changed":[]`) || decode[api.Settings](t, got).Sources["useWebP"] != settings.FromDefault {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
	if rows := w.QueryInt(t, "SELECT count(*) FROM settings_tenant"); rows != 0 {
		t.Errorf("nothing was changed, and %d rows were written", rows)
	}
}

// The journal names the settings that a key has changed, and none of their values.
func TestSettings_AChangeIsAnEventOfTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.Journal = 24 * time.Hour })
	rt := w.runtime(t)
	change := func(body string, status int) {
		t.Helper()
		rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(body)).MustBe(t, status, "%s", body)
	}
	change(`{"useWebP": false, "thumbnailWidth": 100, "originals": "signed"}`, http.StatusOK)
	change(`{"thumbnailWidth": 100}`, http.StatusOK)
	change(`{"thumbnailWidth": 0}`, http.StatusBadRequest)
	w.Counts(t, 1, "changes of settings", `SELECT count(*) FROM journal WHERE type = 'settings.changed'`)
	w.Counts(t, 1, "events of the key with both names", `SELECT count(*) FROM journal WHERE type = 'settings.changed' AND account_id = $1 AND app_id IS NULL AND actor = $2 AND fields = '{originals,thumbnailWidth}'`,
		one.Account.ID, account.ActorOfKey(one.KeyID).Text())
}
