package rest_test

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/objectstore"
)

// follow requests the URL of a redirect, without credentials.
func follow(t *testing.T, method string, from answer, send ...option) answer {
	t.Helper()
	if from.Status != http.StatusFound {
		t.Fatalf("no redirect: %d %.100q", from.Status, from.Body)
	}
	got, err := runtimetest.Send(t.Context(), http.DefaultClient, method, from.Header.Get("Location"), send...)
	must(t, err)
	return answer{got}
}

func TestRedirect_LeadsToTheFile(t *testing.T) {
	t.Parallel()
	for name, open := range testenv.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access := open(t)
			w := worldAt(t, testenv.Postgres(t), access)
			one := w.tenant(t, "one")
			signer, err := objectstore.NewPresigner(runtimetest.ObjectStoreConfig(access), "")
			must(t, err)
			rt := w.runtime(t, func(o *options) {
				o.Delivery.Mode, o.Delivery.RedirectTTL, o.Presigner = delivery.Redirect, time.Minute, signer
			})
			rt.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			data := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), randomBytes(1, 100_000)...)
			public := rt.sealed(t, one.Key, filePart("Ferien über \"7\".png", data), field("access", "public"))
			private := rt.upload(t, one.Key, filePart("page.html", []byte("<html><script>alert(1)</script>")))
			empty := rt.sealed(t, one.Key, filePart("empty", nil), field("access", "public"))

			sent := rt.do(t, http.MethodGet, public.File)
			location := sent.Header.Get("Location")
			if sent.Header.Get("Cache-Control") != "no-store" || len(sent.Body) > 0 || strings.Contains(location, access.SecretKey) || strings.Contains(location, one.Key) {
				t.Errorf("the redirect says %v %s", sent.Header, sent.Body)
			}
			whole := follow(t, http.MethodGet, sent)
			kind, params, err := mime.ParseMediaType(whole.Header.Get("Content-Disposition"))
			if whole.Status != http.StatusOK || !bytes.Equal(whole.Body, data) || err != nil || kind != "inline" || params["filename"] != "Ferien über \"7\".png" {
				t.Errorf("the file: %d, %d bytes, %v, %v", whole.Status, len(whole.Body), whole.Header, err)
			}
			if whole.Header.Get("Content-Type") != "image/png" || whole.Header.Get("Cache-Control") != "public, max-age=60" {
				t.Errorf("the file: %v", whole.Header)
			}
			ranged := []option{header("Range", "bytes=10-19")}
			if part := follow(t, http.MethodGet, rt.do(t, http.MethodGet, public.File, ranged...), ranged...); part.Status != http.StatusPartialContent || !bytes.Equal(part.Body, data[10:20]) {
				t.Errorf("a range: %d, %d bytes", part.Status, len(part.Body))
			}
			if head := follow(t, http.MethodHead, rt.do(t, http.MethodHead, public.File)); head.Status != http.StatusOK || head.Header.Get("Content-Length") != "100016" {
				t.Errorf("HEAD: %d %v", head.Status, head.Header)
			}
			if got := follow(t, http.MethodGet, rt.do(t, http.MethodGet, empty.File)); got.Status != http.StatusOK || len(got.Body) != 0 {
				t.Errorf("an empty file: %d %s", got.Status, got.Body)
			}

			// Active content is never inline, and the same checks apply as to streamed files.
			page := follow(t, http.MethodGet, rt.do(t, http.MethodGet, private.File))
			if page.Status != http.StatusOK || !strings.HasPrefix(page.Header.Get("Content-Disposition"), "attachment;") || page.Header.Get("Cache-Control") != "private, max-age=60" {
				t.Errorf("a page: %d %v", page.Status, page.Header)
			}
			plain, _, _ := strings.Cut(private.File, "?")
			rt.do(t, http.MethodGet, plain).rejected(t, http.StatusNotFound, "Not Found")
			rt.do(t, http.MethodGet, private.File+"A").rejected(t, http.StatusForbidden, "Invalid signature")

			// The presigned URL is valid for this object and these headers.
			parsed, err := url.Parse(location)
			must(t, err)
			for what, change := range map[string]func(*url.URL){
				"another object": func(u *url.URL) {
					u.Path = strings.Replace(u.Path, public.MediaId.String(), private.MediaId.String(), 1)
				},
				"the bucket": func(u *url.URL) { u.Path = "/" + one.Account.Bucket },
				"another disposition": func(u *url.URL) {
					u.RawQuery = strings.Replace(u.RawQuery, "attachment", "inline", 1) + "&response-content-type=text%2Fhtml"
				},
				"a longer life": func(u *url.URL) {
					u.RawQuery = strings.Replace(u.RawQuery, "X-Amz-Expires=60", "X-Amz-Expires=6000", 1)
				},
			} {
				changed := *parsed
				change(&changed)
				if got := follow(t, http.MethodGet, answer{runtimetest.Answer{Status: http.StatusFound, Header: http.Header{"Location": {changed.String()}}}}); got.Status != http.StatusForbidden && got.Status != http.StatusBadRequest {
					t.Errorf("%s opens: %d", what, got.Status)
				}
			}
			for _, method := range []string{http.MethodPut, http.MethodDelete} {
				follow(t, method, sent).Is(t, http.StatusForbidden, "%s", method)
			}
			if got := parsed.Query().Get("X-Amz-Expires"); got != "60" {
				t.Errorf("the permission lasts for %s s", got)
			}
			// Not longer than the signed URL that led to it.
			rt.Clock.Advance(time.Hour - 50*time.Second)
			late, err := url.Parse(rt.do(t, http.MethodGet, private.File).Header.Get("Location"))
			must(t, err)
			if lasts, err := strconv.Atoi(late.Query().Get("X-Amz-Expires")); err != nil || lasts < 1 || lasts > 50 {
				t.Errorf("shortly before its end it lasts for %d s, %v", lasts, err)
			}
			rt.Clock.Advance(51 * time.Second)
			rt.do(t, http.MethodGet, private.File).rejected(t, http.StatusForbidden, "Invalid signature")
			rt.do(t, http.MethodDelete, "/media/delete/"+public.MediaId.String(), key(one.Key))
			rt.do(t, http.MethodGet, public.File).rejected(t, http.StatusNotFound, "Not Found")
		})
	}
}

func TestRedirect_UsesThePublicEndpoint(t *testing.T) {
	t.Parallel()
	signer, err := objectstore.NewPresigner(objectstore.Config{Endpoint: "http://10.0.0.1:9000", Region: "us-east-1", AccessKey: "a", SecretKey: "secret"}, "https://files.example.org")
	must(t, err)
	address, err := signer.Presign(t.Context(), http.MethodGet, "bucket", "media/x/original", time.Minute, map[string]string{"content-type": "image/png"})
	if err != nil || !strings.HasPrefix(address, "https://files.example.org/bucket/media/x/original?") || !strings.Contains(address, "response-content-type=image%2Fpng") {
		t.Errorf("%s, %v", address, err)
	}
	if _, err := objectstore.NewPresigner(objectstore.Config{Endpoint: "http://10.0.0.1"}, "files.example.org"); err == nil {
		t.Error("a public endpoint that is no address passed")
	}
}
