package pages_test

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

const drawing = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 4"><script>alert(1)</script><rect width="4" height="4"/></svg>`

// write makes a file and gives its path.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, data, 0o600))
	return path
}

func picture(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	must(t, png.Encode(&out, image.NewGray(image.Rect(0, 0, 4, 4))))
	return out.Bytes()
}

func get(handler http.Handler, method, target string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, target, nil))
	return recorder
}

func TestAssets_AreServedImmutable(t *testing.T) {
	t.Parallel()
	// The contents say what a logo is, not the name.
	webp := append([]byte("RIFF\x1a\x00\x00\x00WEBPVP8L"), make([]byte, 32)...)
	for kind, logo := range map[string]string{
		"image/png":     write(t, "logo.svg", picture(t)),
		"image/webp":    write(t, "logo", webp),
		"image/svg+xml": write(t, "logo.png", []byte(drawing)),
	} {
		p, err := pages.New(pages.Config{Name: "Media", Color: brandColor, Logo: logo})
		must(t, err)
		d := read(t, func(w io.Writer) error { return p.Error(w, pages.ErrorPage{Title: "x"}) })
		found := map[string]bool{}
		for _, e := range d.all("link", "img") {
			target := e.get("href") + e.get("src")
			if !strings.HasPrefix(target, pages.AssetsPath) {
				t.Fatalf("%s is at %s", e.Data, target)
			}
			response := get(p.Assets(), http.MethodGet, target)
			body, header := response.Body.String(), response.Header()
			found[header.Get("Content-Type")] = true
			if response.Code != http.StatusOK || len(body) == 0 || header.Get("X-Content-Type-Options") != "nosniff" ||
				header.Get("Cache-Control") != "public, max-age=31536000, immutable" || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") || !strings.Contains(header.Get("Content-Security-Policy"), "sandbox") {
				t.Errorf("%s: %d, %d bytes, %v", target, response.Code, len(body), header)
			}
			for _, other := range []string{strings.Split(target, "?")[0], target + "0"} {
				if cache := get(p.Assets(), http.MethodGet, other).Header().Get("Cache-Control"); cache != "no-cache" {
					t.Errorf("%s, which is not the address, may be kept: %s", other, cache)
				}
			}
			if response := get(p.Assets(), http.MethodPost, target); response.Code != http.StatusMethodNotAllowed {
				t.Errorf("POST %s: %d", target, response.Code)
			}
			if head := get(p.Assets(), http.MethodHead, target); head.Code != http.StatusOK || head.Header().Get("Content-Length") != strconv.Itoa(len(body)) {
				t.Errorf("HEAD %s: %d, %v", target, head.Code, head.Header())
			}
		}
		if !found[kind] || !found["text/css; charset=utf-8"] || !found["image/svg+xml"] {
			t.Errorf("a %s logo is served among %v", kind, found)
		}
		if alt := d.all("img")[0].get("alt"); alt != "Media" {
			t.Errorf("the logo is read as %q", alt)
		}
		for _, target := range []string{pages.AssetsPath, pages.AssetsPath + "pages.go", pages.AssetsPath + "../assets.go", pages.AssetsPath + "files/style.css", "/style.css/x"} {
			if response := get(p.Assets(), http.MethodGet, target); response.Code != http.StatusNotFound {
				t.Errorf("%s: %d", target, response.Code)
			}
		}
	}
}

func TestStylesheet_HasBrandColor(t *testing.T) {
	t.Parallel()
	links := map[string]bool{}
	for _, color := range []string{"#FFB300", "#2456d6"} {
		p, err := pages.New(pages.Config{Name: "Media", Color: color})
		must(t, err)
		d := read(t, func(w io.Writer) error { return p.Error(w, pages.ErrorPage{Title: "x"}) })
		link := d.all("link")[1].get("href")
		links[link] = true
		body := get(p.Assets(), http.MethodGet, link).Body.String()
		if want := "--button-bg:" + strings.ToLower(color) + ";"; strings.Count(body, want) != 2 {
			t.Errorf("%s is not in both schemes", want)
		}
		for _, want := range []string{"prefers-color-scheme:dark", "prefers-reduced-motion", "forced-colors", ":focus-visible"} {
			if !strings.Contains(body, want) {
				t.Errorf("the style sheet heeds no %s", want)
			}
		}
	}
	if len(links) != 2 {
		t.Error("another color has the same address")
	}
}

func TestNew_NamesTheInvalidSetting(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		cfg  pages.Config
		want string // empty = fine
	}{
		"as it should be":      {pages.Config{Name: "Media", Color: "#A0b1C2"}, ""},
		"another script":       {pages.Config{Name: "メディア保管庫", Color: brandColor}, ""},
		"no name":              {pages.Config{Name: " ", Color: brandColor}, "SERVICE_BRAND_NAME"},
		"a long name":          {pages.Config{Name: strings.Repeat("ü", 61), Color: brandColor}, "SERVICE_BRAND_NAME"},
		"a name of two lines":  {pages.Config{Name: "Media\r\nBcc: x", Color: brandColor}, "SERVICE_BRAND_NAME"},
		"a turned name":        {pages.Config{Name: "Media\u202e", Color: brandColor}, "SERVICE_BRAND_NAME"},
		"broken UTF-8":         {pages.Config{Name: "Media\xff", Color: brandColor}, "SERVICE_BRAND_NAME"},
		"no color":             {pages.Config{Name: "Media"}, "SERVICE_BRAND_COLOR"},
		"a color's name":       {pages.Config{Name: "Media", Color: "yellow"}, "SERVICE_BRAND_COLOR"},
		"a short color":        {pages.Config{Name: "Media", Color: "#fff"}, "SERVICE_BRAND_COLOR"},
		"a color with more":    {pages.Config{Name: "Media", Color: "#ffffff;}"}, "SERVICE_BRAND_COLOR"},
		"a color of no digits": {pages.Config{Name: "Media", Color: "#ggg000"}, "SERVICE_BRAND_COLOR"},
		"a script as a link":   {pages.Config{Name: "Media", Color: brandColor, Privacy: "javascript:alert(1)"}, "SERVICE_PRIVACY_URL"},
		"a link with a user":   {pages.Config{Name: "Media", Color: brandColor, Terms: "https://a:b@example.org/"}, "SERVICE_TERMS_URL"},
		"a path as a link":     {pages.Config{Name: "Media", Color: brandColor, Website: "/about"}, "SERVICE_BRAND_WEBSITE"},
		"mail for the terms":   {pages.Config{Name: "Media", Color: brandColor, Terms: "mailto:a@example.org"}, "SERVICE_TERMS_URL"},
		"mail with a subject":  {pages.Config{Name: "Media", Color: brandColor, Support: "mailto:a@example.org?subject=x"}, "SERVICE_SUPPORT_URL"},
		"no such logo":         {pages.Config{Name: "Media", Color: brandColor, Logo: filepath.Join(t.TempDir(), "none.png")}, "SERVICE_BRAND_LOGO"},
		"a folder as logo":     {pages.Config{Name: "Media", Color: brandColor, Logo: t.TempDir()}, "SERVICE_BRAND_LOGO"},
		"an empty logo":        {pages.Config{Name: "Media", Color: brandColor, Logo: write(t, "logo.png", nil)}, "SERVICE_BRAND_LOGO"},
		"a page as logo":       {pages.Config{Name: "Media", Color: brandColor, Logo: write(t, "logo.svg", []byte("<!doctype html><title>x</title>"))}, "SERVICE_BRAND_LOGO"},
		"a GIF as logo":        {pages.Config{Name: "Media", Color: brandColor, Logo: write(t, "logo.png", []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;"))}, "SERVICE_BRAND_LOGO"},
		"a logo too large":     {pages.Config{Name: "Media", Color: brandColor, Logo: write(t, "logo.png", append(picture(t), make([]byte, 256<<10)...))}, "SERVICE_BRAND_LOGO"},
	} {
		p, err := pages.New(c.cfg)
		if (err == nil) != (c.want == "") || (p == nil) != (err != nil) || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}
