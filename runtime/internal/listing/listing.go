// Package listing has what MCP clients and directories read to find the service: the server card, the catalog that leads
// to it, the token that proves who has the domain, and the document for a registry. All of it is the same for everyone:
// it is made from the configuration, so it can name no tenant. Package server mounts it, and the command server-json
// prints the document.
package listing

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/runtime/internal/api"
)

// Deps are what other packages know of the service.
type Deps struct {
	// ProtocolVersions are those of MCP that the endpoint speaks.
	ProtocolVersions []string
	// Icons are those of the brand.
	Icons []Icon
	// KeyHeader is the header of API keys where nobody can log in; empty = clients log in.
	KeyHeader string
}

// Listing serves the documents. It is safe for concurrent use.
type Listing struct {
	cfg  Config
	deps Deps
	root string // the base URL without a slash at its end
}

// New returns a Listing.
func New(cfg Config, deps Deps) (*Listing, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Listing{cfg: cfg, deps: deps, root: strings.TrimRight(cfg.BaseURL, "/")}, nil
}

// CatalogPaths are those of the catalog: that of the specification, and that of its drafts until July 2026, which clients
// still ask for.
var CatalogPaths = []string{api.WellKnownPath + "ai-catalog.json", api.WellKnownPath + "mcp/catalog.json"}

// ChallengePath is that of the token of OpenAI.
const ChallengePath = api.WellKnownPath + "openai-apps-challenge"

// Mount adds the routes of what is configured.
func (l *Listing) Mount(r chi.Router) {
	if l.cfg.Challenge != "" {
		get(r, ChallengePath, static("text/plain; charset=utf-8", []byte(l.cfg.Challenge)))
	}
	if !l.cfg.Enabled {
		return
	}
	get(r, api.ServerCardRoute, static(cardType, encode(l.card())))
	for _, path := range CatalogPaths {
		get(r, path, static(catalogType, encode(l.catalog())))
	}
}

func get(r chi.Router, path string, handler http.Handler) {
	r.Method(http.MethodGet, path, handler)
	r.Method(http.MethodHead, path, handler)
}

// encode returns a document as JSON.
func encode(of any) []byte {
	text, err := json.MarshalIndent(of, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("listing: %v", err)) // no type of this package fails
	}
	return append(text, '\n')
}

// static answers with a document that does not change while the process runs.
func static(kind string, body []byte) http.Handler {
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", kind)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "public, max-age=3600") // it changes with the configuration only
		header.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body)) // which answers If-None-Match
	})
}
