package cdn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/testenv"
)

// Everything that a change makes wrong is gone from the edge at once, and does not come back.
func TestEdge_ForgetsWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	card := map[string]any{"name": "card", "width": 100, "height": 100, "fit": "cover", "focus": "point", "format": "png"}
	wide := map[string]any{"name": "wide", "width": 120, "format": "png"}
	auto := map[string]any{"name": "auto", "width": 50, "format": "auto"}
	s.presets(card, wide, auto)

	t.Run("a delete", func(t *testing.T) {
		id, url := s.upload("a.txt", text(1000))
		plain, _, _ := strings.Cut(url, "?")
		s.keep(url)
		s.keep(plain)
		s.call(1, http.MethodDelete, "/media/delete/"+id, nil)
		s.becomes("the deleted file", url, gone)
		s.becomes("the deleted file without its version", plain, gone)
	})
	t.Run("a change to private, and back", func(t *testing.T) {
		id, url := s.upload("a.txt", text(1000))
		s.keep(url)
		s.patch(0, id, map[string]any{"access": "private"})
		s.becomes("the private file", url, gone)
		signed := s.document(id).File
		for range 2 {
			if got := s.get(signed); got.Status != http.StatusOK || got.Header.Get("Cache-Status") == hit {
				t.Errorf("the private file by its signed address: %d, %q", got.Status, got.Header.Get("Cache-Status"))
			}
		}
		s.becomes("the private file, which its owner has read", url, gone)
		s.patch(1, id, map[string]any{"access": "public"})
		s.becomes("the public file", url, func(got exchange.Answer) string {
			if got.Status != http.StatusOK {
				return fmt.Sprint(got.Status)
			}
			return ""
		})
		if got := s.get(url); got.Header.Get("Cache-Status") != hit {
			t.Errorf("the file that is public again is answered %d, %q", got.Status, got.Header.Get("Cache-Status"))
		}
	})
	t.Run("a rename", func(t *testing.T) {
		id, url := s.upload("former.txt", text(1000))
		if was := s.keep(url).Header.Get("Content-Disposition"); !strings.Contains(was, "former.txt") {
			t.Fatalf("Content-Disposition is %s", was)
		}
		s.patch(0, id, map[string]any{"fileName": "latter.txt"})
		s.becomes("the renamed file", url, func(got exchange.Answer) string {
			if disposition := got.Header.Get("Content-Disposition"); got.Status != http.StatusOK || !strings.Contains(disposition, "latter.txt") {
				return fmt.Sprintf("%d, %s", got.Status, disposition)
			}
			return ""
		})
	})
	t.Run("a moved focus, and a changed preset", func(t *testing.T) {
		id, _ := s.upload("a.png", picture(t))
		s.patch(0, id, map[string]any{"focus": map[string]any{"x": 0.1, "y": 0.5}})
		s.settle() // or the purge of this change ends the copy that keep makes
		presets := s.document(id).Presets
		left, first := s.keep(presets["card"].URL), s.keep(presets["wide"].URL)
		s.patch(1, id, map[string]any{"focus": map[string]any{"x": 0.9, "y": 0.5}})
		s.becomes("the picture with another focus", presets["card"].URL, other(left))
		wide["width"] = 60
		s.presets(card, wide, auto)
		s.becomes("the picture of a changed preset", presets["wide"].URL, other(first))
		s.settle()
		untouched, _ := s.upload("b.png", picture(t))
		kept := s.document(untouched).Presets["card"].URL
		s.keep(kept)
		s.presets(card, auto)
		s.becomes("the picture of a preset that is no more", presets["wide"].URL, gone)
		if got := s.get(kept); got.Header.Get("Cache-Status") != hit {
			t.Errorf("the picture of another preset is answered %d, %q", got.Status, got.Header.Get("Cache-Status"))
		}
	})
	s.settle()
	t.Run("originals that are signed from now on", func(t *testing.T) {
		_, url := s.upload("a.png", picture(t))
		s.keep(url)
		s.call(0, http.MethodPost, "/settings/media/create", map[string]any{"originals": "signed"})
		s.becomes("the original", url, gone)
		s.settle()
		s.call(0, http.MethodPost, "/settings/media/create", map[string]any{"originals": "public"})
	})

	t.Run("the suspension of the account", func(t *testing.T) {
		var urls []string
		for range 5 {
			_, url := s.upload("a.txt", text(1000))
			s.keep(url)
			urls = append(urls, url)
		}
		s.way.Set(testenv.ProxyCut)
		before := s.count("SELECT coalesce(max(id), 0) FROM cdn_purge")
		s.suspend(true)
		if n := s.count(fmt.Sprintf("SELECT count(*) FROM cdn_purge WHERE id > %d", before)); n != 1 {
			t.Errorf("the suspension has queued %d purges", n)
		}
		s.way.Set(testenv.ProxyOpen)
		for _, url := range urls {
			s.becomes("a file of a suspended account", url, func(got exchange.Answer) string {
				if got.Status/100 != 4 {
					return fmt.Sprintf("%d, %q", got.Status, got.Header.Get("Cache-Status"))
				}
				return ""
			})
		}
		s.settle()
	})
}

// An address has one copy at the edge, whatever a client adds to it, and clients see nothing that is for the edge.
func TestEdge_KeepsOneCopyOfAnAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	data := text(1000)
	_, url := s.upload("a.txt", data)
	sum := sha256.Sum256(data)
	version := hex.EncodeToString(sum[:6])
	plain, query, _ := strings.Cut(url, "?")
	if query != "v="+version {
		t.Fatalf("the address of the document is %s", url)
	}
	if got := s.get(s.at(0, url)); got.Header.Get("Surrogate-Key") == "" || got.Header.Get("CDN-Cache-Control") != "max-age=31536000" {
		t.Errorf("a replica answers the edge with %v", got.Header)
	}
	for address, control := range map[string]string{url: "public, max-age=31536000, immutable", plain: "public, max-age=3600"} {
		kept := s.keep(address)
		if got := kept.Header.Get("Cache-Control"); got != control {
			t.Errorf("%s is answered with Cache-Control: %s", address, got)
		}
		for _, name := range []string{"Surrogate-Key", "Surrogate-Control", "Cache-Tag", "CDN-Cache-Control", "Xkey", "X-Varnish", "Via", "Age", "X-Request-Id"} {
			if got := kept.Header.Get(name); got != "" {
				t.Errorf("the client of %s sees %s: %s", address, name, got)
			}
		}
		if kept.Header.Get("Access-Control-Allow-Origin") != "*" || string(kept.Body) != string(data) {
			t.Errorf("%s is answered with %v", address, kept.Header)
		}
	}
	base, _, _ := strings.Cut(strings.TrimPrefix(plain, s.edge), "/a.txt")
	for _, address := range []string{
		plain + "?utm_source=mail", plain + "?v=", plain + "?v=XYZ", plain + "?v=" + version + "0", plain + "?av=" + version, s.edge + base + "/another-name.txt",
		url + "&utm_source=mail", plain + "?a=b&v=" + version + "&c=d", s.edge + base + "/another-name.txt?v=" + version,
	} {
		want := "public, max-age=3600"
		if strings.Contains(address, "v="+version) && !strings.Contains(address, version+"0") && !strings.Contains(address, "?av=") {
			want = "public, max-age=31536000, immutable"
		}
		if got := s.get(address); got.Header.Get("Cache-Status") != hit || got.Header.Get("Cache-Control") != want {
			t.Errorf("%s: %d, %q, %s", address, got.Status, got.Header.Get("Cache-Status"), got.Header.Get("Cache-Control"))
		}
	}
	for _, header := range [][]string{{"Cookie", "a=b"}, {"Authorization", "Bearer a"}, {"Origin", "https://example.org"}, {"Accept", "text/html"}, {"Cache-Control", "no-cache"}, {"X-Forwarded-Host", "evil.example"}} {
		if got := s.get(url, header...); got.Header.Get("Cache-Status") != hit || got.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("with %v: %d, %q", header, got.Status, got.Header.Get("Cache-Status"))
		}
	}
	if got := s.get(url, "Range", "bytes=10-19"); got.Status != http.StatusPartialContent || string(got.Body) != string(data[10:20]) || got.Header.Get("Cache-Status") != hit {
		t.Errorf("a range: %d, %q", got.Status, got.Header.Get("Cache-Status"))
	}
	if got := s.get(url, "If-None-Match", `"`+hex.EncodeToString(sum[:])+`"`); got.Status != http.StatusNotModified || got.Header.Get("Cache-Status") != hit {
		t.Errorf("a condition: %d, %q", got.Status, got.Header.Get("Cache-Status"))
	}
}

// A picture whose format is negotiated has one copy for each format, not for each browser.
func TestEdge_KeepsOnePictureOfAFormat(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.presets(map[string]any{"name": "auto", "width": 50, "format": "auto"})
	id, _ := s.upload("a.png", picture(t))
	url := s.document(id).Presets["auto"].URL
	const chrome, firefox, old = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8", "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5", "image/webp,*/*"
	for accept, kind := range map[string]string{chrome: "image/avif", old: "image/webp", "*/*": "image/jpeg"} {
		if got := s.keep(url, "Accept", accept); got.Header.Get("Content-Type") != kind || got.Header.Get("Vary") == "" {
			t.Errorf("Accept: %s is answered with %v", accept, got.Header)
		}
	}
	for accept, kind := range map[string]string{firefox: "image/avif", "image/webp,image/png": "image/webp", "image/png": "image/jpeg", "": "image/jpeg"} {
		if got := s.get(url, "Accept", accept); got.Header.Get("Content-Type") != kind || got.Header.Get("Cache-Status") != hit {
			t.Errorf("Accept: %s is answered with %q, %s", accept, got.Header.Get("Cache-Status"), got.Header.Get("Content-Type"))
		}
	}
	s.call(0, http.MethodDelete, "/media/delete/"+id, nil)
	for _, accept := range []string{chrome, old, "*/*"} {
		s.becomes("a picture with Accept: "+accept, url, func(exchange.Answer) string { return gone(s.get(url, "Accept", accept)) })
	}
}
