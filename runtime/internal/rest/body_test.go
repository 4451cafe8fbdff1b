package rest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
)

// A field that an operation does not have is rejected, also where the operation has none.
func TestPost_RejectsUnknownFields(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	draft := rt.upload(t, one.Key, filePart("a.txt", []byte("a")))
	id := draft.MediaId.String()
	bodies := map[string]string{
		`{"mediaId": "x"}`: `unknown field "mediaId"`, `nonsense`: "JSON object", `[]`: "JSON object", `null`: "JSON object",
		`{} {}`: "JSON object", `{"a":`: "JSON object", "{\"\xff\": 1}": "UTF-8", "a=b": "JSON object", `{"\ud800": 1}`: "half a character", `{"a": ["\udc00\ud800"]}`: "half a character",
	}
	for _, o := range loadContract(t).operations() {
		// Every POST but the upload has a JSON body.
		if o.method != http.MethodPost || o.path == "/media/create" {
			continue
		}
		path := strings.ReplaceAll(o.path, "{mediaId}", id)
		for body, want := range bodies {
			if o.path == "/settings/media/create" && strings.HasPrefix(want, "unknown field") {
				want = `unknown setting "mediaId"`
			}
			got := rt.do(t, http.MethodPost, path, key(one.Key), text(body))
			if detail := got.rejected(t, http.StatusBadRequest, "Bad Request"); !strings.Contains(detail, want) {
				t.Errorf("%s with %s: %s", o, body, detail)
			}
		}
		tooLong := 70_000
		if o.path == "/media/batch" {
			tooLong = 5 << 20
		}
		got := rt.do(t, http.MethodPost, path, key(one.Key), text(`{"a":"`+strings.Repeat("a", tooLong)+`"}`))
		got.rejected(t, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
	}
	if item := rt.do(t, http.MethodGet, "/media/get/"+id, key(one.Key)).item(t); !item.Temp {
		t.Error("a rejected request sealed the draft")
	}
	for _, path := range []string{"/media/get/" + id, "/media/get/count", "/media/get/size", "/settings/media/get", "/media/seal/" + id} {
		for _, body := range []string{"", " \n", "{}", " { } "} {
			rt.do(t, http.MethodPost, path, key(one.Key), text(body)).Is(t, http.StatusOK, "%s with %q", path, body)
		}
	}
}

func TestCount_AcceptsTheFiltersOfTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	rt := w.runtime(t)
	for n, group := range []string{"", "a b&c", "a b&c", "d"} {
		access := []string{"private", "public"}[n%2]
		rt.sealed(t, one.Key, filePart("a.txt", []byte("x")), field("access", access), field("group", group))
	}
	rt.upload(t, one.Key, filePart("draft.txt", []byte("x")), field("group", "d"))
	for query, want := range map[string]int64{
		"": 4, "?access=public": 2, "?access=private": 2, "?group=a+b%26c": 2, "?group=a+b%26c&access=public": 1, "?group=d": 1, "?group=d&access=private": 0, "?group=a": 0, "?group=": 4, "?group=&access=public": 2, "?access=": 4,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if got := decode[api.Count](t, rt.do(t, method, "/media/get/count"+query, key(one.Key))); got.Count != want {
				t.Errorf("%s %s: %d, want %d", method, query, got.Count, want)
			}
		}
		if got := decode[api.Count](t, rt.do(t, http.MethodGet, "/media/get/count"+query, key(other.Key))); got.Count != 0 {
			t.Errorf("another tenant's %s: %d", query, got.Count)
		}
	}
	for body, want := range map[string]int64{`{"access": "public"}`: 1, `{}`: 2} {
		if got := decode[api.Count](t, rt.do(t, http.MethodPost, "/media/get/count?group=a+b%26c", key(one.Key), text(body))); got.Count != want {
			t.Errorf("%s: %d, want %d", body, got.Count, want)
		}
	}
	for _, absent := range []string{`{"group": ""}`, `{"group": null}`, `{"access": ""}`, `{"access": null, "group": ""}`} {
		if got := decode[api.Count](t, rt.do(t, http.MethodPost, "/media/get/count", key(one.Key), text(absent))); got.Count != 4 {
			t.Errorf("%s: %d", absent, got.Count)
		}
	}
	for path, want := range map[string]string{
		"?access=secret": "public or private", "?group=a&group=b": "group must be sent once", "?page=1": `unknown parameter "page"`, "?grop=a": `unknown parameter "grop"`,
		fmt.Sprintf("?group=%s", strings.Repeat("g", 256)): "255",
	} {
		if detail := rt.do(t, http.MethodGet, "/media/get/count"+path, key(one.Key)).rejected(t, http.StatusBadRequest, "Bad Request"); !strings.Contains(detail, want) {
			t.Errorf("%s: %s", path, detail)
		}
	}
	rt.do(t, http.MethodPost, "/media/get/count", key(one.Key), text(`{"limit": 1}`)).rejected(t, http.StatusBadRequest, "Bad Request")
}

// None of these values may be ignored silently.
func TestParameters_DuplicatesAreRejected(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	type request struct{ path, body, want string }
	tests := []request{
		{"/media/get?page=1", `{"page": 1}`, "page must be sent once, in the query or in the body"},
		{"/media/get?limit=1", `{"group": "a", "limit": 2}`, "limit must be sent once"},
		{"/media/signature/create", `{"group": "a", "group": "b"}`, `duplicate field "group"`},
		{"/media/seal/0190a0a0-0000-7000-8000-000000000000", `{"a": 1, "a": 1}`, `duplicate field "a"`},
		{"/settings/media/create", `{"thumbnailWidth": 210, "thumbnailWidth": 220}`, `duplicate field "thumbnailWidth"`},
		{"/settings/media/create", `{"thumbnailWidth": 210, "sources": {"useWebP": "tenant", "list": [{"a": 1, "a": 2}]}}`, `duplicate field "a"`},
	}
	for _, path := range []string{"/media/get", "/media/get/count"} {
		tests = append(tests,
			request{path + "?group=x", `{"group": "y"}`, "group must be sent once, in the query or in the body"},
			request{path, `{"Group": "x"}`, `unknown field "Group"`},
			request{path + "?access=public", `{"access": "public"}`, "access must be sent once"},
			request{path, `{"group": "x", "Group": "y"}`, `duplicate field "Group"`},
			request{path, `{"Group": null}`, `unknown field "Group"`},
		)
	}
	before := rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)).Body
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.body, func(t *testing.T) {
			got := rt.do(t, http.MethodPost, tt.path, key(one.Key), text(tt.body))
			if detail := got.rejected(t, http.StatusBadRequest, "Bad Request"); !strings.Contains(detail, tt.want) {
				t.Errorf("the detail is %q", detail)
			}
		})
	}
	if after := rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)).Body; string(after) != string(before) {
		t.Errorf("the settings changed: %s", after)
	}
	same := rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"thumbnailWidth": 210, "sources": {"a": {"x": 1}, "b": {"x": 1}, "c": ["x", "x"]}}`))
	if same.Status != http.StatusOK {
		t.Errorf("names in separate objects: %d %s", same.Status, same.Body)
	}
}

// A body that stalls and a body that ends early have different errors.
func TestBody_StalledAndIncompleteDiffer(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Server.StallTimeout = time.Second })
	for name, tt := range map[string]struct {
		cut  bool
		want string
	}{"stalls": {false, "did not arrive in time"}, "is cut": {true, "unexpected end"}} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(wait.Timeout(t))))
		_, err = fmt.Fprintf(conn, "POST /media/get/count HTTP/1.1\r\nHost: media.test\r\nX-Service-Apikey: %s\r\nContent-Length: 9\r\n\r\n{", one.Key)
		must(t, err)
		if tt.cut {
			must(t, conn.(*net.TCPConn).CloseWrite())
		}
		text, err := io.ReadAll(conn)
		must(t, err)
		must(t, conn.Close())
		if !strings.HasPrefix(string(text), "HTTP/1.1 400") || !strings.Contains(string(text), tt.want) {
			t.Errorf("a body that %s: %s", name, text)
		}
	}
}
