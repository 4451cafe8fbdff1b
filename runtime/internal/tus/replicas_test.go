package tus_test

import (
	"encoding/binary"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
)

// recording is a WAV file of 8,000 bytes per second, which says that it has so many bytes of samples.
func recording(declared uint32, samples int) []byte {
	file := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data")
	return append(binary.LittleEndian.AppendUint32(file, declared), make([]byte, samples)...)
}

// undoable writes a spec whose deletes can be undone.
func undoable(s *account.Spec) { s.Undo = account.Undo{Window: time.Hour, For: account.UndoEveryone} }

// The first bytes say how long a recording is, at whichever replica they arrive, and in however many
// requests. The draft has it, though they are not at hand when it is made.
func TestReplicas_KnowWhatTheFirstBytesSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	here, there := w.replica(t), w.replica(t)
	const samples = 12_000_000
	file := recording(samples, samples)
	address := here.created(t, one.Key, len(file))
	here.sent(t, one.Key, address, 0, file[:30]) // a part of the header
	there.sent(t, one.Key, address, 30, file[30:6<<20])
	got := here.sent(t, one.Key, address, 6<<20, file[6<<20:]).document(t)
	if got.Duration != 1500 || got.Pages != 0 {
		t.Errorf("the draft is %+v", got)
	}
	for _, rt := range []*replica{here, there} {
		if body := rt.do(t, http.MethodGet, "/media/get/"+got.MediaId.String()+"?fields=duration", key(one.Key)).Body; strings.TrimSpace(string(body)) != `{"duration":1500}` {
			t.Errorf("the document is %s", body)
		}
	}
	// A file of another length than its header says has no duration: its length is known at the end only.
	deferred := there.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1")).Header.Get("Location")
	there.sent(t, one.Key, deferred, 0, file[:6<<20])
	if got := here.sent(t, one.Key, deferred, 6<<20, file[6<<20:7<<20], length(7<<20)).document(t); got.Duration != 0 {
		t.Errorf("a part of the file is %+v", got)
	}
	small := here.created(t, one.Key, 8044)
	if got := there.sent(t, one.Key, small, 0, recording(8000, 8000)).document(t); got.Duration != 1 {
		t.Errorf("a small one is %+v", got)
	}
	w.purged(t, one)
}

// A draft that was uploaded at one replica is changed, sealed, deleted and restored at the other one; its
// upload is answered alike by both.
func TestReplicas_ShareTheDraftOfAnUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", undoable)
	here, there := w.replica(t), w.replica(t)
	once := here.capability(t, one.Key, `{"count": 1, "group": "bound", "ref": "user 1", "metadata": {"k": "v"}}`)
	address := there.do(t, http.MethodPost, collection, once, length(5)).Header.Get("Location")
	here.do(t, http.MethodPost, collection, once, length(5)).denied(t, "a second upload", http.StatusForbidden, "as often as it permits")
	draft := here.do(t, http.MethodPatch, address, once, at(0), chunk([]byte("hello"))).document(t)
	if draft.Group != "bound" || draft.Ref != "user 1" || draft.Metadata["k"] != "v" || !draft.Temp {
		t.Errorf("the draft is %+v", draft)
	}
	id := draft.MediaId.String()
	merge := header("Content-Type", "application/merge-patch+json")
	if got := there.do(t, http.MethodPatch, "/media/"+id, key(one.Key), merge, plain(`{"caption": "c", "access": "public"}`)).item(t); got.Caption != "c" {
		t.Errorf("changed: %+v", got)
	}
	sealed := here.do(t, http.MethodPost, "/media/seal/"+id, key(one.Key)).item(t)
	public := sealed.File
	if !strings.HasSuffix(public, "?v="+sealed.Sha256[:12]) {
		t.Errorf("the public address is %s", public)
	}
	for _, rt := range []*replica{here, there} {
		if got := rt.do(t, http.MethodHead, address, key(one.Key)).document(t); got.Caption != "c" || got.Temp {
			t.Errorf("HEAD of the upload: %+v", got)
		}
	}
	there.do(t, http.MethodDelete, "/media/delete/"+id, key(one.Key))
	for _, rt := range []*replica{here, there} {
		rt.do(t, http.MethodGet, public).Is(t, http.StatusNotFound, "the file of a deleted item")
		rt.do(t, http.MethodHead, address, key(one.Key)).Is(t, http.StatusNotFound, "the upload of a deleted item")
	}
	if got := here.do(t, http.MethodPost, "/media/restore/"+id, key(one.Key)).item(t); got.File != public {
		t.Errorf("restored: %+v", got)
	}
	for _, rt := range []*replica{here, there} {
		if got := rt.do(t, http.MethodGet, public); string(got.Body) != "hello" {
			t.Errorf("the file of a restored item: %d %s", got.Status, got.Body)
		}
	}
}
