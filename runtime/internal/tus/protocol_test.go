package tus_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/ratelimit"
)

func TestOptions_ReturnsTheProtocolCapabilities(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	small := w.tenant(t, "small", func(s *account.Spec) { s.MaxUploadSize = 1000 })
	rt := w.replica(t)
	for _, path := range []string{collection, collection + "/", collection + "/0190a0a0-0000-7000-8000-000000000000"} {
		got := rt.do(t, http.MethodOptions, path, header("Tus-Resumable", ""))
		if got.Status != http.StatusNoContent || got.Header.Get("Tus-Version") != "1.0.0" || got.Header.Get("Tus-Checksum-Algorithm") != "sha1,sha256" ||
			got.Header.Get("Tus-Extension") != "creation,creation-with-upload,termination,creation-defer-length,checksum,expiration" || got.Header.Get("Tus-Max-Size") != "" {
			t.Errorf("%s: %d %v", path, got.Status, got.Header)
		}
	}
	for k, want := range map[string]string{one.Key: "67108864", small.Key: "1000"} {
		if got := rt.do(t, http.MethodOptions, collection, key(k)); got.Status != http.StatusNoContent || got.Header.Get("Tus-Max-Size") != want {
			t.Errorf("the largest file: %d %v, want %s", got.Status, got.Header, want)
		}
	}
	if got := rt.do(t, http.MethodOptions, collection, signature(rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, small)}, ""))); got.Header.Get("Tus-Max-Size") != "1000" {
		t.Errorf("with a signature: %v", got.Header)
	}
	rt.do(t, http.MethodOptions, collection, key(one.Key+"x")).rejected(t, http.StatusUnauthorized)
	// What is not supported is rejected, and not taken for something else.
	rt.do(t, http.MethodPost, collection, key(one.Key), length(3), header("Upload-Concat", "partial")).rejected(t, http.StatusBadRequest)
	if got := rt.do(t, http.MethodPost, collection, key(one.Key), length(3), header("Tus-Resumable", "0.2.2")); got.rejected(t, http.StatusPreconditionFailed) == "" || got.Header.Get("Tus-Version") != "1.0.0" {
		t.Errorf("another version: %v", got.Header)
	}
	address := rt.created(t, one.Key, 3)
	for _, method := range []string{http.MethodPatch, http.MethodDelete} {
		rt.do(t, method, address, key(one.Key), header("Tus-Resumable", ""), at(0), chunk([]byte("abc"))).rejected(t, http.StatusPreconditionFailed)
	}
	rt.do(t, http.MethodGet, address, key(one.Key)).Is(t, http.StatusMethodNotAllowed, "GET")
	w.purged(t, one)
}

func sumOf(algorithm string, data []byte) string {
	sum := sha1.Sum(data)
	text := base64.StdEncoding.EncodeToString(sum[:])
	if algorithm == "sha256" {
		long := sha256.Sum256(data)
		text = base64.StdEncoding.EncodeToString(long[:])
	}
	return algorithm + " " + text
}

func TestChecksum_IsVerified(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	file := noise(20 << 20)
	address := rt.created(t, one.Key, len(file))
	rt.sent(t, one.Key, address, 0, file[:1000], header("Upload-Checksum", sumOf("sha1", file[:1000])))
	rt.sent(t, one.Key, address, 1000, file[1000:2000], header("Upload-Checksum", sumOf("sha256", file[1000:2000])))
	for name, c := range map[string]struct {
		status int
		sum    string
	}{
		"of other bytes":          {460, sumOf("sha1", file[2001:3000])},
		"of other bytes, sha256":  {460, sumOf("sha256", nil)},
		"an unknown algorithm":    {400, "md5 " + base64.StdEncoding.EncodeToString(make([]byte, 16))},
		"another algorithm's sum": {400, "sha256" + strings.TrimPrefix(sumOf("sha1", file[2000:3000]), "sha1")},
		"no base64":               {400, "sha1 !!!"},
		"no sum":                  {400, "sha1"},
		"nothing":                 {400, " "},
		"in capitals":             {400, "SHA1" + strings.TrimPrefix(sumOf("sha1", file[2000:3000]), "sha1")},
	} {
		got := rt.do(t, http.MethodPatch, address, key(one.Key), at(2000), chunk(file[2000:3000]), header("Upload-Checksum", c.sum))
		got.Is(t, c.status, "%s", name)
		if n := rt.offset(t, one.Key, address); n != 2000 {
			t.Fatalf("%s: the offset is %d", name, n)
		}
	}
	// A body that ends too soon proves nothing, even if no more than its end is missing;
	// and the last bytes of a file are no exception.
	cut := io.MultiReader(bytes.NewReader(file[2000:]), iotest.ErrReader(errors.New("cut")))
	_, err := rt.try(t.Context(), http.MethodPatch, address, key(one.Key), at(2000), stream(cut), header("Upload-Checksum", sumOf("sha256", file[2000:])))
	if err == nil {
		t.Error("the body was not cut")
	}
	if n := rt.offset(t, one.Key, address); n != 2000 {
		t.Fatalf("after a cut the offset is %d", n)
	}
	rt.do(t, http.MethodPatch, address, key(one.Key), at(2000), chunk(make([]byte, len(file)-2000)), header("Upload-Checksum", sumOf("sha256", file[2000:]))).rejected(t, 460)
	rt.holds(t, rt.sent(t, one.Key, address, 2000, file[2000:], header("Upload-Checksum", sumOf("sha256", file[2000:]))).document(t), file)
	w.purged(t, one)
}

func TestInvalidRequest_IsRejected(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	for _, wrong := range []string{"", "-1", "+5", "x", " ", "1.5", "99999999999999999999"} {
		rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Length", wrong)).rejected(t, http.StatusBadRequest)
	}
	rt.do(t, http.MethodPost, collection, key(one.Key), length(maxUploadSize+1)).rejected(t, http.StatusRequestEntityTooLarge)
	file := []byte("hello, world")
	address := rt.created(t, one.Key, len(file))
	rt.sent(t, one.Key, address, 0, file[:5])
	for offset, status := range map[string]int{"0": 409, "4": 409, "6": 409, "12": 409, "": 400, "-1": 400, "+5": 400, "x": 400} {
		rt.do(t, http.MethodPatch, address, key(one.Key), header("Upload-Offset", offset), chunk(file[5:])).rejected(t, status)
	}
	for _, kind := range []string{"", "application/octet-stream", "text/plain"} {
		rt.do(t, http.MethodPatch, address, key(one.Key), at(5), chunk(file[5:]), header("Content-Type", kind)).rejected(t, http.StatusUnsupportedMediaType)
	}
	more := append(bytes.Clone(file[5:]), "more"...)
	rt.do(t, http.MethodPatch, address, key(one.Key), at(5), chunk(more)).rejected(t, http.StatusRequestEntityTooLarge)
	// A body without a Content-Length is found too long only at its end.
	rt.do(t, http.MethodPatch, address, key(one.Key), at(5), stream(io.MultiReader(bytes.NewReader(more)))).rejected(t, http.StatusRequestEntityTooLarge)
	if n := rt.offset(t, one.Key, address); n != 5 || w.count(t, address) != 0 {
		t.Errorf("after the rejected requests the offset is %d", n)
	}
	rt.holds(t, rt.sent(t, one.Key, address, 5, file[5:]).document(t), file)
	rt.do(t, http.MethodPatch, address, key(one.Key), at(5), chunk(file[5:])).rejected(t, http.StatusConflict)
	rt.sent(t, one.Key, address, 12, nil)
	w.purged(t, one)
}

func TestDelete_EndsTheUpload(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	file := noise(18 << 20)
	address := rt.created(t, one.Key, len(file))
	rt.sent(t, one.Key, address, 0, file[:17<<20])
	rt.do(t, http.MethodDelete, address, key(one.Key)).MustBe(t, http.StatusNoContent, "DELETE")
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
		rt.do(t, method, address, key(one.Key), at(17<<20), chunk(file[17<<20:])).Is(t, http.StatusNotFound, "%s of an upload that was ended", method)
	}
	w.Counts(t, 0, "bytes are reserved", `SELECT bytes FROM account_usage`)
	done := rt.created(t, one.Key, 3)
	item := rt.complete(t, one.Key, done, []byte("abc"))
	rt.do(t, http.MethodDelete, done, key(one.Key)).rejected(t, http.StatusConflict)
	rt.holds(t, item, []byte("abc"))
	// The item is deleted as any other; then its upload is not found either.
	rt.do(t, http.MethodDelete, "/media/delete/"+item.MediaId.String(), key(one.Key)).Is(t, http.StatusOK, "delete")
	rt.do(t, http.MethodHead, done, key(one.Key)).Is(t, http.StatusNotFound, "HEAD of an upload whose item was deleted")
	w.purged(t, one)
}

// A PATCH with bytes at the end of a complete upload was answered 204, as if they were stored.
func TestPatch_OfACompleteUploadWithBytesIsTooLarge(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	address := rt.created(t, one.Key, 3)
	rt.sent(t, one.Key, address, 0, []byte("abc")).MustBe(t, http.StatusNoContent, "the answer")
	for what, send := range map[string][]option{"a length": {chunk([]byte("d"))}, "chunks": {chunk([]byte("defg")), chunked}} {
		rt.do(t, http.MethodPatch, address, append(send, key(one.Key), at(3))...).denied(t, what, http.StatusRequestEntityTooLarge, "the upload is complete")
	}
	for what, send := range map[string][]option{"no bytes": {chunk(nil)}, "no chunks": {chunk(nil), chunked}} {
		if got := rt.do(t, http.MethodPatch, address, append(send, key(one.Key), at(3))...); got.Status != http.StatusNoContent || got.Header.Get("Upload-Offset") != "3" {
			t.Errorf("%s: %d %s", what, got.Status, got.Body)
		}
	}
}

func TestMethodOverride_ReplacesTheMethodOfAPost(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	address := rt.created(t, one.Key, 3, header("X-HTTP-Method-Override", "OPTIONS"))
	as := func(method string) option { return header("X-HTTP-Method-Override", method) }
	if got := rt.do(t, http.MethodPost, address, key(one.Key), as("PATCH"), at(0), chunk([]byte("ab"))); got.Status != http.StatusNoContent || got.Header.Get("Upload-Offset") != "2" {
		t.Errorf("PATCH: %d %v %s", got.Status, got.Header, got.Body)
	}
	rt.do(t, http.MethodPost, address, key(one.Key)).rejected(t, http.StatusMethodNotAllowed)
	rt.do(t, http.MethodPost, address, key(one.Key), as("PUT")).rejected(t, http.StatusMethodNotAllowed)
	rt.do(t, http.MethodPost, address, key(one.Key), as("DELETE")).Is(t, http.StatusNoContent, "DELETE")
	rt.do(t, http.MethodHead, address, key(one.Key)).Is(t, http.StatusNotFound, "HEAD")
}

func TestCORS_AllowsResumableUploadsFromPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *options) {
		o.Server.Origins.Patterns = []string{"https://app.example.org"}
		o.Limits = ratelimit.Config{Key: 0.01, KeyBurst: 3}
	})
	granted := rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, one)}, "")
	page := header("Origin", "https://app.example.org")
	address := collection + "/0190a0a0-0000-7000-8000-000000000000"
	for path, methods := range map[string][]string{collection: {"POST"}, address: {"HEAD", "PATCH", "DELETE"}} {
		for _, method := range methods {
			got := rt.do(t, http.MethodOptions, path, page, header("Access-Control-Request-Method", method),
				header("Access-Control-Request-Headers", "content-type,tus-resumable,upload-checksum,upload-defer-length,upload-length,upload-metadata,upload-offset,x-service-signature"))
			if got.Status != http.StatusNoContent || got.Header.Get("Access-Control-Allow-Origin") != "https://app.example.org" {
				t.Errorf("%s %s: %d %v", method, path, got.Status, got.Header)
			}
		}
	}
	got := rt.do(t, http.MethodPost, collection, page, signature(granted), length(3), chunk([]byte("abc")))
	exposed := strings.ToLower(strings.Join(got.Header.Values("Access-Control-Expose-Headers"), ","))
	for _, name := range []string{"location", "tus-resumable", "upload-offset", "upload-length", "upload-expires", "upload-defer-length", "upload-metadata", "x-service-media", "x-service-media-id", "tus-max-size", "retry-after"} {
		if !strings.Contains(","+exposed+",", ","+name+",") {
			t.Errorf("pages can't read %s: %s", name, exposed)
		}
	}
	got.document(t)
	// The rate limit of the key applies here, too.
	for _, status := range []int{201, 201, 429} {
		if got := rt.do(t, http.MethodPost, collection, page, signature(granted), length(3)); got.Status != status {
			t.Errorf("%d %s, want %d", got.Status, got.Body, status)
		}
	}
}

// A PATCH with a wrong offset or checksum changes nothing, at any state of the upload.
func TestPatch_WrongOffsetOrChecksumChangesNothing(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	file := noise(18 << 20)
	address := rt.created(t, one.Key, len(file))
	rt.sent(t, one.Key, address, 0, file[:17<<20])
	for offset, body := range map[int][]byte{0: file, 17<<20 - 1: file[17<<20-1:], 17<<20 + 1: file[17<<20+1:], len(file): nil} {
		rt.do(t, http.MethodPatch, address, key(one.Key), at(offset), chunk(body)).rejected(t, http.StatusConflict)
	}
	// The checksum of the whole file is not that of the last piece.
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), chunk(file[17<<20:]), header("Upload-Checksum", sumOf("sha256", file))).rejected(t, 460)
	// The length can't be changed once it is declared.
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), chunk(nil), length(17<<20)).rejected(t, http.StatusBadRequest)
	if n := rt.offset(t, one.Key, address); n != 17<<20 || w.count(t, address) != 0 {
		t.Errorf("after the rejected requests the offset is %d", n)
	}
	rt.complete(t, one.Key, address, file)
	w.purged(t, one)
}
