package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gabriel-vasile/mimetype"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// AssetsPath is where Assets is mounted.
const AssetsPath = "/oauth/assets/"

// maxLogo bounds the logo, in bytes.
const maxLogo = 256 << 10

// logoTypes maps the accepted media types of a logo to the names of the asset.
var logoTypes = map[string]string{"image/png": "logo.png", "image/webp": "logo.webp", "image/svg+xml": "logo.svg"}

// asset is a static file that the pages link to.
type asset struct {
	contentType string
	data        []byte
	hash        string
}

func newAsset(kind string, data []byte) asset {
	sum := sha256.Sum256(data)
	return asset{contentType: kind, data: data, hash: hex.EncodeToString(sum[:8])}
}

// assets maps names below AssetsPath to files.
type assets map[string]asset

// link returns the URL of an asset. It contains a hash of the content.
func (a assets) link(name string) string { return AssetsPath + name + "?v=" + a[name].hash }

// readLogo reads the logo and detects its media type from its content.
func readLogo(path string) (name string, logo asset, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", asset{}, fmt.Errorf("SERVICE_BRAND_LOGO: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxLogo+1))
	if err != nil {
		return "", asset{}, fmt.Errorf("SERVICE_BRAND_LOGO: %w", err)
	}
	if len(data) > maxLogo {
		return "", asset{}, fmt.Errorf("SERVICE_BRAND_LOGO must be a file of at most %d bytes", maxLogo)
	}
	kind, _, _ := strings.Cut(mimetype.Detect(data).String(), ";")
	name, ok := logoTypes[kind]
	if !ok {
		return "", asset{}, errors.New("SERVICE_BRAND_LOGO must be a PNG, SVG or WebP file, but is " + kind)
	}
	return name, newAsset(kind, data), nil
}

// Assets serves the files of the pages below AssetsPath.
func (p *Pages) Assets() http.Handler { return p.assets }

// immutableCacheControl permits caching for a year, the conventional maximum.
const immutableCacheControl = "public, max-age=31536000, immutable"

func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a[strings.TrimPrefix(r.URL.Path, AssetsPath)]
	if !ok {
		httpapi.WriteError(w, r, fault.New(fault.NotFound, "route not found"))
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		httpapi.WriteMethodNotAllowed(w, r, http.MethodGet, http.MethodHead)
		return
	}
	header := w.Header()
	header.Set("Content-Type", file.contentType)
	header.Set("X-Content-Type-Options", "nosniff")
	// Clients on other origins show the picture of the brand, whose address the server card has.
	policy := "same-origin"
	if strings.HasPrefix(file.contentType, "image/") {
		policy = "cross-origin"
	}
	header.Set("Cross-Origin-Resource-Policy", policy)
	header.Set("ETag", `"`+file.hash+`"`)
	// During an update, a replica of another version may have rendered the page. Content
	// must not be cached under the hash of another version.
	header.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == file.hash {
		header.Set("Cache-Control", immutableCacheControl)
	}
	// A browser runs an SVG as a document if it is opened directly.
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.data))
}
