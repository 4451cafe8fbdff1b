// Package apidocs serves the API reference for people: a page at /docs that shows
// /openapi.json with Swagger UI. Package server mounts it; package rest serves the
// document. The viewer is vendored by `make api-viewer` (docs/decisions/0013).
package apidocs

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// Routes of the package.
const (
	pageRoute  = "/docs"
	assetRoute = "/docs/assets/{name}"
)

//go:embed index.html start.js swagger-ui
var files embed.FS

// contentTypes has the files that are served. The viewer's licences are among them,
// because they must be distributed with it.
var contentTypes = map[string]string{
	"start.js":                                    "text/javascript; charset=utf-8",
	"swagger-ui/swagger-ui-bundle.js":             "text/javascript; charset=utf-8",
	"swagger-ui/swagger-ui.css":                   "text/css; charset=utf-8",
	"swagger-ui/LICENSE":                          "text/plain; charset=utf-8",
	"swagger-ui/NOTICE":                           "text/plain; charset=utf-8",
	"swagger-ui/swagger-ui-bundle.js.LICENSE.txt": "text/plain; charset=utf-8",
}

// page is rendered with the relative URLs of its assets, so that it also works behind a
// path prefix.
var page = template.Must(template.ParseFS(files, "index.html"))

// policy lets the page load what this package and /openapi.json serve, and nothing else.
// The style sheet has its icons as data URLs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Values of Cache-Control: for a URL that changes with its content, and for one that does not.
const (
	cacheForever = "public, max-age=31536000, immutable"
	revalidate   = "no-cache"
)

// asset is a file that is served as it is.
type asset struct {
	contentType string
	content     io.ReaderAt // an embedded file is read from the program, not copied
	size        int64
	hash        string
}

func newAsset(contentType string, content io.ReaderAt, size int64) (asset, error) {
	digest := sha256.New()
	if _, err := io.Copy(digest, io.NewSectionReader(content, 0, size)); err != nil {
		return asset{}, err
	}
	return asset{contentType: contentType, content: content, size: size, hash: hex.EncodeToString(digest.Sum(nil)[:8])}, nil
}

// openAsset returns an embedded file.
func openAsset(contentType, file string) (asset, error) {
	opened, err := files.Open(file) // it needs no Close
	if err != nil {
		return asset{}, err
	}
	info, err := opened.Stat()
	if err != nil {
		return asset{}, err
	}
	content, ok := opened.(io.ReaderAt)
	if !ok {
		return asset{}, fmt.Errorf("%s cannot be read at an offset", file)
	}
	return newAsset(contentType, content, info.Size())
}

// Reference serves the API reference. It is safe for concurrent use.
type Reference struct {
	page   asset
	assets map[string]asset
}

// New returns the API reference.
func New() (*Reference, error) {
	reference := &Reference{assets: map[string]asset{}}
	urls := map[string]string{}
	for file, contentType := range contentTypes {
		one, err := openAsset(contentType, file)
		if err != nil {
			return nil, err
		}
		name := path.Base(file)
		reference.assets[name] = one
		urls[name] = "docs/assets/" + name + "?v=" + one.hash
	}
	var text bytes.Buffer
	if err := page.Execute(&text, urls); err != nil {
		return nil, fmt.Errorf("render the API reference: %w", err)
	}
	var err error
	reference.page, err = newAsset("text/html; charset=utf-8", bytes.NewReader(text.Bytes()), int64(text.Len()))
	return reference, err
}

// Mount adds the routes.
func (d *Reference) Mount(r chi.Router) {
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r.MethodFunc(method, pageRoute, d.servePage)
		r.MethodFunc(method, pageRoute+"/", redirectToPage)
		r.MethodFunc(method, assetRoute, d.serveAsset)
	}
}

func (d *Reference) servePage(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	d.page.serve(w, r, revalidate)
}

// redirectToPage removes the trailing slash, relative to which the page's URLs do not work.
func redirectToPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "../docs")
	w.WriteHeader(http.StatusPermanentRedirect)
}

func (d *Reference) serveAsset(w http.ResponseWriter, r *http.Request) {
	one, ok := d.assets[chi.URLParam(r, "name")]
	if !ok {
		httpapi.WriteError(w, r, fault.New(fault.NotFound, "route not found"))
		return
	}
	// During an upgrade the page may come from a replica of another version: an asset must
	// not be cached under the hash of another one.
	caching := revalidate
	if r.URL.Query().Get("v") == one.hash {
		caching = cacheForever
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	one.serve(w, r, caching)
}

func (a asset) serve(w http.ResponseWriter, r *http.Request, caching string) {
	header := w.Header()
	header.Set("Content-Type", a.contentType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", caching)
	header.Set("ETag", `"`+a.hash+`"`)
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(a.content, 0, a.size))
}
