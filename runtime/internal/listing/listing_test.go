package listing_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/internal/listing"
)

var must = check.NoError

func config() listing.Config {
	return listing.Config{Enabled: true, Description: "Pictures of the town.", Title: "Town pictures", Version: "1.2.3", BaseURL: "https://media.example.com"}
}

var deps = listing.Deps{ProtocolVersions: []string{"2026-07-28", "2025-11-25"}, Icons: []listing.Icon{{URL: "https://media.example.com/oauth/assets/mark.svg?v=1", Type: "image/svg+xml", Sizes: []string{"any"}}}}

// schema compiles a schema of testdata; definition is a part of it, or empty.
func schema(t *testing.T, file, definition string) *jsonschema.Schema {
	t.Helper()
	text, err := os.Open(filepath.Join("testdata", file))
	must(t, err)
	defer text.Close()
	document, err := jsonschema.UnmarshalJSON(text)
	must(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	must(t, compiler.AddResource("schema://"+file, document))
	compiled, err := compiler.Compile("schema://" + file + definition)
	must(t, err)
	return compiled
}

func valid(t *testing.T, what string, against *jsonschema.Schema, text string) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	must(t, err)
	if err := against.Validate(document); err != nil {
		t.Errorf("%s: %v: %s", what, err, text)
	}
}

func serve(t *testing.T, cfg listing.Config, d listing.Deps) http.Handler {
	t.Helper()
	found, err := listing.New(cfg, d)
	must(t, err)
	routes := chi.NewRouter()
	found.Mount(routes)
	return routes
}

func get(t *testing.T, from http.Handler, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for name, values := range header {
		request.Header[name] = values
	}
	answer := httptest.NewRecorder()
	from.ServeHTTP(answer, request)
	return answer
}

// configurations are those that the documents are validated with.
func configurations() map[string]func(*listing.Config, *listing.Deps) {
	return map[string]func(*listing.Config, *listing.Deps){
		"the default":          func(*listing.Config, *listing.Deps) {},
		"a name":               func(c *listing.Config, _ *listing.Deps) { c.Name = "org.example/media.files" },
		"a website":            func(c *listing.Config, _ *listing.Deps) { c.Website = "https://example.com/media?a=b" },
		"no icon, keys":        func(_ *listing.Config, d *listing.Deps) { d.Icons, d.KeyHeader = nil, "x-service-apikey" },
		"a path":               func(c *listing.Config, _ *listing.Deps) { c.BaseURL = "https://example.com:8443/media/" },
		"a long text":          func(c *listing.Config, _ *listing.Deps) { c.Description = strings.Repeat("ä", 100) },
		"a version of a build": func(c *listing.Config, _ *listing.Deps) { c.Version = "v0.7.1-0.20261128210000-abcdef012345" },
	}
}

func TestCard_IsValid(t *testing.T) {
	t.Parallel()
	card := schema(t, "server-card.schema.json", "#/$defs/ServerCard")
	others := map[string]func(*listing.Config, *listing.Deps){
		"an address":  func(c *listing.Config, _ *listing.Deps) { c.BaseURL = "http://127.0.0.1:8080" },
		"another one": func(c *listing.Config, _ *listing.Deps) { c.BaseURL = "http://[::1]:8080" },
		"localhost":   func(c *listing.Config, _ *listing.Deps) { c.BaseURL = "http://localhost:8080" },
	}
	for name, change := range configurations() {
		others[name] = change
	}
	for name, change := range others {
		cfg, d := config(), deps
		change(&cfg, &d)
		answer := get(t, serve(t, cfg, d), "/mcp/server-card", nil)
		if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "application/mcp-server-card+json" || answer.Header().Get("Cache-Control") != "public, max-age=3600" {
			t.Errorf("%s: %d %v", name, answer.Code, answer.Header())
		}
		valid(t, name, card, answer.Body.String())
	}
}

func TestServerJSON_IsValid(t *testing.T) {
	t.Parallel()
	registry := schema(t, "server.schema.json", "")
	for name, change := range configurations() {
		cfg, d := config(), deps
		change(&cfg, &d)
		found, err := listing.New(cfg, d)
		must(t, err)
		document, err := found.ServerJSON()
		must(t, err)
		text, err := json.Marshal(document)
		must(t, err)
		valid(t, name, registry, string(text))
	}
}

// The schemas reject something, so a document that is valid says something.
func TestSchemas_RejectWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, of := range []*jsonschema.Schema{schema(t, "server-card.schema.json", "#/$defs/ServerCard"), schema(t, "server.schema.json", "")} {
		for _, text := range []string{`{}`, `{"name": "x", "description": "d", "version": "1", "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"}`} {
			document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			must(t, err)
			if of.Validate(document) == nil {
				t.Errorf("%s is valid", text)
			}
		}
	}
}

func TestServerJSON_NeedsAPublicAddress(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"http://media.example.com", "https://127.0.0.1", "https://localhost", "https://[::1]:443", "https://media"} {
		cfg := config()
		cfg.BaseURL = base
		found, err := listing.New(cfg, deps)
		must(t, err)
		if _, err := found.ServerJSON(); err == nil || !strings.Contains(err.Error(), "SERVICE_BASE_URL") {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// The catalog is at the path of the specification, and at that of its drafts, and leads to the card.
func TestCatalog_LeadsToTheCard(t *testing.T) {
	t.Parallel()
	routes := serve(t, config(), deps)
	var texts []string
	for _, path := range []string{"/.well-known/ai-catalog.json", "/.well-known/mcp/catalog.json"} {
		answer := get(t, routes, path, nil)
		var document struct {
			SpecVersion string
			Entries     []map[string]string
		}
		must(t, json.Unmarshal(answer.Body.Bytes(), &document))
		if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "application/ai-catalog+json" || document.SpecVersion != "1.0" || len(document.Entries) != 1 {
			t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
		}
		entry := document.Entries[0]
		if len(entry) != 3 || entry["identifier"] != "urn:air:media.example.com:mcp:media-storage" || entry["type"] != "application/mcp-server-card+json" || entry["url"] != "https://media.example.com/mcp/server-card" {
			t.Errorf("%s has %v", path, entry)
		}
		texts = append(texts, answer.Body.String())
	}
	if texts[0] != texts[1] {
		t.Errorf("they differ: %q", texts)
	}
}

func TestDocuments_AreRevalidatedByTheirTag(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Challenge = "token-1"
	routes := serve(t, cfg, deps)
	for _, path := range []string{"/mcp/server-card", "/.well-known/ai-catalog.json", listing.ChallengePath} {
		first := get(t, routes, path, nil)
		again := get(t, routes, path, http.Header{"If-None-Match": {first.Header().Get("ETag")}})
		if first.Header().Get("ETag") == "" || again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s: %d %v", path, again.Code, first.Header())
		}
	}
}

func TestChallenge_IsServedAsItIs(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Challenge, cfg.Enabled = "abc_123-XYZ", false
	routes := serve(t, cfg, deps)
	if answer := get(t, routes, "/.well-known/openai-apps-challenge", nil); answer.Code != http.StatusOK || answer.Body.String() != "abc_123-XYZ" || answer.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %v %q", answer.Code, answer.Header(), answer.Body)
	}
	for _, path := range []string{"/mcp/server-card", "/.well-known/ai-catalog.json", "/.well-known/mcp/catalog.json"} {
		if answer := get(t, routes, path, nil); answer.Code != http.StatusNotFound {
			t.Errorf("%s without a listing: %d", path, answer.Code)
		}
	}
	if answer := get(t, serve(t, config(), deps), listing.ChallengePath, nil); answer.Code != http.StatusNotFound {
		t.Errorf("without a token: %d", answer.Code)
	}
}

func TestConfig_RejectsWhatNoDocumentMayHave(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*listing.Config){
		"SERVICE_LISTING_NAME":           func(c *listing.Config) { c.Name = "media" },
		"SERVICE_LISTING_NAME must":      func(c *listing.Config) { c.Name = "com.example/" + strings.Repeat("a", 200) },
		"SERVICE_LISTING_DESCRIPTION":    func(c *listing.Config) { c.Description = "" },
		"SERVICE_LISTING_DESCRIPTION m":  func(c *listing.Config) { c.Description = strings.Repeat("a", 101) },
		"SERVICE_LISTING_DESCRIPTION mu": func(c *listing.Config) { c.Description = "a\nb" },
		"SERVICE_OPENAI_APPS_CHALLENGE":  func(c *listing.Config) { c.Challenge = "a b" },
	} {
		cfg := config()
		change(&cfg)
		if _, err := listing.New(cfg, deps); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReversedHost_IsTheNamespaceOfAHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"media.example.com": "com.example.media", "Media.Example.COM.": "com.example.media", "localhost": "localhost", "127.0.0.1": "local", "::1": "local", "": "local", "xn--bcher-kva.example": "example.xn--bcher-kva"} {
		if got := listing.ReversedHost(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}
