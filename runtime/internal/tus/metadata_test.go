package tus_test

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/api"
)

func TestMetadata_IsParsedStrictly(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
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
		if got.Status != http.StatusCreated {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
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
		got.Is(t, c.status, "%s", name)
		if name == "no base64" && !strings.Contains(string(got.Body), `the value of \"filename\" in Upload-Metadata`) {
			t.Errorf("the answer does not name the key: %s", got.Body)
		}
	}
	rt.do(t, http.MethodPost, collection, key(one.Key), length(5), func(r *request) { r.Header["Upload-Metadata"] = []string{"", ""} }).Is(t, http.StatusBadRequest, "twice")
	if after := w.QueryInt(t, `SELECT count(*) FROM resumable_upload`); after != before {
		t.Errorf("%d uploads of rejected requests", after-before)
	}
}

// A caption may be as long as it likes, but proxies bound what a header may hold.
func TestDocument_OmittedWhenTooLongForAHeader(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	got := rt.do(t, http.MethodPost, collection, key(one.Key), length(0), metadata("caption", strings.Repeat("é", 2048)))
	if got.Status != http.StatusCreated || got.Header.Get("x-service-media") != "" || got.Header.Get("x-service-media-id") != idOf(got.Header.Get("Location")) {
		t.Errorf("%d %v", got.Status, got.Header)
	}
	if again := rt.do(t, http.MethodHead, got.Header.Get("Location"), key(one.Key)); again.Status != http.StatusOK {
		t.Errorf("HEAD: %d", again.Status)
	}
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
				if got := how(); got.Status != http.StatusOK || !slices.Equal(got.Header.Values("Upload-Metadata"), slices.DeleteFunc([]string{sent}, func(s string) bool { return s == "" })) {
					t.Errorf("sent %q, got %d %q", sent, got.Status, got.Header["Upload-Metadata"])
				}
			}
			if got := here.sent(t, one.Key, address, at, []byte(data)); got.Header.Get("Upload-Metadata") != "" {
				t.Errorf("PATCH returns %q", got.Header.Get("Upload-Metadata"))
			}
		}
		if got := there.do(t, http.MethodHead, address, key(one.Key)); got.Header.Get("Upload-Metadata") != sent || got.Header.Get("x-service-media-id") == "" {
			t.Errorf("complete: sent %q, got %v", sent, got.Header)
		}
	}
}
