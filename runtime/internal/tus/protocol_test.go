package tus_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
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
		if got.status != http.StatusNoContent || got.header.Get("Tus-Version") != "1.0.0" || got.header.Get("Tus-Checksum-Algorithm") != "sha1,sha256" ||
			got.header.Get("Tus-Extension") != "creation,creation-with-upload,termination,creation-defer-length,checksum,expiration" || got.header.Get("Tus-Max-Size") != "" {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
	}
	for k, want := range map[string]string{one.Key: "67108864", small.Key: "1000"} {
		if got := rt.do(t, http.MethodOptions, collection, key(k)); got.status != http.StatusNoContent || got.header.Get("Tus-Max-Size") != want {
			t.Errorf("the largest file: %d %v, want %s", got.status, got.header, want)
		}
	}
	if got := rt.do(t, http.MethodOptions, collection, signature(rt.auth.Sign(auth.Identity{Principal: w.Principal(t, small)}, ""))); got.header.Get("Tus-Max-Size") != "1000" {
		t.Errorf("with a signature: %v", got.header)
	}
	rt.do(t, http.MethodOptions, collection, key(one.Key+"x")).rejected(t, http.StatusUnauthorized)
	// What is not supported is rejected, and not taken for something else.
	rt.do(t, http.MethodPost, collection, key(one.Key), length(3), header("Upload-Concat", "partial")).rejected(t, http.StatusBadRequest)
	if got := rt.do(t, http.MethodPost, collection, key(one.Key), length(3), header("Tus-Resumable", "0.2.2")); got.rejected(t, http.StatusPreconditionFailed) == "" || got.header.Get("Tus-Version") != "1.0.0" {
		t.Errorf("another version: %v", got.header)
	}
	address := rt.created(t, one.Key, 3)
	for _, method := range []string{http.MethodPatch, http.MethodDelete} {
		rt.do(t, method, address, key(one.Key), header("Tus-Resumable", ""), at(0), chunk([]byte("abc"))).rejected(t, http.StatusPreconditionFailed)
	}
	if got := rt.do(t, http.MethodGet, address, key(one.Key)); got.status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", got.status)
	}
	w.purged(t, one)
}

func TestMetadata_IsParsedStrictly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, c := range map[string]struct {
		field string
		want  api.MediaItem
	}{
		"none":               {"", api.MediaItem{OriginalFileName: "file", Access: "private"}},
		"what Uppy sends":    {"relativePath " + encode("null") + ",name " + encode("b.txt") + ",type " + encode("text/plain") + ",filetype " + encode("text/plain") + ",filename " + encode("a.txt"), api.MediaItem{OriginalFileName: "a.txt", Access: "private"}},
		"the other names":    {"name " + encode("c.txt") + ", mimeType " + encode("text/csv"), api.MediaItem{OriginalFileName: "c.txt", Access: "private"}},
		"camel case":         {"fileName " + encode("d.txt"), api.MediaItem{OriginalFileName: "d.txt", Access: "private"}},
		"all":                {"filename " + encode("日本語.txt") + ",caption " + encode("été 🏖") + ",group " + encode("группа") + ",access " + encode("public"), api.MediaItem{OriginalFileName: "日本語.txt", Caption: "été 🏖", Group: "группа", Access: "public"}},
		"empty and no value": {"caption ,group,is_confidential", api.MediaItem{OriginalFileName: "file", Access: "private"}},
		"a path":             {"filename " + encode(`..\..\etc/passwd`), api.MediaItem{OriginalFileName: "passwd", Access: "private"}},
		"not UTF-8":          {"filename " + encode("a\xff.txt"), api.MediaItem{OriginalFileName: "a\uFFFD.txt", Access: "private"}},
	} {
		got := rt.do(t, http.MethodPost, collection, key(one.Key), length(5), header("Upload-Metadata", c.field), chunk([]byte("hello")))
		if got.status != http.StatusCreated {
			t.Errorf("%s: %d %s", name, got.status, got.body)
			continue
		}
		item := got.document(t)
		if item.OriginalFileName != c.want.OriginalFileName || item.Caption != c.want.Caption || item.Group != c.want.Group || item.Access != c.want.Access {
			t.Errorf("%s: %+v", name, item)
		}
	}
	before := w.QueryInt(t, `SELECT count(*) FROM resumable_upload`)
	for name, c := range map[string]struct {
		status int
		field  string
	}{
		"no base64":             {400, "filename !!!"},
		"base64 for addresses":  {400, "filename _-8="},
		"no padding":            {400, "filename YQ"},
		"two spaces":            {400, "filename  " + encode("a")},
		"no key":                {400, " " + encode("a") + ",,"},
		"a key twice":           {400, "group " + encode("a") + ",group " + encode("b")},
		"a key not in ASCII":    {400, "größe " + encode("a")},
		"an access of nobody":   {400, "access " + encode("everyone")},
		"a caption too long":    {400, "caption " + encode(strings.Repeat("x", 4097))},
		"a group too long":      {400, "group " + encode(strings.Repeat("x", 256))},
		"a group over lines":    {400, "group " + encode("a\nb")},
		"a caption not UTF-8":   {400, "caption " + encode("\xff")},
		"a type too long":       {400, "filetype " + encode(strings.Repeat("x", 256))},
		"a type with a nothing": {400, "filetype " + encode("a\x00b")},
		"a field too long":      {413, "other " + encode(strings.Repeat("x", 7000))},
	} {
		got := rt.do(t, http.MethodPost, collection, key(one.Key), length(5), header("Upload-Metadata", c.field), chunk([]byte("hello")))
		if got.status != c.status {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if name == "no base64" && !strings.Contains(string(got.body), `the value of \"filename\" in Upload-Metadata`) {
			t.Errorf("the answer does not name the key: %s", got.body)
		}
	}
	if got := rt.do(t, http.MethodPost, collection, key(one.Key), length(5), func(r *request) { r.header["Upload-Metadata"] = []string{"", ""} }); got.status != http.StatusBadRequest {
		t.Errorf("twice: %d", got.status)
	}
	if after := w.QueryInt(t, `SELECT count(*) FROM resumable_upload`); after != before {
		t.Errorf("%d uploads of rejected requests", after-before)
	}
}

// A caption may be as long as it likes, but proxies bound what a header may hold.
func TestDocument_OmittedWhenTooLongForAHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	got := rt.do(t, http.MethodPost, collection, key(one.Key), length(0), metadata("caption", strings.Repeat("é", 2048)))
	if got.status != http.StatusCreated || got.header.Get("x-service-media") != "" || got.header.Get("x-service-media-id") != idOf(got.header.Get("Location")) {
		t.Errorf("%d %v", got.status, got.header)
	}
	if again := rt.do(t, http.MethodHead, got.header.Get("Location"), key(one.Key)); again.status != http.StatusOK {
		t.Errorf("HEAD: %d", again.status)
	}
}

func TestCreate_CompletesAnEmptyFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	for name, more := range map[string][]option{"without a body": nil, "with an empty one": {chunk(nil)}} {
		got := rt.do(t, http.MethodPost, collection, append([]option{key(one.Key), length(0), metadata("filename", "a.txt")}, more...)...)
		if got.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", name, got.status, got.body)
		}
		rt.holds(t, got.document(t), nil)
		if n := rt.offset(t, one.Key, got.header.Get("Location")); n != 0 {
			t.Errorf("%s: the offset is %d", name, n)
		}
		rt.do(t, http.MethodDelete, got.header.Get("Location"), key(one.Key)).rejected(t, http.StatusConflict)
	}
	w.purged(t, one)
}

func TestCreate_AcceptsTheFirstBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	file := noise(6 << 20)
	whole := rt.do(t, http.MethodPost, collection+"/", key(one.Key), length(len(file)), chunk(file))
	if whole.status != http.StatusCreated || whole.header.Get("Upload-Offset") != "6291456" {
		t.Fatalf("%d %v %s", whole.status, whole.header, whole.body)
	}
	rt.holds(t, whole.document(t), file)
	part := rt.do(t, http.MethodPost, collection, key(one.Key), length(len(file)), chunk(file[:1000]))
	if part.status != http.StatusCreated || part.header.Get("Upload-Offset") != "1000" || part.header.Get("x-service-media-id") != "" || part.header.Get("Upload-Expires") == "" {
		t.Fatalf("%d %v %s", part.status, part.header, part.body)
	}
	rt.complete(t, one.Key, part.header.Get("Location"), file)
	// The URL of an upload that was created before its bytes were rejected is returned, so
	// that the upload can be continued.
	rejected := rt.do(t, http.MethodPost, collection, key(one.Key), length(len(file)), chunk(file[:1000]), header("Upload-Checksum", sumOf("sha1", file[:999])))
	rejected.rejected(t, 460)
	rt.complete(t, one.Key, rejected.header.Get("Location"), file)
	rt.do(t, http.MethodPost, collection, key(one.Key), length(3), chunk(file[:4])).rejected(t, http.StatusRequestEntityTooLarge)
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
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
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
		if got.status != c.status {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
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

func TestDeferredLength_IsDeclaredOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	file := noise(18 << 20)
	deferred := func(change ...option) string {
		got := rt.do(t, http.MethodPost, collection, append([]option{key(one.Key), header("Upload-Defer-Length", "1")}, change...)...)
		if got.status != http.StatusCreated {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return got.header.Get("Location")
	}
	address := deferred()
	rt.sent(t, one.Key, address, 0, file[:17<<20])
	if got := rt.do(t, http.MethodHead, address, key(one.Key)); got.header.Get("Upload-Defer-Length") != "1" || got.header.Get("Upload-Length") != "" || got.header.Get("Upload-Offset") != "17825792" {
		t.Errorf("HEAD returns %v", got.header)
	}
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), length(1000), chunk(nil)).rejected(t, http.StatusBadRequest)
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), length(maxUploadSize+1), chunk(nil)).rejected(t, http.StatusRequestEntityTooLarge)
	for _, wrong := range []string{"-1", "+18", "1e3", "x", "99999999999999999999"} {
		rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20), header("Upload-Length", wrong), chunk(nil)).rejected(t, http.StatusBadRequest)
	}
	rt.sent(t, one.Key, address, 17<<20, nil, length(len(file)))
	// A client that lost the response may declare the length again, but can't change it.
	rt.sent(t, one.Key, address, 17<<20, file[17<<20:17<<20+10], length(len(file)))
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20+10), length(len(file)+1), chunk(nil)).rejected(t, http.StatusBadRequest)
	rt.do(t, http.MethodPatch, address, key(one.Key), at(17<<20+10), length(len(file)-1), chunk(nil)).rejected(t, http.StatusBadRequest)
	rt.complete(t, one.Key, address, file)
	// The length may be declared after the last byte, or with the first; and may be 0.
	for _, size := range []int{0, 1000, 17 << 20} {
		address := deferred(chunk(file[:size]))
		if n := rt.offset(t, one.Key, address); n != size {
			t.Errorf("the offset of %d is %d", size, n)
		}
		rt.holds(t, rt.sent(t, one.Key, address, size, nil, length(size)).document(t), file[:size])
	}
	rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "2")).rejected(t, http.StatusBadRequest)
	rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1"), length(3)).rejected(t, http.StatusBadRequest)
	w.purged(t, one)
}

func TestInvalidRequest_IsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
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
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	file := noise(18 << 20)
	address := rt.created(t, one.Key, len(file))
	rt.sent(t, one.Key, address, 0, file[:17<<20])
	if got := rt.do(t, http.MethodDelete, address, key(one.Key)); got.status != http.StatusNoContent {
		t.Fatalf("DELETE: %d %s", got.status, got.body)
	}
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
		if got := rt.do(t, method, address, key(one.Key), at(17<<20), chunk(file[17<<20:])); got.status != http.StatusNotFound {
			t.Errorf("%s of an upload that was ended: %d", method, got.status)
		}
	}
	if n := w.QueryInt(t, `SELECT bytes FROM account_usage`); n != 0 {
		t.Errorf("%d bytes are reserved", n)
	}
	done := rt.created(t, one.Key, 3)
	item := rt.complete(t, one.Key, done, []byte("abc"))
	rt.do(t, http.MethodDelete, done, key(one.Key)).rejected(t, http.StatusConflict)
	rt.holds(t, item, []byte("abc"))
	// The item is deleted as any other; then its upload is not found either.
	if got := rt.do(t, http.MethodDelete, "/media/delete/"+item.MediaId.String(), key(one.Key)); got.status != http.StatusOK {
		t.Errorf("delete: %d", got.status)
	}
	if got := rt.do(t, http.MethodHead, done, key(one.Key)); got.status != http.StatusNotFound {
		t.Errorf("HEAD of an upload whose item was deleted: %d", got.status)
	}
	w.purged(t, one)
}

func TestUpload_ExpiresAtItsUploadExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	expires := func(got answer) time.Time {
		at, err := http.ParseTime(got.header.Get("Upload-Expires"))
		must(t, err)
		return at
	}
	got := rt.do(t, http.MethodPost, collection, key(one.Key), length(10))
	address := got.header.Get("Location")
	first := expires(got)
	if left := first.Sub(rt.clock.Now()); left < 24*time.Hour-5*time.Minute || left > 24*time.Hour {
		t.Errorf("it expires in %s", left)
	}
	rt.clock.Advance(time.Hour)
	if again := expires(rt.do(t, http.MethodHead, address, key(one.Key))); !again.Equal(first) {
		t.Errorf("HEAD moved the expiry from %s to %s", first, again)
	}
	if later := expires(rt.sent(t, one.Key, address, 0, []byte("abc"))); later.Before(first.Add(time.Hour - time.Second)) {
		t.Errorf("bytes moved the expiry from %s to %s", first, later)
	}
	w.purged(t, one)
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
		if got := rt.do(t, method, address, key(one.Key), at(3), chunk([]byte("defghij"))); got.status != http.StatusNotFound {
			t.Errorf("%s of an expired upload: %d", method, got.status)
		}
	}
}

func TestCreate_ReservesUnderTheCap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.MaxStorage, s.MaxUploadSize = 40<<20, 30<<20 })
	rt := w.replica(t)
	first := rt.created(t, one.Key, 30<<20)
	if detail := rt.do(t, http.MethodPost, collection, key(one.Key), length(11<<20)).rejected(t, http.StatusRequestEntityTooLarge); !strings.Contains(detail, "cap") {
		t.Errorf("over the cap: %s", detail)
	}
	got := rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1"))
	deferred := got.header.Get("Location")
	rt.sent(t, one.Key, deferred, 0, noise(6<<20))
	rt.do(t, http.MethodPatch, deferred, key(one.Key), at(6<<20), chunk(noise(6<<20))).rejected(t, http.StatusRequestEntityTooLarge)
	if detail := rt.do(t, http.MethodPatch, deferred, key(one.Key), at(6<<20), chunk(noise(25<<20))).rejected(t, http.StatusRequestEntityTooLarge); !strings.Contains(detail, "cap") && !strings.Contains(detail, "maxUploadSize") {
		t.Errorf("over the limit of files: %s", detail)
	}
	if got := rt.do(t, http.MethodDelete, first, key(one.Key)); got.status != http.StatusNoContent {
		t.Errorf("DELETE: %d", got.status)
	}
	rt.sent(t, one.Key, deferred, rt.offset(t, one.Key, deferred), noise(6<<20))
	w.purged(t, one)
}

// HEAD once returned the parsed fields, in random order, without the keys that have no field
// and with an access that was not sent.
func TestHead_ReturnsMetadataAsItWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, sent := range []string{
		"",
		"filename " + encode("../a.txt") + ",relativePath " + encode("null") + ",is_confidential,caption ,name " + encode("b"),
		"zzz " + encode("\x00\xff") + ", filename " + encode("a") + " ,aaa",
		"caption " + encode(strings.Repeat("é", 2048)) + ",other " + encode(strings.Repeat("x", 1900)),
	} {
		address := here.created(t, one.Key, 2, header("Upload-Metadata", sent))
		for at, data := range []string{"a", "b"} {
			for _, how := range []func() answer{
				func() answer { return there.do(t, http.MethodHead, address, key(one.Key)) },
				func() answer {
					return there.do(t, http.MethodPost, address, key(one.Key), header("X-HTTP-Method-Override", "HEAD"))
				},
			} {
				if got := how(); got.status != http.StatusOK || !slices.Equal(got.header.Values("Upload-Metadata"), slices.DeleteFunc([]string{sent}, func(s string) bool { return s == "" })) {
					t.Errorf("sent %q, got %d %q", sent, got.status, got.header["Upload-Metadata"])
				}
			}
			if got := here.sent(t, one.Key, address, at, []byte(data)); got.header.Get("Upload-Metadata") != "" {
				t.Errorf("PATCH returns %q", got.header.Get("Upload-Metadata"))
			}
		}
		if got := there.do(t, http.MethodHead, address, key(one.Key)); got.header.Get("Upload-Metadata") != sent || got.header.Get("x-service-media-id") == "" {
			t.Errorf("complete: sent %q, got %v", sent, got.header)
		}
	}
}

// A PATCH with bytes at the end of a complete upload was answered 204, as if they were stored.
func TestPatch_OfACompleteUploadWithBytesIsTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	address := rt.created(t, one.Key, 3)
	if got := rt.sent(t, one.Key, address, 0, []byte("abc")); got.status != http.StatusNoContent {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for what, send := range map[string][]option{"a length": {chunk([]byte("d"))}, "chunks": {chunk([]byte("defg")), chunked}} {
		rt.do(t, http.MethodPatch, address, append(send, key(one.Key), at(3))...).denied(t, what, http.StatusRequestEntityTooLarge, "the upload is complete")
	}
	for what, send := range map[string][]option{"no bytes": {chunk(nil)}, "no chunks": {chunk(nil), chunked}} {
		if got := rt.do(t, http.MethodPatch, address, append(send, key(one.Key), at(3))...); got.status != http.StatusNoContent || got.header.Get("Upload-Offset") != "3" {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
}

// Only an incomplete upload has Upload-Expires: a client would take that of a complete one for
// the time at which the draft is deleted.
func TestUploadExpires_IsSentUntilTheUploadIsComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	address := rt.created(t, one.Key, 2)
	for name, tt := range map[string]struct {
		got     answer
		expires bool
	}{
		"created":            {rt.do(t, http.MethodPost, collection, key(one.Key), length(2)), true},
		"created with bytes": {rt.do(t, http.MethodPost, collection, key(one.Key), length(2), chunk([]byte("a"))), true},
		"not complete":       {rt.do(t, http.MethodHead, address, key(one.Key)), true},
		"sent":               {rt.sent(t, one.Key, address, 0, []byte("a")), true},
		"completed":          {rt.sent(t, one.Key, address, 1, []byte("b")), false},
		"complete":           {rt.do(t, http.MethodHead, address, key(one.Key)), false},
		"created empty":      {rt.do(t, http.MethodPost, collection, key(one.Key), length(0)), false},
		"created whole":      {rt.do(t, http.MethodPost, collection, key(one.Key), length(1), chunk([]byte("a"))), false},
		"created, deferred":  {rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1")), true},
	} {
		_, sent := tt.got.header["Upload-Expires"]
		if _, complete := tt.got.header["X-Service-Media-Id"]; sent != tt.expires || complete == tt.expires {
			t.Errorf("%s: %d %v", name, tt.got.status, tt.got.header)
		}
	}
}

func TestMethodOverride_ReplacesTheMethodOfAPost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t)
	address := rt.created(t, one.Key, 3, header("X-HTTP-Method-Override", "OPTIONS"))
	as := func(method string) option { return header("X-HTTP-Method-Override", method) }
	if got := rt.do(t, http.MethodPost, address, key(one.Key), as("PATCH"), at(0), chunk([]byte("ab"))); got.status != http.StatusNoContent || got.header.Get("Upload-Offset") != "2" {
		t.Errorf("PATCH: %d %v %s", got.status, got.header, got.body)
	}
	rt.do(t, http.MethodPost, address, key(one.Key)).rejected(t, http.StatusMethodNotAllowed)
	rt.do(t, http.MethodPost, address, key(one.Key), as("PUT")).rejected(t, http.StatusMethodNotAllowed)
	if got := rt.do(t, http.MethodPost, address, key(one.Key), as("DELETE")); got.status != http.StatusNoContent {
		t.Errorf("DELETE: %d %s", got.status, got.body)
	}
	if got := rt.do(t, http.MethodHead, address, key(one.Key)); got.status != http.StatusNotFound {
		t.Errorf("HEAD: %d", got.status)
	}
}

func TestCORS_AllowsResumableUploadsFromPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *options) {
		o.server.Origins.Patterns = []string{"https://app.example.org"}
		o.limits = ratelimit.Config{Key: 0.01, KeyBurst: 3}
	})
	granted := rt.auth.Sign(auth.Identity{Principal: w.Principal(t, one)}, "")
	page := header("Origin", "https://app.example.org")
	address := collection + "/0190a0a0-0000-7000-8000-000000000000"
	for path, methods := range map[string][]string{collection: {"POST"}, address: {"HEAD", "PATCH", "DELETE"}} {
		for _, method := range methods {
			got := rt.do(t, http.MethodOptions, path, page, header("Access-Control-Request-Method", method),
				header("Access-Control-Request-Headers", "content-type,tus-resumable,upload-checksum,upload-defer-length,upload-length,upload-metadata,upload-offset,x-service-signature"))
			if got.status != http.StatusNoContent || got.header.Get("Access-Control-Allow-Origin") != "https://app.example.org" {
				t.Errorf("%s %s: %d %v", method, path, got.status, got.header)
			}
		}
	}
	got := rt.do(t, http.MethodPost, collection, page, signature(granted), length(3), chunk([]byte("abc")))
	exposed := strings.ToLower(strings.Join(got.header.Values("Access-Control-Expose-Headers"), ","))
	for _, name := range []string{"location", "tus-resumable", "upload-offset", "upload-length", "upload-expires", "upload-defer-length", "upload-metadata", "x-service-media", "x-service-media-id", "tus-max-size", "retry-after"} {
		if !strings.Contains(","+exposed+",", ","+name+",") {
			t.Errorf("pages can't read %s: %s", name, exposed)
		}
	}
	got.document(t)
	// The rate limit of the key applies here, too.
	for _, status := range []int{201, 201, 429} {
		if got := rt.do(t, http.MethodPost, collection, page, signature(granted), length(3)); got.status != status {
			t.Errorf("%d %s, want %d", got.status, got.body, status)
		}
	}
}

// A PATCH that repeats the length, while the one that declared it first is still running,
// was rejected with 400: it had read the upload before it had the lock.
func TestDeferredLength_MayBeRepeatedWhileTheFirstRequestRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	plain := w.replica(t)
	file := noise(1000)
	var address string
	var declared sync.Once
	raced := w.replica(t, func(o *options) {
		o.beforeLock = func() {
			declared.Do(func() {
				plain.do(t, http.MethodPatch, address, key(one.Key), at(0), header("Upload-Length", "1000"), chunk(file[:400]))
			})
		}
	})
	address = plain.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1")).header.Get("Location")
	got := raced.do(t, http.MethodPatch, address, key(one.Key), at(400), header("Upload-Length", "1000"), chunk(file[400:]))
	if got.status != http.StatusNoContent || got.header.Get("Upload-Offset") != "1000" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
}
