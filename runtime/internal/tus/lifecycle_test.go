package tus_test

import (
	"net/http"
	"testing"
)

func TestUpload_ContinuesAtAnotherReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	file := noise(21<<20 + 7)
	address := here.created(t, one.Key, len(file), metadata("filename", "Ferien 🏖.bin", "caption", "Größe\nзимой", "group", "g", "other", "x"))
	if n := there.offset(t, one.Key, address); n != 0 {
		t.Errorf("a new upload is at %d", n)
	}
	got := here.sent(t, one.Key, address, 0, file[:9<<20])
	if got.Header.Get("Upload-Expires") == "" || got.Header.Get("x-service-media-id") != "" {
		t.Errorf("in the middle: %v", got.Header)
	}
	got = there.sent(t, one.Key, address, 9<<20, file[9<<20:])
	item := got.document(t)
	if item.OriginalFileName != "Ferien 🏖.bin" || item.Caption != "Größe\nзимой" || item.Group != "g" || !item.Temp || got.Header.Get("Upload-Expires") != "" {
		t.Errorf("the draft is %+v, from a response with %v", item, got.Header)
	}
	here.holds(t, item, file)
	if again := here.do(t, http.MethodHead, address, key(one.Key)).document(t); again.MediaId != item.MediaId || again.Size != item.Size {
		t.Errorf("HEAD returns %+v", again)
	}
	w.purged(t, one)
}
