package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// layer pins a thumbnail width.
func layer(width *int) settings.Layer { return settings.Layer{ThumbnailWidth: width} }

// raw sends a body unchanged, as a form with the boundary "b".
func raw(body string) option {
	return func(r *request) {
		r.Body = strings.NewReader(body)
		r.Header.Set("Content-Type", `multipart/form-data; boundary=b`)
	}
}

func many(n int) []part {
	parts := []part{filePart("a", []byte("x"))}
	for i := range n {
		parts = append(parts, field(fmt.Sprint("f", i), "x"))
	}
	return parts
}

func TestUpload_InvalidLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.MaxUploadSize = 1 << 20 })
	rt := w.runtime(t)
	good := filePart("a.txt", []byte("hello"))
	const head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
	unknown := account.KeyPrefix + strings.Repeat("a", 46)
	tests := []struct {
		name   string
		send   []option
		status int
		text   string
		detail string
	}{
		{"no credential", []option{form(good)}, 401, "Unauthorized", "send an API key"},
		{"an unknown key", []option{key(unknown), form(good)}, 401, "Unauthorized", "invalid API key"},
		{"a malformed key", []option{key("msk_short"), form(good)}, 401, "Unauthorized", "invalid API key"},
		{"an API key as a bearer token", []option{header("Authorization", "Bearer "+one.Key), form(good)}, 401, "Unauthorized", "an API key is not an access token: send it in"},
		{"a bearer token", []option{header("Authorization", "Bearer x"), form(good)}, 401, "Unauthorized", "bearer"},
		{"key and bearer token", []option{key(one.Key), header("Authorization", "Bearer x"), form(good)}, 400, "Bad Request", "one credential"},
		{"key and signature", []option{key(one.Key), signature("x"), form(good)}, 400, "Bad Request", "one credential"},
		{"a signature that is none", []option{signature("x.y"), form(good)}, 403, "Invalid signature", "invalid upload signature"},
		{"no form", []option{key(one.Key), text("{}"), header("Content-Type", "application/json")}, 415, "Bad Request", "multipart/form-data"},
		{"no content type", []option{key(one.Key), text("x")}, 415, "Bad Request", "multipart/form-data"},
		{"no boundary", []option{key(one.Key), text("x"), header("Content-Type", "multipart/form-data")}, 400, "Bad Request", "boundary"},
		{"an empty body", []option{key(one.Key), raw("")}, 400, "Bad Request", "unexpected end of multipart body"},
		{"text instead of parts", []option{key(one.Key), raw("hello")}, 400, "Bad Request", "unexpected end of multipart body"},
		{"a body that ends in the file", []option{key(one.Key), raw(head + "hello")}, 400, "Bad Request", "unexpected end of multipart body"},
		{"a body that ends after the file", []option{key(one.Key), raw(head + "hello\r\n--b")}, 400, "Bad Request", "unexpected end of multipart body"},
		{"a body without its last boundary", []option{key(one.Key), raw(head + "hello\r\n--b\r\n")}, 400, "Bad Request", "unexpected end of multipart body"},
		{"a part without a disposition", []option{key(one.Key), raw("--b\r\nX: y\r\n\r\nx\r\n--b--\r\n")}, 400, "Bad Request", "Content-Disposition"},
		{"a base64 part", []option{key(one.Key), raw(strings.Replace(head, "\r\n\r\n", "\r\nContent-Transfer-Encoding: base64\r\n\r\n", 1) + "eA==\r\n--b--\r\n")}, 400, "Bad Request", "transfer encoding"},
		{"an empty form", []option{key(one.Key), raw("--b--\r\n")}, 400, "Bad Request", `missing form field "file"`},
		{"no file", []option{key(one.Key), form(field("access", "public"))}, 400, "Bad Request", `missing form field "file"`},
		{"a file of another name", []option{key(one.Key), form(field("image", "x"))}, 400, "Bad Request", `missing form field "file"; "image" is none of file, access`},
		{"metadata with a number", []option{key(one.Key), form(good, field("metadata", `{"a": "b", "k": 1}`))}, 400, "Bad Request", "metadata.k must be a string"},
		{"metadata with null", []option{key(one.Key), form(good, field("metadata", `{"k": null}`))}, 400, "Bad Request", "metadata.k must be a string"},
		{"metadata that is a list", []option{key(one.Key), form(good, field("metadata", `[]`))}, 400, "Bad Request", "metadata must be an object of strings"},
		{"two files", []option{key(one.Key), form(good, good)}, 400, "Bad Request", "duplicate form field"},
		{"a field twice", []option{key(one.Key), form(field("group", "a"), field("group", "b"), good)}, 400, "Bad Request", "duplicate form field"},
		{"an unknown access value", []option{key(one.Key), form(good, field("access", "secret"))}, 400, "Bad Request", "public or private"},
		{"a caption over its limit", []option{key(one.Key), form(good, field("caption", strings.Repeat("c", 4097)))}, 400, "Bad Request", "4096"},
		{"a caption far over its limit", []option{key(one.Key), form(field("caption", strings.Repeat("c", 9000)), good)}, 400, "Bad Request", "too long"},
		{"a group over its limit", []option{key(one.Key), form(good, field("group", strings.Repeat("g", 256)))}, 400, "Bad Request", "255"},
		{"a group that is not UTF-8", []option{key(one.Key), form(good, field("group", "\xff"))}, 400, "Bad Request", "UTF-8"},
		{"a large unknown part", []option{key(one.Key), form(field("other", strings.Repeat("x", 70_000)), good)}, 400, "Bad Request", "65536"},
		{"a large part header", []option{key(one.Key), raw("--b\r\nX: " + strings.Repeat("x", 70_000))}, 400, "Bad Request", "65536"},
		{"a large preamble", []option{key(one.Key), raw(strings.Repeat("x\r\n", 30_000))}, 400, "Bad Request", "65536"},
		{"too many parts", []option{key(one.Key), form(many(40)...)}, 400, "Bad Request", "32 parts"},
		{"a file over maxUploadSize", []option{key(one.Key), form(filePart("a", randomBytes(1, 1<<20+1)))}, 413, "Bad Request", "maxUploadSize"},
		{"a file far over maxUploadSize", []option{key(one.Key), form(filePart("a", randomBytes(1, 3<<20)))}, 413, "Bad Request", "maxUploadSize"},
		{"a file over maxUploadSize of unknown length", []option{key(one.Key), form(filePart("a", randomBytes(1, 1<<20+1))), chunked()}, 413, "Bad Request", "maxUploadSize"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := rt.do(t, http.MethodPost, "/media/create", tt.send...)
			if detail := got.rejected(t, tt.status, tt.text); !strings.Contains(detail, tt.detail) {
				t.Errorf("the detail %q does not say %q", detail, tt.detail)
			}
			if tt.status == http.StatusUnauthorized && got.Header.Get("WWW-Authenticate") == "" {
				t.Error("a 401 says no challenge")
			}
			if got.Header.Get("X-Request-Id") == "" {
				t.Error("the answer has no request id")
			}
		})
	}
	t.Cleanup(func() {
		usage, err := w.Registry.Usage(context.Background(), one.Account.ID)
		if err != nil || usage != (account.Usage{}) {
			t.Errorf("something is kept: %+v, %v", usage, err)
		}
		err = w.Objects.List(context.Background(), one.Account.Bucket, "media/", func(s media.ObjectInfo) error {
			return fmt.Errorf("%s is still stored", s.Key)
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// chunked sends the body without Content-Length.
func chunked() option { return func(r *request) { r.Body = struct{ io.Reader }{r.Body} } }

func TestUpload_OfExactlyMaxUploadSizeIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.MaxUploadSize = 1 << 20 })
	rt := w.runtime(t)
	if item := rt.upload(t, one.Key, filePart("a", randomBytes(1, 1<<20)), field("caption", strings.Repeat("c", 4096))); item.Size != 1<<20 {
		t.Errorf("stored %d bytes", item.Size)
	}
	if item := rt.upload(t, one.Key, filePart("empty", nil), field("metadata", "null")); item.Size != 0 || len(item.Metadata) != 0 {
		t.Errorf("an empty file has %d bytes", item.Size)
	}
}

func TestUpload_OverTheCapIsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.MaxStorage = 10 << 20 })
	rt := w.runtime(t)
	rt.upload(t, one.Key, filePart("a", randomBytes(1, 9<<20)))
	for name, change := range map[string]option{"by its length": func(*request) {}, "on the way": chunked()} {
		got := rt.do(t, http.MethodPost, "/media/create", key(one.Key), form(filePart("b", randomBytes(2, 9<<20))), change)
		if detail := got.rejected(t, http.StatusRequestEntityTooLarge, "Bad Request"); !strings.Contains(detail, "cap") {
			t.Errorf("%s: detail %q", name, detail)
		}
	}
	rt.upload(t, one.Key, filePart("c", randomBytes(3, 1<<20)))
}

func TestRequest_InvalidIsRejected(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	json := header("Content-Type", "application/json")
	const noItem = "/0190a0a0-0000-7000-8000-000000000000"
	tests := []struct {
		method, path string
		send         []option
		status       int
		text, detail string
	}{
		{"GET", "/media/get?page=0", nil, 400, "Bad Request", "page"},
		{"GET", "/media/get?page=-1", nil, 400, "Bad Request", "page"},
		{"GET", "/media/get?page=x", nil, 400, "Bad Request", "page must be an integer"},
		{"GET", "/media/get?page=1.5", nil, 400, "Bad Request", "page must be an integer"},
		{"GET", "/media/get?page=99999999999999999999", nil, 400, "Bad Request", "page must be an integer"},
		{"GET", "/media/get?page=9223372036854775807&limit=100", nil, 400, "Bad Request", "page"},
		{"GET", "/media/get?page=1&page=2", nil, 400, "Bad Request", "page must be sent once"},
		{"GET", "/media/get?page=%201", nil, 400, "Bad Request", "page must be an integer"},
		{"GET", "/media/get?limit=0", nil, 400, "Bad Request", "limit"},
		{"GET", "/media/get?limit=101", nil, 400, "Bad Request", "limit"},
		{"GET", "/media/get?access=secret", nil, 400, "Bad Request", "public or private"},
		{"GET", "/media/get?group=" + strings.Repeat("g", 256), nil, 400, "Bad Request", "255"},
		{"GET", "/media/get?group=%00", nil, 400, "Bad Request", "control"},
		{"GET", "/media/get?group=%ff", nil, 400, "Bad Request", "UTF-8"},
		{"GET", "/media/get?access=public&access=private", nil, 400, "Bad Request", "access must be sent once"},
		{"GET", "/media/get?group=a&group=b", nil, 400, "Bad Request", "group must be sent once"},
		{"GET", "/media/get?grop=a", nil, 400, "Bad Request", `unknown parameter "grop"`},
		{"POST", "/media/get?Page=1", nil, 400, "Bad Request", `unknown parameter "Page"`},
		{"GET", "/media/get/size?page=1", nil, 400, "Bad Request", `unknown parameter "page"`},
		{"POST", "/media/get/size?" + strings.Repeat("x", 100), nil, 400, "Bad Request", strings.Repeat("x", 40) + `..."`},
		{"POST", "/media/signature/create?group=a", nil, 400, "Bad Request", `unknown parameter "group"`},
		{"POST", "/media/create?access=public", nil, 400, "Bad Request", `unknown parameter "access"`},
		// net/url drops the malformed part of a query, which would return the whole list.
		{"GET", "/media/get?group=50%", nil, 400, "Bad Request", "query"},
		{"GET", "/media/get?page=2;limit=1", nil, 400, "Bad Request", "query"},
		{"POST", "/media/get?access=%zz", nil, 400, "Bad Request", "query"},
		{"POST", "/media/get", []option{json, text(`{"page": 0}`)}, 400, "Bad Request", "page"},
		{"POST", "/media/get", []option{json, text(`{"page": "1"}`)}, 400, "Bad Request", "page must be an integer"},
		{"POST", "/media/get", []option{json, text(`{"limit": 1.5}`)}, 400, "Bad Request", "limit must be an integer"},
		{"POST", "/media/get", []option{json, text(`{"group": 1}`)}, 400, "Bad Request", "group must be a string"},
		{"POST", "/media/get", []option{json, text(`[]`)}, 400, "Bad Request", "JSON object"},
		{"POST", "/media/get", []option{json, text(`{`)}, 400, "Bad Request", "JSON object"},
		{"POST", "/media/get", []option{json, text(`{} x`)}, 400, "Bad Request", "JSON object"},
		{"POST", "/media/get", []option{json, text(`{"group":"` + strings.Repeat("g", 70_000) + `"}`)}, 413, "Request Entity Too Large", "65536"},
		{"POST", "/media/signature/create", []option{json, text(`{"group": false}`)}, 400, "Bad Request", "group must be a string"},
		{"POST", "/media/signature/create", []option{json, text(`{"group":"` + strings.Repeat("g", 256) + `"}`)}, 400, "Bad Request", "255"},
		{"POST", "/media/signature/create", []option{json, text("{\"group\": \"\xff\"}")}, 400, "Bad Request", "UTF-8"},
		{"POST", "/media/signature/create", []option{json, text(`{"types": []}`)}, 400, "Bad Request", "types must have 1 to 32 entries; leave it out to permit all types"},
		{"POST", "/media/signature/create", []option{json, text(`{"types": ["a/b"` + strings.Repeat(`, "a/b"`, 32) + `]}`)}, 400, "Bad Request", "types must have 1 to 32 entries"},
		{"POST", "/media/signature/create", []option{json, text(`{"types": ["image/png", "image/JPG"]}`)}, 400, "Bad Request", "image/jpg is not a type: write image/jpeg"},
		{"POST", "/media/signature/create", []option{json, text(`{"metadata": {"a": "b", "k": 1}}`)}, 400, "Bad Request", "metadata.k must be a string"},
		{"POST", "/media/signature/create", []option{json, text(`{"metadata": {"k": null}}`)}, 400, "Bad Request", "metadata.k must be a string"},
		{"DELETE", "/media/delete" + noItem + "?permanent=yes", nil, 400, "Bad Request", "permanent must be true or false"},
		{"GET", "/media" + noItem, nil, 405, "Method Not Allowed", "an item is read at /media/get/{mediaId}"},
		// A misspelt name would create a signature without a group.
		{"POST", "/media/signature/create", []option{json, text(`{"grop":"g"}`)}, 400, "Bad Request", `"grop"`},
		{"POST", "/media/get", []option{json, text(`{"grop":"g"}`)}, 400, "Bad Request", `"grop"`},
		{"POST", "/media/get", []option{json, text(`{} }`)}, 400, "Bad Request", "JSON object"},
		{"POST", "/settings/media/create", nil, 400, "Bad Request", "JSON object"},
		{"POST", "/settings/media/create", []option{json, text(`{"useWebp": true}`)}, 400, "Bad Request", `"useWebp"`},
		{"POST", "/settings/media/create", []option{json, text(`{"useWebP": "yes"}`)}, 400, "Bad Request", "useWebP must be true or false"},
		{"POST", "/settings/media/create", []option{json, text(`{"useWebp": null}`)}, 400, "Bad Request", `"useWebp"`},
		{"POST", "/settings/media/create", []option{json, text(`{"webpOutputQuality": 101}`)}, 400, "Bad Request", "webpOutputQuality"},
		{"POST", "/settings/media/create", []option{json, text(`{"webpOutputQuality": 1.5}`)}, 400, "Bad Request", "an integer"},
		{"POST", "/settings/media/create", []option{json, text(`{"thumbnailWidth": 0}`)}, 400, "Bad Request", "thumbnailWidth"},
		{"GET", "/media/get/" + "not-a-uuid", nil, 404, "Not Found", "media item not found"},
		{"GET", "/media/get" + noItem, nil, 404, "Not Found", "media item not found"},
		{"POST", "/media/seal/x", nil, 404, "Not Found", "media item not found"},
		{"DELETE", "/media/delete/x", nil, 404, "Not Found", "media item not found"},
		{"GET", "/media/file/x/original/a", nil, 404, "Not Found", "file not found"},
		{"GET", "/media/file" + noItem + "/original/a", nil, 404, "Not Found", "file not found"},
		{"GET", "/media/file" + noItem + "/other/a", nil, 404, "Not Found", "file not found"},
		{"GET", "/", nil, 404, "Not Found", "route not found"},
		{"GET", "/media", nil, 404, "Not Found", "route not found"},
		{"POST", "/media/create/resumable", nil, 404, "Not Found", "route not found"},
		{"GET", "/nowhere", nil, 404, "Not Found", "route not found"},
		{"GET", "/.well-known/oauth-protected-resource", nil, 404, "Not Found", "route not found"},
		{"PUT", "/media/create", nil, 405, "Method Not Allowed", "this route has the methods POST"},
		{"GET", "/media/create", nil, 405, "Method Not Allowed", "this route has the methods POST"},
		{"DELETE", "/media/get", nil, 405, "Method Not Allowed", "this route has the methods GET, HEAD, POST"},
		{"POST", "/media/delete" + noItem, nil, 405, "Method Not Allowed", "this route has the methods DELETE"},
		{"POST", "/media/file" + noItem + "/original/a", nil, 405, "Method Not Allowed", "this route has the methods GET, HEAD"},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			t.Parallel()
			got := rt.do(t, tt.method, tt.path, append(tt.send, key(one.Key))...)
			if detail := got.rejected(t, tt.status, tt.text); !strings.Contains(detail, tt.detail) {
				t.Errorf("the detail %q does not say %q", detail, tt.detail)
			}
		})
	}
	allow := rt.do(t, http.MethodPut, "/media/get").Header.Get("Allow")
	if allow != "GET, HEAD, POST" {
		t.Errorf("Allow: %q", allow)
	}
}

func TestSettings_AreChangedAllOrNothing(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	get := func() string {
		body := string(rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)).Body)
		if posted := string(rt.do(t, http.MethodPost, "/settings/media/get", key(one.Key)).Body); posted != body {
			t.Errorf("POST says %s, GET %s", posted, body)
		}
		return strings.TrimSpace(body)
	}
	change := func(body string) answer {
		return rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(body))
	}
	if got, want := get(), `{"useWebP":false,"webpOutputQuality":80,"thumbnailWidth":320,"thumbnailHeight":320,`+
		`"sources":{"useWebP":"default","webpOutputQuality":"default","thumbnailWidth":"default","thumbnailHeight":"default"}}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	changed := change(`{"useWebP": true, "webpOutputQuality": 55.0}`)
	if got := decode[api.Settings](t, changed); !got.UseWebP || got.WebPOutputQuality != 55 || got.Sources["useWebP"] != settings.FromTenant {
		t.Errorf("after the change: %s", changed.Body)
	}
	wide := 100
	must(t, w.Settings.Pin(t.Context(), one.Account.ID, layer(&wide), settings.Object{Name: "team-a/site", UID: "uid of team-a/site"}))
	before := get()
	got := change(`{"thumbnailWidth": 10, "webpOutputQuality": 1}`)
	if detail := got.rejected(t, http.StatusConflict, "Conflict"); detail != "thumbnailWidth: pinned by MediaSettings team-a/site" {
		t.Errorf("detail %q", detail)
	}
	if after := get(); after != before || !strings.Contains(after, `"pinnedBy":"team-a/site"`) {
		t.Errorf("a rejected change left %s, was %s", after, before)
	}
	change(`{"useWebP": false}`)
	change(`{}`)
	before = get()
	if got := decode[api.Settings](t, change(`{"useWebP": null, "webpOutputQuality": "", "thumbnailWidth": null}`)); len(*got.Changed) != 0 || get() != before {
		t.Errorf("absent settings changed %v", *got.Changed)
	}
}

func TestUpload_IsRejectedBeforeItsBodyIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.MaxStorage = 10 << 20 })
	rt := w.runtime(t)
	for name, tt := range map[string]struct {
		header string
		status string
	}{
		"no key":          {"", "401"},
		"too large":       {"x-service-apikey: " + one.Key + "\r\n", "413"},
		"a bad signature": {"x-service-signature: x\r\n", "403"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
			must(t, err)
			defer func() { _ = conn.Close() }()
			must(t, conn.SetDeadline(time.Now().Add(wait.Timeout(t))))
			_, err = fmt.Fprintf(conn, "POST /media/create HTTP/1.1\r\nHost: media.test\r\n%sContent-Type: multipart/form-data; boundary=b\r\n"+
				"Content-Length: 50000000\r\nExpect: 100-continue\r\n\r\n", tt.header)
			must(t, err)
			status, err := bufio.NewReader(conn).ReadString('\n')
			must(t, err)
			if !strings.Contains(status, " "+tt.status+" ") {
				t.Errorf("the first line is %q, want %s", status, tt.status)
			}
		})
	}
}

func TestUpload_RejectedWhileItsBodyIsSentIsAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t)
	// Larger than what the server reads after its answer. The client must get the 401 nevertheless,
	// not only a reset.
	body, kind := encode(filePart("a", bytes.Repeat([]byte("x"), 50<<20)))
	for range 5 {
		got := rt.do(t, http.MethodPost, "/media/create", func(r *request) {
			r.Body = bytes.NewReader(body)
			r.Header.Set("Content-Type", kind)
		})
		got.rejected(t, http.StatusUnauthorized, "Unauthorized")
	}
}
