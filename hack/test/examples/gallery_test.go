package examples_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	folder := testenv.TempDir(t)
	must(t, os.WriteFile(filepath.Join(folder, "photo.jpg"), photo(t), 0o600))
	// The files differ, so that each has pictures of its own.
	script := `
KEY="x-service-apikey: $API_KEY"
curl -fsS -o presets.json -X POST "$URL/settings/media/create" -H "$KEY" -d '{"presets": [{"name": "tile", "width": 200, "format": "jpeg"}]}'
for i in $(seq "$1"); do
	{ cat photo.jpg; echo "$i"; } > "photo-$i.jpg"
	ID=$(curl -fsS -X POST "$URL/media/create" -H "$KEY" -F access=public -F file=@"photo-$i.jpg" | jq -r .mediaId)
	curl -fsS -o sealed.json -X POST "$URL/media/seal/$ID" -H "$KEY"
	curl -fsS "$URL/media/get/$ID?fields=presets" -H "$KEY" | jq -r .presets.tile.url
done`
	urls := strings.Fields(testenv.Run(t, stepTimeout, folder, "env", "URL="+s.BaseURL, "API_KEY="+s.APIKey, "bash", "-euo", "pipefail", "-c", script, "gallery", fmt.Sprint(pictures)))
	if len(urls) != pictures {
		t.Fatalf("%d addresses: %v", len(urls), urls)
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
