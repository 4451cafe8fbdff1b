package postgres_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/settings"
)

func TestSettings_PinnedFieldRejectsTheWholeChange(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	a, err := registry(store).Ensure(t.Context(), spec)
	must(t, err)
	s := settings.NewService(store.Settings)
	must(t, s.Pin(t.Context(), a.ID, settings.Layer{UseWebP: value(true)}, settings.Object{Name: "team-a/site", UID: "uid of team-a/site"}))
	before := version(t, url, "settings_pin")
	must(t, s.Pin(t.Context(), a.ID, settings.Layer{UseWebP: value(true)}, settings.Object{Name: "team-a/site", UID: "uid of team-a/site"}))
	if version(t, url, "settings_pin") != before {
		t.Error("pinning the same again must write nothing")
	}
	_, err = s.Update(t.Context(), a.ID, account.Actor{}, settings.Layer{UseWebP: value(false), ThumbnailWidth: value(64)})
	if !fault.Is(err, fault.Conflict) || fault.From(err).Public != "useWebP: pinned by MediaSettings team-a/site" {
		t.Errorf("a change of a pinned field: %v", err)
	}
	layers, err := s.Update(t.Context(), a.ID, account.Actor{}, settings.Layer{ThumbnailHeight: value(99)})
	must(t, err)
	want := settings.Defaults()
	want.UseWebP, want.ThumbnailHeight = true, 99
	if got := layers.Effective(); got != want {
		t.Errorf("effective settings are %+v", got)
	}
	must(t, s.Unpin(t.Context(), "uid of team-a/another"))
	if layers, err := s.Get(t.Context(), a.ID); err != nil || layers.PinnedBy != "team-a/site" {
		t.Errorf("another object removed the pins: %+v, %v", layers, err)
	}
	must(t, s.Unpin(t.Context(), "uid of team-a/site"))
	layers, err = s.Update(t.Context(), a.ID, account.Actor{}, settings.Layer{WebPOutputQuality: value(0)})
	must(t, err)
	want.UseWebP, want.WebPOutputQuality = false, 0
	if got := layers.Effective(); got != want {
		t.Errorf("after unpinning: %+v", got)
	}
	if _, err := s.Update(t.Context(), a.ID, account.Actor{}, settings.Layer{WebPOutputQuality: value(101)}); !fault.Is(err, fault.Invalid) {
		t.Errorf("quality 101: %v", err)
	}
}

// A replica of the version before must not drop the fields of the next one.
func TestSettings_FieldsOfALaterVersionAreKept(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	a, err := registry(store).Ensure(t.Context(), spec)
	must(t, err)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	must(t, check.ErrorOf(conn.Exec(t.Context(), `INSERT INTO settings_tenant VALUES ($1, '{"later": 7, "useWebP": true}')`, a.ID)))
	outcome, err := settings.NewService(store.Settings).Update(t.Context(), a.ID, account.Actor{}, settings.Layer{ThumbnailWidth: value(64)})
	must(t, err)
	want := settings.Defaults()
	want.UseWebP, want.ThumbnailWidth = true, 64
	if outcome.Effective() != want {
		t.Errorf("effective settings are %+v", outcome.Effective())
	}
	var stored string
	must(t, conn.QueryRow(t.Context(), "SELECT fields::text FROM settings_tenant").Scan(&stored))
	if stored != `{"later": 7, "useWebP": true, "thumbnailWidth": 64}` {
		t.Errorf("stored: %s", stored)
	}
}

func TestSettings_SchemaRejectsOtherForms(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	a, err := registry(store).Ensure(t.Context(), spec)
	must(t, err)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	for _, form := range []string{`[]`, `1`, `null`, `{"useWebP": "true"}`, `{"useWebP": null}`, `{"useWebP": true, "thumbnailWidth": {}}`, `{"x": [1]}`} {
		for _, insert := range []string{"INSERT INTO settings_tenant VALUES ($1, $2)", "INSERT INTO settings_pin VALUES ($1, 'a/b', $2, 'uid')"} {
			if _, err := conn.Exec(t.Context(), insert, a.ID, form); err == nil {
				t.Errorf("%s accepts %s", insert, form)
			}
		}
	}
	// A value that no version stores is the fault of the database, not of the caller.
	must(t, check.ErrorOf(conn.Exec(t.Context(), `INSERT INTO settings_tenant VALUES ($1, '{"thumbnailWidth": 99999}')`, a.ID)))
	if _, err := store.Settings.Layers(t.Context(), a.ID); err == nil || fault.From(err).Kind != fault.Internal {
		t.Errorf("a stored width of 99999: %v", err)
	}
}

// Replicas cache settings until the database notifies them.
func TestSettings_EveryChangeNotifies(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	a, err := registry(store).Ensure(t.Context(), spec)
	must(t, err)
	connected, changed := make(chan struct{}, 1), make(chan uuid.UUID, 100)
	go func() {
		_ = store.Listen(t.Context(), func() { connected <- struct{}{} }, func(id uuid.UUID) { changed <- id }, func(error) {})
	}()
	<-connected
	s := settings.NewService(store.Settings)
	for name, change := range map[string]func() error{
		"update": func() error {
			_, err := s.Update(t.Context(), a.ID, account.Actor{}, settings.Layer{ThumbnailWidth: value(64)})
			return err
		},
		"pin": func() error {
			return s.Pin(t.Context(), a.ID, settings.Layer{UseWebP: value(true)}, settings.Object{Name: "a/b", UID: "uid of a/b"})
		},
	} {
		must(t, change())
		if id := <-changed; id != a.ID {
			t.Errorf("%s notified of %v", name, id)
		}
	}
	// Changes that write nothing do not notify: the next notification is that of unpin.
	must(t, s.Pin(t.Context(), a.ID, settings.Layer{UseWebP: value(true)}, settings.Object{Name: "a/b", UID: "uid of a/b"}))
	must(t, check.ErrorOf(s.Update(t.Context(), a.ID, account.Actor{}, settings.Layer{ThumbnailWidth: value(64)})))
	must(t, s.Unpin(t.Context(), "uid of a/c"))
	must(t, s.Unpin(t.Context(), "uid of a/b"))
	<-changed
	_, _, err = registry(store).OpenApps(t.Context(), a.ID, []string{"last"})
	must(t, err)
	<-changed
	if len(changed) > 0 {
		t.Error("a change that writes nothing notified")
	}
}
