package rest_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest"
)

// Each test here writes at one of two replicas, and reads or races at the other one. More of them are beside
// what they are about: TestUndo_TakesEffectOnEveryReplica, TestUpdate_OfTheAccessIsInForceOnEveryReplica,
// TestUpdate_RacesWithSealAndDelete, TestCORS_AnAccountListsItsOwnOrigins, TestUploadFromURL_IsAskedForAtAnyReplica,
// TestSettings_ChangesReachTheUploadsOfEveryReplica.

// Of the changes that two replicas are sent for one version of an item, one is made. Both know it.
func TestReplicas_MakeOneChangeOfAVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replicas := []*runtime{w.runtime(t, cachedItems), w.runtime(t, cachedItems)}
	one := w.tenant(t, "one")
	item := replicas[0].sealed(t, one.Key, filePart("a.txt", []byte("hello")))
	path := "/media/get/" + item.MediaId.String()
	for round := range 5 {
		tag := replicas[round%2].do(t, http.MethodGet, path, key(one.Key)).Header.Get("ETag")
		var mu sync.Mutex
		var all sync.WaitGroup
		var made []string
		for i := range 16 {
			all.Go(func() {
				caption := fmt.Sprintf("%d of %d", i, round)
				got, err := replicas[i%2].try(t.Context(), http.MethodPatch, "/media/"+item.MediaId.String(), key(one.Key), header("Content-Type", "application/json"), header("If-Match", tag), text(fmt.Sprintf(`{"caption": %q}`, caption)))
				switch {
				case err == nil && got.Status == http.StatusOK:
					mu.Lock()
					defer mu.Unlock()
					made = append(made, caption)
				case err != nil || got.Status != http.StatusPreconditionFailed || got.Header.Get("ETag") == tag:
					t.Errorf("%v %d %v %s", err, got.Status, got.Header, got.Body)
				}
			})
		}
		all.Wait()
		if len(made) != 1 {
			t.Fatalf("%q were made of one version", made)
		}
		tags := map[string]bool{}
		for _, rt := range replicas {
			got := rt.do(t, http.MethodGet, path, key(one.Key))
			if tags[got.Header.Get("ETag")] = true; got.item(t).Caption != made[0] {
				t.Errorf("it is %q, and %q was acknowledged", got.item(t).Caption, made[0])
			}
		}
		if len(tags) != 1 || tags[tag] {
			t.Errorf("the ETag was %s, and is %v", tag, tags)
		}
	}
}

// A list that begins at one replica continues at the other one, and both have the same items, counts and
// totals.
func TestReplicas_ListTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.runtime(t), w.runtime(t)
	one := w.tenant(t, "one")
	for i := range 7 {
		rt := []*runtime{a, b}[i%2]
		rt.sealed(t, one.Key, filePart(fmt.Sprintf("%d.txt", i*3%7), make([]byte, 10+i)), field("metadata", fmt.Sprintf(`{"parity": "%d"}`, i%2)), field("group", "g"))
		rt.upload(t, one.Key, filePart(fmt.Sprintf("draft %d.txt", i), []byte("x")))
	}
	for _, query := range []string{"limit=3", "limit=2&sort=name", "limit=2&sort=-size", "limit=1&meta.parity=1", "limit=2&type=application%2F*&sort=time", "limit=3&state=draft", "limit=2&group=g&name=.txt"} {
		var whole []string
		_, whole = a.named(t, one, query[len("limit=1"):]+"&limit=100")
		if _, same := b.named(t, one, query[len("limit=1"):]+"&limit=100"); !slices.Equal(whole, same) || len(whole) < 3 {
			t.Errorf("%s: %q and %q", query, whole, same)
		}
		got, names := a.named(t, one, query)
		for parts := 1; got.Header.Get("X-Next-Cursor") != ""; parts++ {
			if parts > 10 {
				t.Fatalf("%s does not end", query)
			}
			var more []string
			got, more = []*runtime{a, b}[parts%2].named(t, one, query+"&after="+got.Header.Get("X-Next-Cursor"))
			names = append(names, more...)
		}
		if !slices.Equal(names, whole) {
			t.Errorf("%s in parts of two replicas: %q, want %q", query, names, whole)
		}
	}
	for _, path := range []string{"/media/get/count", "/media/get/count?meta.parity=0", "/media/get/size", "/media/get/size?type=text/plain&name=.txt"} {
		if here, there := a.do(t, http.MethodGet, path, key(one.Key)).ok(t), b.do(t, http.MethodGet, path, key(one.Key)).ok(t); string(here) != string(there) {
			t.Errorf("%s: %s and %s", path, here, there)
		}
	}
}

// Two batches of the same items at two replicas: each item is deleted by one of them, and the counters are
// those of the items.
func TestReplicas_CarryOutBatchesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replicas := []*runtime{w.runtime(t, cachedItems), w.runtime(t, cachedItems)}
	one := w.tenant(t, "one", undoFor(account.UndoEveryone))
	var ids []string
	for i := range 9 {
		ids = append(ids, fmt.Sprintf("%q", replicas[i%2].upload(t, one.Key, filePart(fmt.Sprintf("%d.txt", i), []byte("hello"))).MediaId))
	}
	backwards := slices.Clone(ids)
	slices.Reverse(backwards)
	send := func(operations ...string) (done []map[string]int) {
		var all sync.WaitGroup
		done = make([]map[string]int, len(operations))
		for i, operation := range operations {
			all.Go(func() {
				done[i] = map[string]int{}
				body := fmt.Sprintf(`{"operation": %s, "ids": [%s]}`, operation, joined([][]string{ids, backwards}[i]))
				got, err := replicas[i].try(t.Context(), http.MethodPost, "/media/batch", key(one.Key), text(body))
				if err != nil || got.Status != http.StatusOK {
					t.Errorf("%s: %v %d %s", operation, err, got.Status, got.Body)
					return
				}
				for _, result := range decode[api.BatchResults](t, got).Results {
					done[i][result.MediaId.String()] = result.Status
				}
			})
		}
		all.Wait()
		return done
	}
	for _, tt := range []struct {
		operations []string
		wins       int // results of 200 for each item; -1 = one or two
		items      int64
	}{
		{[]string{`"seal"`, `"seal"`}, 2, 9},
		{[]string{`"update", "patch": {"group": "a"}`, `"update", "patch": {"access": "public"}`}, 2, 9},
		{[]string{`"delete"`, `"delete"`}, 1, 0},
		{[]string{`"restore"`, `"restore"`}, 2, 9},
		{[]string{`"delete"`, `"update", "patch": {"caption": "late"}`}, -1, 0},
	} {
		results := send(tt.operations...)
		for id := range results[0] {
			wins := 0
			for _, result := range results {
				if result[id] == http.StatusOK {
					wins++
				} else if result[id] != http.StatusNotFound {
					t.Errorf("%q: %s is answered %d", tt.operations, id, result[id])
				}
			}
			if wins != tt.wins && (tt.wins >= 0 || wins < 1) {
				t.Errorf("%q: %d of 2 were done for %s", tt.operations, wins, id)
			}
		}
		for _, rt := range replicas {
			rt.expect(t, one, tt.items, 5*tt.items)
			if _, names := rt.named(t, one, "limit=100"); int64(len(names)) != tt.items {
				t.Errorf("%q: %d items are listed", tt.operations, len(names))
			}
		}
	}
}

func joined(ids []string) (list string) {
	for i, id := range ids {
		if i > 0 {
			list += ", "
		}
		list += id
	}
	return list
}

// A token has the same scopes at every replica.
func TestReplicas_SplitTheSameRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logins := func(o *options) { o.Auth.Resource = runtimetest.BaseURL + "/mcp" }
	replicas := []*runtime{w.runtime(t, logins), w.runtime(t, logins)}
	one := w.tenant(t, "one", undoFor(account.UndoAgents))
	item := replicas[0].sealed(t, one.Key, filePart("a.txt", []byte("hello")))
	id := item.MediaId.String()
	reader, writer, eraser := w.Session(t, one, auth.ScopeRead), w.Session(t, one, auth.ScopeRead, auth.ScopeWrite), w.Session(t, one, auth.ScopeRead, auth.ScopeDelete)
	for i, rt := range replicas {
		other := replicas[1-i]
		for _, tt := range []struct {
			who    string
			token  string
			send   func(token string) answer
			status int
		}{
			{"a reader deletes", reader, func(token string) answer { return rt.do(t, http.MethodDelete, "/media/delete/"+id, bearer(token)) }, http.StatusForbidden},
			{"a writer deletes", writer, func(token string) answer { return rt.do(t, http.MethodDelete, "/media/delete/"+id, bearer(token)) }, http.StatusForbidden},
			{"a writer deletes many", writer, func(token string) answer {
				return rt.do(t, http.MethodPost, "/media/batch", bearer(token), text(`{"operation": "delete", "ids": ["`+id+`"]}`))
			}, http.StatusForbidden},
			{"a writer changes", writer, func(token string) answer {
				return rt.do(t, http.MethodPatch, "/media/"+id, bearer(token), header("Content-Type", "application/json"), text(`{"caption": "c"}`))
			}, http.StatusOK},
			{"an eraser changes", eraser, func(token string) answer {
				return rt.do(t, http.MethodPatch, "/media/"+id, bearer(token), header("Content-Type", "application/json"), text(`{"caption": "d"}`))
			}, http.StatusForbidden},
			{"an eraser deletes", eraser, func(token string) answer { return rt.do(t, http.MethodDelete, "/media/delete/"+id, bearer(token)) }, http.StatusOK},
			{"a reader reads what was deleted", reader, func(token string) answer { return other.do(t, http.MethodGet, "/media/get/"+id, bearer(token)) }, http.StatusNotFound},
			{"a reader restores", reader, func(token string) answer { return other.do(t, http.MethodPost, "/media/restore/"+id, bearer(token)) }, http.StatusForbidden},
			{"a writer restores", writer, func(token string) answer { return other.do(t, http.MethodPost, "/media/restore/"+id, bearer(token)) }, http.StatusOK},
		} {
			tt.send(tt.token).Is(t, tt.status, "replica %d: %s", i, tt.who)
		}
	}
}

// What one replica reads of a file, the other one knows: in documents, lists and selections.
func TestReplicas_KnowTheSameFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.runtime(t), w.runtime(t)
	one := w.tenant(t, "one")
	sound := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data")
	sound = append(binary.LittleEndian.AppendUint32(sound, 12_345), make([]byte, 12_345)...)
	paper := append([]byte("%PDF-1.7\n1 0 obj\n<</Linearized 1/L 1000/O 3/N 23>>\nendobj\n"), make([]byte, 1000)...)[:1000]
	recorded, written := a.sealed(t, one.Key, filePart("a.wav", sound)), a.sealed(t, one.Key, filePart("a.pdf", paper))
	for id, want := range map[string]string{recorded.MediaId.String(): `{"mimeType":"audio/wav","duration":1.543}`, written.MediaId.String(): `{"mimeType":"application/pdf","pages":23}`} {
		if got := b.do(t, http.MethodGet, "/media/get/"+id+"?fields=duration,pages,mimeType", key(one.Key)); strings.TrimSpace(string(got.ok(t))) != want {
			t.Errorf("got %s, want %s", got.Body, want)
		}
		// The client validates the whole document against the OpenAPI document.
		if item := b.do(t, http.MethodGet, "/media/get/"+id, key(one.Key)).item(t); (item.Duration == 1.543) == (item.Pages == 23) {
			t.Errorf("%+v", item)
		}
	}
	if got := b.do(t, http.MethodGet, "/media/get?fields=duration,pages", key(one.Key)); strings.TrimSpace(string(got.ok(t))) != `[{"pages":23},{"duration":1.543}]` {
		t.Errorf("the list is %s", got.Body)
	}
}
