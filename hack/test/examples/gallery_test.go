package examples_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
)

// A page of more new pictures than one client IP may have made has no broken image, at its first load, at the next one, and for
// other clients.
func TestGallery_OfNewPicturesHasNoBrokenImage(t *testing.T) {
	t.Parallel()
	const pictures, clients = 200, 20
	browsers := node.New(t, "hack/test/browser")
	s := startStackWith(t, "SERVICE_RATE_LIMIT_KEY=0", "SERVICE_TRUSTED_PROXIES=127.0.0.0/8")
	send := func(method, path string, body io.Reader, header ...string) []byte {
		t.Helper()
		got, err := exchange.Send(t.Context(), http.DefaultClient, method, s.BaseURL+path, body, append(header, "x-service-apikey", s.APIKey)...)
		if err != nil || got.Status/100 != 2 {
			t.Fatalf("%s %s is answered %d: %s, %v", method, path, got.Status, got.Body, err)
		}
		return got.Body
	}
	send(http.MethodPost, "/settings/media/create", strings.NewReader(`{"presets": [{"name": "tile", "width": 200, "format": "jpeg"}]}`), "Content-Type", "application/json")
	file := photo(t, 260, 130)
	var urls []string
	for i := range pictures {
		// The files differ, so that each has pictures of its own.
		form, contentType := exchange.Form(fmt.Sprintf("photo-%d.jpg", i), fmt.Appendf(slices.Clone(file), "%d", i), "access", "public")
		var draft struct{ MediaID string }
		must(t, json.Unmarshal(send(http.MethodPost, "/media/create", bytes.NewReader(form), "Content-Type", contentType), &draft))
		send(http.MethodPost, "/media/seal/"+draft.MediaID, nil)
		var item struct {
			Presets map[string]struct{ URL string }
		}
		must(t, json.Unmarshal(send(http.MethodGet, "/media/get/"+draft.MediaID+"?fields=presets", nil), &item))
		if item.Presets["tile"].URL == "" {
			t.Fatalf("the item %s has no picture", draft.MediaID)
		}
		urls = append(urls, item.Presets["tile"].URL)
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for _, url := range urls {
			fmt.Fprintf(w, "<img src=%q width=200>\n", url)
		}
	}))
	defer page.Close()
	others := make([]string, clients)
	for i := range others {
		others[i] = fmt.Sprintf("2001:db8:2:%x::1", i)
	}
	options, err := json.Marshal(map[string]any{
		"browser": testenv.Program(t, "chromium"), "page": page.URL, "others": others, "timeout": stepTimeout.Milliseconds(),
	})
	must(t, err)
	program := filepath.Join(filepath.Dir(browsers.Script(t, "fixture.mjs")), "gallery.mjs")
	text, err := os.ReadFile("gallery.mjs")
	must(t, err)
	must(t, os.WriteFile(program, text, 0o600))
	result := browsers.Run(t, stepTimeout, program, string(options))
	type counts struct{ Broken, Substitutes, Pictures, Errors int }
	var loads struct {
		First, Again counts
		Others       []counts
	}
	if err := json.Unmarshal([]byte(result.Stdout), &loads); err != nil || result.Code != 0 {
		t.Fatalf("the script ended with %d: %v: %s%s", result.Code, err, result.Stdout, result.Stderr)
	}
	t.Logf("%+v\n%s", loads, result.Stderr)
	if loads.First.Substitutes == 0 || loads.First.Pictures < 120 {
		t.Errorf("the limit was not reached, or rejects too much: %+v", loads.First)
	}
	for i, load := range append([]counts{loads.First, loads.Again}, loads.Others...) {
		if load.Broken != 0 || load.Errors != 0 || load.Pictures+load.Substitutes != pictures {
			t.Errorf("load %d: %+v", i, load)
		}
	}
}
