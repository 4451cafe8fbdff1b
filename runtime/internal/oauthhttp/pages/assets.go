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
)

// AssetsPath is where Assets is mounted.
const AssetsPath = "/oauth/assets/"

// maxLogo is the largest logo, in bytes.
const maxLogo = 256 << 10

// logoTypes are the types of a logo, with the name it is served under.
var logoTypes = map[string]string{"image/png": "logo.png", "image/webp": "logo.webp", "image/svg+xml": "logo.svg"}

// asset is a file of the pages.
type asset struct {
	kind string
	data []byte
	hash string
}

func newAsset(kind string, data []byte) asset {
	sum := sha256.Sum256(data)
	return asset{kind: kind, data: data, hash: hex.EncodeToString(sum[:8])}
}

// assets are by their names below AssetsPath.
type assets map[string]asset

// link is the address of an asset. It changes with the contents.
func (a assets) link(name string) string { return AssetsPath + name + "?v=" + a[name].hash }

// readLogo reads and judges the logo. What it is, its contents say.
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

// forever is a year, the longest that caches heed.
const forever = "public, max-age=31536000, immutable"

func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a[strings.TrimPrefix(r.URL.Path, AssetsPath)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header.Set("Content-Type", file.kind)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("ETag", `"`+file.hash+`"`)
	// The page may come from a replica of another version: what it asks for is not to
	// be kept under the wrong name.
	header.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == file.hash {
		header.Set("Cache-Control", forever)
	}
	// An SVG is a document when it is opened by itself.
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.data))
}
