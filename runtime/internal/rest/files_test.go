package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/media"
)

func TestFile_IsServedByRangeAndCondition(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	data := randomBytes(7, 3<<20)
	item := rt.sealed(t, one.Key, filePart("a.bin", data), field("access", "public"))
	whole := rt.do(t, http.MethodGet, item.File)
	etag, modified := whole.Header.Get("ETag"), whole.Header.Get("Last-Modified")
	if !bytes.Equal(whole.Body, data) || whole.Header.Get("Accept-Ranges") != "bytes" || modified == "" {
		t.Errorf("the whole file: %d bytes, %v", len(whole.Body), whole.Header)
	}
	for name, want := range map[string]string{
		"Cache-Control":                "public, max-age=31536000, immutable, s-maxage=3600",
		"X-Content-Type-Options":       "nosniff",
		"Cross-Origin-Resource-Policy": "cross-origin",
		"Content-Type":                 "application/octet-stream",
		"Content-Disposition":          `attachment; filename="a.bin"; filename*=UTF-8''a.bin`,
	} {
		if got := whole.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if csp := whole.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "sandbox") {
		t.Errorf("Content-Security-Policy: %q", csp)
	}
	n := len(data)
	tests := []struct {
		name   string
		send   []option
		status int
		body   []byte
	}{
		{"the first bytes", []option{header("Range", "bytes=0-99")}, 206, data[:100]},
		{"the middle", []option{header("Range", "bytes=1500000-2500000")}, 206, data[1500000:2500001]},
		{"the last bytes", []option{header("Range", "bytes=-5")}, 206, data[n-5:]},
		{"to the end", []option{header("Range", fmt.Sprintf("bytes=%d-", n-7))}, 206, data[n-7:]},
		{"past the end", []option{header("Range", fmt.Sprintf("bytes=%d-", n))}, 416, nil},
		{"a range that is none", []option{header("Range", "bytes=x-y")}, 416, nil},
		{"unless it changed", []option{header("If-None-Match", etag)}, 304, nil},
		{"unless it changed since", []option{header("If-Modified-Since", modified)}, 304, nil},
		{"if it did not change", []option{header("If-Match", `"other"`)}, 412, nil},
		{"a range of the same file", []option{header("Range", "bytes=0-9"), header("If-Range", etag)}, 206, data[:10]},
		{"a range of another file", []option{header("Range", "bytes=0-9"), header("If-Range", `"other"`)}, 200, data},
		{"the last no bytes", []option{header("Range", "bytes=-0")}, 416, nil},
		{"the last no bytes, and others", []option{header("Range", "bytes=-0, 1-2")}, 206, data[1:3]},
		{"more than the last bytes", []option{header("Range", "bytes=-99999999999999999999999")}, 206, data},
		{"far past the end", []option{header("Range", "bytes=5-99999999999999999999999")}, 206, data[5:]},
		{"a range backwards", []option{header("Range", "bytes=9-5")}, 416, nil},
		{"another unit", []option{header("Range", "lines=0-9")}, 200, data},
		{"the unit in capitals", []option{header("Range", "Bytes=0-9")}, 206, data[:10]},
		{"two Range lines", []option{header("Range", "bytes=0-9"), func(r *request) { r.Header.Add("Range", "bytes=5-6") }}, 200, data},
		{"ranges of all of it, twice", []option{header("Range", "bytes=0-,0-")}, 200, data},
		{"if any, unless it changed", []option{header("If-None-Match", "*")}, 304, nil},
		{"unless it is one of these", []option{header("If-None-Match", `"other", W/`+etag)}, 304, nil},
		{"unless it is another, whatever the date", []option{header("If-None-Match", `"other"`), header("If-Modified-Since", modified)}, 200, data},
		{"if it is the same", []option{header("If-Match", etag)}, 200, data},
		{"if it is there", []option{header("If-Match", "*")}, 200, data},
		{"if it is the same, weakly", []option{header("If-Match", "W/"+etag)}, 412, nil},
		{"if it did not change since", []option{header("If-Unmodified-Since", modified)}, 200, data},
		{"if it did not change since long ago", []option{header("If-Unmodified-Since", "Thu, 01 Jan 2015 00:00:00 GMT")}, 412, nil},
		{"a date that is none", []option{header("If-Modified-Since", "yesterday")}, 200, data},
		{"a range of the same file, by its date", []option{header("Range", "bytes=0-9"), header("If-Range", modified)}, 206, data[:10]},
		{"a range of a file of another date", []option{header("Range", "bytes=0-9"), header("If-Range", "Thu, 01 Jan 2015 00:00:00 GMT")}, 200, data},
		{"a range of the same file, weakly", []option{header("Range", "bytes=0-9"), header("If-Range", "W/"+etag)}, 200, data},
		{"a range, unless it changed", []option{header("Range", "bytes=0-9"), header("If-None-Match", etag)}, 304, nil},
		{"more ranges than are worth it", []option{header("Range", "bytes=0-0"+strings.Repeat(",9-9", 20))}, 200, data},
	}
	for _, tt := range tests {
		got := rt.do(t, http.MethodGet, item.File, tt.send...)
		if got.Status != tt.status || tt.body != nil && !bytes.Equal(got.Body, tt.body) {
			t.Errorf("%s: %d with %d bytes, want %d with %d", tt.name, got.Status, len(got.Body), tt.status, len(tt.body))
		}
		switch header := got.Header; got.Status {
		case http.StatusNotModified:
			if header.Get("ETag") != etag || header.Get("Cache-Control") == "" || header.Get("Content-Disposition")+header.Get("Content-Type")+header.Get("Content-Length") != "" || len(got.Body) > 0 {
				t.Errorf("%s: 304 with %v", tt.name, header)
			}
		case http.StatusPreconditionFailed:
			if header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(string(got.Body), `{"error":"Precondition Failed"`) {
				t.Errorf("%s: %s, %v", tt.name, got.Body, header)
			}
		}
		if got.Status == http.StatusRequestedRangeNotSatisfiable && (!strings.HasPrefix(string(got.Body), `{"error":`) || got.Header.Get("Content-Range") != fmt.Sprintf("bytes */%d", n)) {
			t.Errorf("%s: %s, Content-Range %q", tt.name, got.Body, got.Header.Get("Content-Range"))
		}
	}
	head := rt.do(t, http.MethodHead, item.File)
	if head.Status != http.StatusOK || head.Header.Get("Content-Length") != fmt.Sprint(n) || head.Header.Get("ETag") != etag || len(head.Body) > 0 {
		t.Errorf("HEAD: %d, %v", head.Status, head.Header)
	}
	for _, send := range []string{"bytes=0-9", "bytes=-0", "bytes=99999999-"} {
		if got := rt.do(t, http.MethodHead, item.File, header("Range", send)); got.Status != http.StatusOK || got.Header.Get("Content-Length") != fmt.Sprint(n) || got.Header.Get("Content-Range") != "" {
			t.Errorf("HEAD with Range %s: %d, %v", send, got.Status, got.Header)
		}
	}
	rt.do(t, http.MethodHead, item.File, header("If-None-Match", etag)).Is(t, http.StatusNotModified, "HEAD unless it changed")
	if got := rt.do(t, http.MethodOptions, item.File); got.Status != http.StatusNoContent || got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("OPTIONS: %d, Allow %q", got.Status, got.Header.Get("Allow"))
	}
	rt.severalRanges(t, item.File, data)
	empty := rt.sealed(t, one.Key, filePart("empty", nil), field("access", "public"))
	for _, send := range []string{"", "bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0"} {
		if got := rt.do(t, http.MethodGet, empty.File, header("Range", send)); got.Status != http.StatusOK || len(got.Body) != 0 || got.Header.Get("Content-Range") != "" {
			t.Errorf("an empty file with Range %q: %d, %v", send, got.Status, got.Header)
		}
	}
}

func TestFile_OfADeletedItemIsNotFoundAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt, other := w.runtime(t), w.runtime(t)
	for _, access := range []string{"public", "private"} {
		id := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("access", access)).MediaId
		listed := decode[[]api.MediaItem](t, rt.do(t, http.MethodGet, "/media/get", key(one.Key)))[0]
		before := other.do(t, http.MethodGet, listed.File)
		if listed.MediaId != id || string(before.Body) != "hello" {
			t.Fatalf("%s: %d %s", access, before.Status, before.Body)
		}
		rt.do(t, http.MethodDelete, "/media/delete/"+id.String(), key(one.Key))
		for _, send := range [][]option{nil, {header("If-None-Match", before.Header.Get("ETag"))}, {header("If-Modified-Since", before.Header.Get("Last-Modified"))}, {header("Range", "bytes=0-1")}} {
			other.do(t, http.MethodGet, listed.File, send...).rejected(t, http.StatusNotFound, "Not Found")
			other.do(t, http.MethodHead, listed.File, send...).Is(t, http.StatusNotFound, "%s: HEAD", access)
		}
	}
}

func (rt *runtime) severalRanges(t *testing.T, file string, data []byte) {
	t.Helper()
	got := rt.do(t, http.MethodGet, file, header("Range", "bytes=5-9,2000000-2999999,0-0"))
	_, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	must(t, err)
	reader := multipart.NewReader(bytes.NewReader(got.Body), params["boundary"])
	for _, want := range [][]byte{data[5:10], data[2000000:3000000], data[:1]} {
		p, err := reader.NextPart()
		must(t, err)
		body, err := io.ReadAll(p)
		must(t, err)
		if !bytes.Equal(body, want) {
			t.Errorf("the range %s has %d bytes that are not the file's", p.Header.Get("Content-Range"), len(body))
		}
	}
}

func TestFileName_AnyIsReturned(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	for sent, want := range map[string]string{
		"photo.jpg":                       "photo.jpg",
		"Straße & Søn + 100%.txt":         "Straße & Søn + 100%.txt",
		"日本語 写真.png":                      "日本語 写真.png",
		"emoji 👩‍👩‍👧 🏳️‍🌈.gif":            "emoji 👩‍👩‍👧 🏳️‍🌈.gif",
		`quote " and 'apostrophe'; a=b`:   `quote " and 'apostrophe'; a=b`,
		"#?&=/../../etc/passwd":           "passwd",
		`C:\Users\me\holiday.jpg`:         "holiday.jpg",
		"..":                              "file",
		"ends with a dot.":                "ends with a dot.",
		"مرحبا.txt":                       "مرحبا.txt",
		"evil\u202egpj.exe":               "evilgpj.exe",
		"composed \u00fc.txt":             "composed \u00fc.txt",
		"decomposed u\u0308.txt":          "decomposed u\u0308.txt",
		"a\x00b\x01c\x1b[31md\x7f\te.txt": "abc[31mde.txt", // a part header with control characters
		"%2e%2e%2f.txt":                   "%2e%2e%2f.txt",
		strings.Repeat("ü", 200) + ".jpg": strings.Repeat("ü", 125) + ".jpg",
	} {
		item := rt.sealed(t, one.Key, filePart(sent, []byte("x")), field("access", "public"))
		if item.OriginalFileName != want {
			t.Errorf("%q became %q, want %q", sent, item.OriginalFileName, want)
		}
		got := rt.do(t, http.MethodGet, item.File)
		if got.Status != http.StatusOK {
			t.Errorf("%q: %s answers %d", sent, item.File, got.Status)
			continue
		}
		_, params, err := mime.ParseMediaType(got.Header.Get("Content-Disposition"))
		if err != nil || params["filename"] != want {
			t.Errorf("%q: Content-Disposition %q gives %q, %v", sent, got.Header.Get("Content-Disposition"), params["filename"], err)
		}
		parsed, err := url.Parse(item.File)
		if err != nil || !strings.HasSuffix(parsed.Path, "/original/"+want) {
			t.Errorf("%q: the address %s does not end in the name", sent, item.File)
		}
	}
	// filename* takes precedence over filename.
	raw := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"; filename*=UTF-8''%22%E2%82%AC%2522.txt\r\n\r\nx\r\n--b--"
	got := rt.do(t, http.MethodPost, "/media/create", key(one.Key), text(raw), header("Content-Type", "multipart/form-data; boundary=b"))
	if name := got.item(t).OriginalFileName; name != `"€%22.txt` {
		t.Errorf("filename* gave %q", name)
	}
}

func TestFileName_FromCurlIsReturned(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatalf("%v; run `make packages`", err)
	}
	_, one, rt := withTenant(t)
	dir := t.TempDir()
	run := func(args ...string) string {
		command := exec.CommandContext(t.Context(), curl, append([]string{"-sS", "--connect-to", "media.test:80:" + rt.Addr()}, args...)...)
		command.Dir = dir
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("curl %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, name := range []string{"plain.txt", `7" single, side A; 100%.txt`, "Füße 写真 🦊.txt", "u\u0308.txt", "it's 50% (1).txt"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("hello"), 0o600))
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)
		var item api.MediaItem
		must(t, json.Unmarshal([]byte(run("-H", "x-service-apikey: "+one.Key, "-F", `file=@"`+quoted+`"`, "-F", "access=public", baseURL+"/media/create")), &item))
		if item.OriginalFileName != name {
			t.Errorf("%q became %q", name, item.OriginalFileName)
		}
		head := run("-D", "-", "-o", "out", item.File)
		if got, err := os.ReadFile(filepath.Join(dir, "out")); err == nil && item.Temp && string(got) == "hello" {
			for line := range strings.Lines(head) {
				if value, ok := strings.CutPrefix(line, "Content-Disposition: "); ok {
					if _, params, err := mime.ParseMediaType(strings.TrimSpace(value)); err != nil || params["filename"] != name {
						t.Errorf("%q came back as %q, %v", name, params["filename"], err)
					}
					head = ""
				}
			}
		}
		if head != "" {
			t.Errorf("%q did not come back: %s", name, head)
		}
	}
}

func TestFile_OnlyListedTypesAreInline(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	for name, tt := range map[string]struct {
		data, kind, mime string
	}{
		"a.png":  {"\x89PNG\r\n\x1a\n0000", "inline", "image/png"},
		"a.jpg":  {"\xff\xd8\xff\xe0\x00\x10JFIF\x00", "inline", "image/jpeg"},
		"a.txt":  {"hello", "inline", "text/plain"},
		"a.svg":  {`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`, "attachment", "image/svg+xml"},
		"a.html": {"<!DOCTYPE html><html><script>alert(1)</script></html>", "attachment", "text/html"},
		"a.pdf":  {"%PDF-1.7\n", "attachment", "application/pdf"},
		"b.png":  {"<html><body onload=alert(1)>", "attachment", "text/html"},
		"b.bin":  {"\x00\x01\x02\x03", "attachment", "application/octet-stream"},
	} {
		item := rt.sealed(t, one.Key, part{name: "file", fileName: name, contentType: "image/png", data: []byte(tt.data)}, field("access", "public"))
		got := rt.do(t, http.MethodGet, item.File)
		kind, _, _ := strings.Cut(got.Header.Get("Content-Disposition"), ";")
		sent := tt.mime
		if sent == "text/plain" {
			sent += "; charset=utf-8" // mimeType has no charset
		}
		if kind != tt.kind || got.Header.Get("Content-Type") != sent || item.MimeType != tt.mime {
			t.Errorf("%s: %s, %s, %s; want %s, %s", name, kind, got.Header.Get("Content-Type"), item.MimeType, tt.kind, tt.mime)
		}
	}
}

func TestSignedURL_OpensOneFileUntilItExpires(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	private := rt.sealed(t, one.Key, filePart("a.txt", []byte("private")))
	other := rt.sealed(t, one.Key, filePart("b.txt", []byte("other")))
	plain, query, _ := strings.Cut(private.File, "?")
	otherPlain, _, _ := strings.Cut(other.File, "?")
	got := rt.do(t, http.MethodGet, private.File)
	if string(got.Body) != "private" || !strings.HasPrefix(got.Header.Get("Cache-Control"), "private, max-age=") {
		t.Errorf("%d %s, %s", got.Status, got.Body, got.Header.Get("Cache-Control"))
	}
	expires := strings.Split(strings.TrimPrefix(query, "expires="), "&")[0]
	const invalid = "Invalid signature"
	for name, tt := range map[string]struct {
		address string
		status  int
		text    string
	}{
		"without a signature":         {plain, 404, "Not Found"},
		"another item's":              {otherPlain + "?" + query, 403, invalid},
		"another variant's":           {strings.Replace(private.File, "/original/", "/thumbnail/", 1), 403, invalid},
		"a later expiry":              {strings.Replace(private.File, expires, "9"+expires, 1), 403, invalid},
		"an expiry written otherwise": {strings.Replace(private.File, expires, "+"+expires, 1), 403, invalid},
		"without its expiry":          {strings.Replace(private.File, "expires="+expires, "", 1), 403, invalid},
		"without its code":            {plain + "?expires=" + expires, 403, invalid},
		"a wrong code":                {private.File + "A", 403, invalid},
		"a wrong code, no such item":  {"/media/file/" + anyItem + "/original/a?expires=" + expires + "&signature=AAAA", 403, invalid},
		"any name":                    {strings.Replace(private.File, "a.txt", "whatever", 1), 200, ""},
		"another parameter":           {private.File + "&utm_source=mail", 200, ""},
		"another parameter only":      {plain + "?utm_source=mail", 404, "Not Found"},
	} {
		got := rt.do(t, http.MethodGet, tt.address)
		if tt.status == http.StatusOK {
			got.Is(t, tt.status, "%s", name)
			continue
		}
		t.Run(name, func(t *testing.T) { got.rejected(t, tt.status, tt.text) })
	}
	rt.Clock.Advance(time.Hour - 100*time.Second)
	if got := rt.do(t, http.MethodGet, private.File); got.Status != http.StatusOK || !strings.HasPrefix(got.Header.Get("Cache-Control"), "private, max-age=") {
		t.Errorf("shortly before its end: %d, %s", got.Status, got.Header.Get("Cache-Control"))
	}
	rt.Clock.Advance(101 * time.Second)
	rt.do(t, http.MethodGet, private.File).rejected(t, http.StatusForbidden, invalid)

	fresh := rt.do(t, http.MethodGet, "/media/get/"+private.MediaId.String(), key(one.Key)).item(t)
	if got := rt.do(t, http.MethodGet, fresh.File); string(got.Body) != "private" {
		t.Errorf("a fresh address: %d", got.Status)
	}
	rt.do(t, http.MethodDelete, "/media/delete/"+private.MediaId.String(), key(one.Key))
	rt.do(t, http.MethodGet, fresh.File).rejected(t, http.StatusNotFound, "Not Found")
}

func TestFile_WhoseObjectIsLostIsAnError(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	item := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("access", "public"))
	must(t, w.Objects.List(t.Context(), one.Account.Bucket, media.ObjectKey(item.MediaId, media.Original), func(o media.ObjectInfo) error {
		return w.Objects.Remove(t.Context(), one.Account.Bucket, []string{o.Key})
	}))
	for _, send := range [][]option{nil, {header("Range", "bytes=1-2")}, {header("Range", "bytes=1-1,3-3")}} {
		got := rt.do(t, http.MethodGet, item.File, send...)
		got.rejected(t, http.StatusInternalServerError, "Internal Server Error")
		if got.Header.Get("Content-Disposition") != "" || got.Header.Get("ETag") != "" || strings.Contains(got.Header.Get("Cache-Control"), "public") {
			t.Errorf("the error has a file's headers: %v", got.Header)
		}
	}
}
