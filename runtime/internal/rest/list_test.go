package rest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// recordingStore records the list that is requested. It has no items: other tests list them in
// PostgreSQL.
type recordingStore struct {
	media.Store
	lists []list
}

type list struct {
	filter        media.Filter
	limit, offset int
}

// ListItems records the list.
func (a *recordingStore) ListItems(_ context.Context, _ media.Scope, filter media.Filter, limit, offset int) (media.List, error) {
	a.lists = append(a.lists, list{filter, limit, offset})
	return media.List{}, nil
}

// anyKey is a store in which every key is valid.
type anyKey struct{ auth.CredentialStore }

// FindPrincipal returns a principal for any key.
func (anyKey) FindPrincipal(_ context.Context, hash account.Hash) (account.Principal, error) {
	return account.Principal{Key: account.Key{Hash: hash}}, nil
}

// Cell returns the number of the installation.
func (anyKey) Cell() cell.Number { return 0 }

// noURLs returns no URL for any file.
type noURLs struct{}

func (noURLs) URL(media.Item, media.Object, settings.Originals) string { return "" }

// FileURL returns nothing.
func (noURLs) FileURL(media.Item, settings.Originals) string { return "" }

// PictureURL returns nothing.
func (noURLs) PictureURL(media.Item, string, int, settings.Format) string { return "" }

// handler returns a handler of all routes, for a key that is valid, on a store.
func handler(f *testing.F, store media.Store) http.Handler {
	f.Helper()
	var cli struct {
		media.Config `embed:""`
	}
	parser, err := kong.New(&cli)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := parser.Parse(nil); err != nil { // for the defaults
		f.Fatal(err)
	}
	service, err := media.New(cli.Config, media.Deps{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	keys, err := auth.New(auth.Config{Secret: strings.Repeat("ab", 32), SignatureTTL: time.Hour, Brand: "service"},
		auth.Deps{Store: anyKey{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	token, err := account.NewKeySecret(0)
	if err != nil {
		f.Fatal(err)
	}
	limits, err := ratelimit.New(ratelimit.Config{}, ratelimit.Deps{Registry: prometheus.NewRegistry(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	routes, err := New(Config{BaseURL: "http://media.test", Brand: "service", MaxBatches: 4}, Deps{Media: service, Auth: keys, Limits: limits, Documents: api.Documents{URLs: noURLs{}}})
	if err != nil {
		f.Fatal(err)
	}
	router := chi.NewRouter()
	routes.Mount(router)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(keys.KeyHeader, token.Reveal())
		router.ServeHTTP(w, r)
	})
}

// FuzzList_UsesTheParametersThatWereSent sends the same parameters in a query, by GET and POST, and
// in a body. All three request the same list within the bounds, or all three are rejected.
func FuzzList_UsesTheParametersThatWereSent(f *testing.F) {
	for _, page := range []string{"", "1", "0", "-1", "007", "+1", "1.0", "1e2", " 1", "2147483648", "9223372036854775808", "x", "0x10"} {
		f.Add(page, "10", "public", "a b&c", uint8(0xff))
		f.Add("1", page, "", "", uint8(3))
	}
	f.Add("1", "100", "Public", "\x00", uint8(0xff))
	f.Add("1", "101", "private", strings.Repeat("ü", 128), uint8(0xff))
	f.Add("1", "1", "", "\xff", uint8(0xff))
	var store recordingStore
	routes := handler(f, &store)
	f.Fuzz(func(t *testing.T, page, limit, access, group string, which uint8) {
		query, body := url.Values{}, map[string]any{}
		exact := true // a body can have the same parameters
		sent := 0     // parameters that are not empty, which means absent
		for i, field := range []struct {
			name, value string
			number      bool
		}{{"page", page, true}, {"limit", limit, true}, {"access", access, false}, {"group", group, false}} {
			if which&(1<<i) == 0 {
				continue
			}
			query.Set(field.name, field.value)
			if field.value != "" {
				sent++
			}
			if body[field.name] = field.value; field.number {
				n, err := strconv.ParseInt(field.value, 10, 64)
				exact = exact && err == nil && strconv.FormatInt(n, 10) == field.value
				body[field.name] = n
			}
			exact = exact && utf8.ValidString(field.value)
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(r *http.Request) (int, list) {
			store.lists = nil
			w := httptest.NewRecorder()
			routes.ServeHTTP(w, r)
			switch {
			case w.Code == http.StatusOK && len(store.lists) == 1:
				return w.Code, store.lists[0]
			case w.Code == http.StatusBadRequest && len(store.lists) == 0:
				return w.Code, list{}
			}
			t.Fatalf("%s %s %s: %d, %d lists", r.Method, r.URL, text, w.Code, len(store.lists))
			return 0, list{}
		}
		status, got := ask(httptest.NewRequest(http.MethodGet, "/media/get?"+query.Encode(), nil))
		if otherStatus, otherFilter := ask(httptest.NewRequest(http.MethodPost, "/media/get?"+query.Encode(), nil)); otherStatus != status || otherFilter != got {
			t.Fatalf("POST: %d %+v, GET: %d %+v", otherStatus, otherFilter, status, got)
		}
		if exact {
			if otherStatus, otherFilter := ask(httptest.NewRequest(http.MethodPost, "/media/get", strings.NewReader(string(text)))); otherStatus != status || otherFilter != got {
				t.Fatalf("the body %s: %d %+v, the query: %d %+v", text, otherStatus, otherFilter, status, got)
			}
			// A parameter in both the query and the body is rejected.
			if otherStatus, otherFilter := ask(httptest.NewRequest(http.MethodPost, "/media/get?"+query.Encode(), strings.NewReader(string(text)))); sent > 0 && otherStatus != http.StatusBadRequest {
				t.Fatalf("both are answered %d %+v", otherStatus, otherFilter)
			}
		}
		if status != http.StatusOK {
			return
		}
		if got.limit < 1 || got.limit > media.MaxLimit || got.offset < 0 || got.offset > media.MaxOffset {
			t.Fatalf("%s requests %+v", query.Encode(), got)
		}
		if a := got.filter.Access; a != "" && a != media.Public && a != media.Private || len(got.filter.Group) > media.MaxGroup || !utf8.ValidString(got.filter.Group) {
			t.Fatalf("%s requests %+v", query.Encode(), got)
		}
		if which&8 != 0 && got.filter.Group != group || which&4 != 0 && string(got.filter.Access) != access {
			t.Fatalf("%s requests %+v", query.Encode(), got)
		}
	})
}
