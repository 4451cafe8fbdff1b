package webfiles_test

import (
	"net/http"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/media"
)

// facts returns the facts on the page of a file, by their names.
func facts(t *testing.T, p webtest.Page) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range p.Elements(t, "dt") {
		for next := name.NextSibling; next != nil; next = next.NextSibling {
			if next.Data == "dd" {
				found[webtest.TextOf(name)] = webtest.TextOf(next)
			}
		}
	}
	return found
}

// setCapture has a file say how it was made. That of a text says nothing.
func setCapture(t *testing.T, w *webtest.World, item media.Item, made capture.Capture) {
	t.Helper()
	w.Counts(t, 1, "items", "WITH changed AS (UPDATE item SET capture = NULL WHERE id = $1 RETURNING id) SELECT count(*) FROM changed", item.ID)
	must(t, w.Store.Items.SetCapture(t.Context(), item.AccountID, item.ID, made))
}

func TestViewFile_ShowsHowTheFileWasMade(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	w.Change(t, tenant, func(s *account.Spec) { s.KeepLocation = true })
	rt := w.Replica(t)
	b := rt.Browser(t)
	list := b.Login("/account/files", webtest.Owner)
	names := []string{"Taken", "Camera", "Lens", "Place", "Title", "Rating", "Content credentials"}
	for _, tt := range []struct {
		made capture.Capture
		want [7]string
	}{
		{capture.Capture{}, [7]string{}},
		{capture.Capture{At: "2024-05-01T23:30:05+02:00", Camera: "Canon R5", Lens: "RF 50", Location: &capture.Location{Latitude: 46.948, Longitude: -7.4474}, Title: "<b>Evening</b>", Rating: 4, ContentCredentials: true},
			[7]string{"1 May 2024, 23:30 (UTC+02:00)", "Canon R5", "RF 50", "46.948° N, 7.4474° W", "<b>Evening</b>", "4 of 5", "Present, not verified"}},
		{capture.Capture{At: "2024-05-01T23:30:05.25"}, [7]string{"1 May 2024, 23:30"}},
		{capture.Capture{At: "2024-05-01", Location: &capture.Location{Latitude: -0.5}}, [7]string{0: "1 May 2024", 3: "0.5° S, 0° E"}},
		{capture.Capture{At: "2024-05"}, [7]string{"May 2024"}},
		{capture.Capture{At: "2024"}, [7]string{"2024"}},
	} {
		item := rt.Item(t, w, tenant, "a.txt", tt.made.At, true)
		setCapture(t, w, item, tt.made)
		p := b.Get("/account/files/view?request=" + list.Fields().Get("request") + "&account=" + tenant.Account.ID.String() + "&item=" + item.ID.String())
		p.Says(t, http.StatusOK, "a.txt")
		shown := facts(t, p)
		for n, name := range names {
			if shown[name] != tt.want[n] {
				t.Errorf("%+v: %s is %q, want %q", tt.made, name, shown[name], tt.want[n])
			}
		}
	}
}
