package rest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/retryafter"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/itemcache"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/runtimetest"
)

// cachedItems sets a cache of items for downloads.
func cachedItems(o *options) {
	o.Cache = itemcache.Config{Entries: 16, Bytes: 1 << 20, Lease: 300 * time.Millisecond}
}

// patch sends a merge patch.
func (rt *runtime) patch(t *testing.T, k string, item api.MediaItem, body string, change ...option) answer {
	t.Helper()
	return rt.do(t, http.MethodPatch, "/media/"+item.MediaId.String(), append([]option{key(k), text(body), header("Content-Type", "application/merge-patch+json")}, change...)...)
}

// urlSignature is the signature of a file's URL. It changes with the clock, as the expiry does that it covers.
var urlSignature = regexp.MustCompile(`\?expires=\d+(&|\\u0026)signature=[\w-]+`)

// unsigned returns a document whose URLs have no signature: it is the same at all times.
func unsigned(document []byte) string {
	return urlSignature.ReplaceAllString(string(document), "?signed")
}

func TestUpdate_FollowsTheRulesOfAMergePatch(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	for _, item := range []api.MediaItem{
		rt.upload(t, one.Key, filePart("a.txt", []byte("hello")), field("caption", "old"), field("group", "g"), field("metadata", `{"a": "1", "b": "2"}`)),
		rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("caption", "old"), field("group", "g"), field("metadata", `{"a": "1", "b": "2"}`)),
	} {
		if !maps.Equal(item.Metadata, api.Metadata{"a": "1", "b": "2"}) {
			t.Fatalf("the upload has %v", item.Metadata)
		}
		for _, step := range []struct {
			patch string
			is    func(api.MediaItem) bool
			same  bool // the ETag stays
		}{
			{`{}`, func(i api.MediaItem) bool { return i.Caption == "old" && i.Group == "g" }, true},
			{`{"caption": "new"}`, func(i api.MediaItem) bool { return i.Caption == "new" && i.Group == "g" }, false},
			{`{"caption": "new", "group": "g", "fileName": "a.txt", "access": "private", "metadata": {"a": "1", "x": null}}`, func(i api.MediaItem) bool { return i.Caption == "new" }, true},
			{`{"metadata": {"b": null, "c": "", "d": "4"}}`, func(i api.MediaItem) bool { return maps.Equal(i.Metadata, api.Metadata{"a": "1", "c": "", "d": "4"}) }, false},
			{`{"caption": null, "group": null}`, func(i api.MediaItem) bool { return i.Caption == "" && i.Group == "" && len(i.Metadata) == 3 }, false},
			{`{"metadata": null}`, func(i api.MediaItem) bool { return i.Metadata != nil && len(i.Metadata) == 0 }, false},
			{`{"access": "public", "fileName": "../é 1.txt"}`, func(i api.MediaItem) bool {
				return i.Access == "public" && i.OriginalFileName == "é 1.txt" && strings.Contains(i.File, "/original/%C3%A9%201.txt")
			}, false},
			{`{"access": null}`, func(i api.MediaItem) bool { return i.Access == "private" && strings.Contains(i.File, "signature=") }, false},
		} {
			before := rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).Header.Get("ETag")
			got := rt.patch(t, one.Key, item, step.patch)
			changed := got.item(t)
			if !step.is(changed) || (got.Header.Get("ETag") == before) != step.same {
				t.Errorf("%s: %+v, from the ETag %s to %s", step.patch, changed, before, got.Header.Get("ETag"))
			}
			if read := rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)); read.Header.Get("ETag") != got.Header.Get("ETag") || unsigned(read.Body) != unsigned(got.Body) {
				t.Errorf("%s: answered %s, but it is %s", step.patch, got.Body, read.Body)
			}
		}
	}
}

func TestUpdate_RejectsBadPatchesAndChangesNothing(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	item := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("metadata", `{"k": "v"}`))
	before := rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key))
	many := map[string]string{}
	for i := range 24 {
		many[fmt.Sprintf("k%d", i)] = "v"
	}
	tooMany, err := json.Marshal(map[string]any{"metadata": many})
	must(t, err)
	for body, says := range map[string]string{
		``: "must be a JSON object", `[]`: "must be a JSON object", `null`: "must be a JSON object", `{"caption": 1}`: "caption must be a string",
		`{"captoin": "x", "caption": "new"}`: `unknown field "captoin"`, `{"caption": "a", "caption": "b"}`: "duplicate field", `{"mediaId": "x"}`: `unknown field "mediaId"`,
		`{"access": "secret"}`: "access must be public or private", `{"access": ""}`: "access must be public or private", `{"group": "a\nb"}`: "group must not contain control characters",
		`{"fileName": null}`: "fileName cannot be removed", `{"fileName": ""}`: "fileName must not be empty", `{"caption": "` + strings.Repeat("c", 4097) + `"}`: "caption must be at most 4096 bytes",
		`{"metadata": {"A": "b"}}`: "a metadata key must have", `{"metadata": {"A": null}}`: "a metadata key must have", `{"metadata": {"a": 1}}`: "metadata.a must be a string", `{"originalFileName": "x"}`: "to rename, send fileName", `{"metadata": "x"}`: "metadata must be an object of strings",
		`{"metadata": {"a": "` + strings.Repeat("é", 513) + `"}}`: "metadata.a must be at most 512 characters", `{"caption": "new", "metadata": {"a": "\u0000"}}`: "metadata.a must not contain control characters",
		string(tooMany): "metadata must have at most 24 pairs", `{"focus": {"x": 0.5, "y": 0.5}, "caption": "new"}`: "focus is for images: the file is text/plain",
	} {
		if detail := rt.patch(t, one.Key, item, body).rejected(t, http.StatusBadRequest, "Bad Request"); !strings.Contains(detail, says) {
			t.Errorf("%s: %q, want %q", body, detail, says)
		}
	}
	for _, kind := range []string{"text/plain", "", "application/json-patch+json"} {
		got := rt.patch(t, one.Key, item, `{"caption": "new"}`, header("Content-Type", kind))
		got.rejected(t, http.StatusUnsupportedMediaType, "Unsupported Media Type")
		if got.Header.Get("Accept-Patch") != "application/merge-patch+json, application/json" {
			t.Errorf("Accept-Patch is %q", got.Header.Get("Accept-Patch"))
		}
	}
	if after := rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)); unsigned(after.Body) != unsigned(before.Body) || after.Header.Get("ETag") != before.Header.Get("ETag") {
		t.Errorf("it was changed to %s", after.Body)
	}
}

func TestUpdate_IsConditional(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	item := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")))
	tag := rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).Header.Get("ETag")
	// The ETag of another item of the same version once permitted the change.
	foreign := rt.do(t, http.MethodGet, "/media/get/"+rt.sealed(t, one.Key, filePart("b.txt", []byte("hello"))).MediaId.String(), key(one.Key)).Header.Get("ETag")
	id, version, _ := strings.Cut(strings.Trim(tag, `"`), ".")
	if foreign == tag || !strings.HasSuffix(foreign, "."+version+`"`) {
		t.Fatalf("the ETags are %s and %s", tag, foreign)
	}
	for _, condition := range []string{`"0"`, "W/" + tag, `"x", "y"`, `"` + id + `.02"`, ",", `"x,2"`, `"x",, "y",`, foreign, `"` + version + `"`, `"` + id + `"`, `"` + id + `."`, `"` + id + `-` + version + `"`, `"` + item.MediaId.String() + "." + version + `"`} {
		says := "If-Match names " + httpapi.Truncate(condition) + "; the item's ETag is " + tag
		if strings.HasPrefix(condition, "W/") {
			says += "; weak ETags are not accepted"
		}
		got := rt.patch(t, one.Key, item, `{"caption": "new"}`, header("If-Match", condition))
		if detail := got.rejected(t, http.StatusPreconditionFailed, "Precondition Failed"); detail != says {
			t.Errorf("%s: the answer says %q, not %q", condition, detail, says)
		}
		if got.Header.Get("ETag") != tag {
			t.Errorf("%s: the answer has the ETag %s, not %s", condition, got.Header.Get("ETag"), tag)
		}
	}
	for _, malformed := range []string{"2", `"` + tag + `"`, `"2" "3"`, `"2`, `*, "2"`, "w/" + tag, "", " "} {
		rt.patch(t, one.Key, item, `{"caption": "new"}`, header("If-Match", malformed)).rejected(t, http.StatusBadRequest, "Bad Request")
	}
	missing := item
	missing.MediaId[15]++
	rt.patch(t, one.Key, missing, `{"caption": "new"}`, header("If-Match", "*")).rejected(t, http.StatusNotFound, "Not Found")
	rt.patch(t, one.Key, item, `{"caption": "0"}`, header("If-Match", "*")).item(t)
	rt.patch(t, one.Key, item, `{"caption": "1"}`).item(t)
	tag = rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).Header.Get("ETag")
	// A list may have empty elements, and several lines.
	for i, lines := range [][]string{{"TAG,"}, {", TAG"}, {`"x"`, "TAG"}, {`"x,y" ,,TAG`, ""}} {
		several := func(r *request) {
			for _, line := range lines {
				r.Header.Add("If-Match", strings.ReplaceAll(line, "TAG", tag))
			}
		}
		rt.patch(t, one.Key, item, fmt.Sprintf(`{"caption": "list %d"}`, i), several).item(t)
		tag = rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).Header.Get("ETag")
	}
	// Of concurrent changes of one version exactly one is made.
	var wins sync.Map
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			got, err := rt.try(t.Context(), http.MethodPatch, "/media/"+item.MediaId.String(), key(one.Key), header("Content-Type", "application/json"), text(fmt.Sprintf(`{"caption": "w%d"}`, i)), header("If-Match", `"x", `+tag))
			if err == nil && got.Status == http.StatusOK {
				wins.Store(fmt.Sprintf("w%d", i), true)
			} else if err != nil || got.Status != http.StatusPreconditionFailed {
				t.Errorf("%v %d %s", err, got.Status, got.Body)
			}
		})
	}
	all.Wait()
	won := 0
	wins.Range(func(caption, _ any) bool {
		won++
		if is := rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).item(t).Caption; is != caption {
			t.Errorf("it is %q, but %q was acknowledged", is, caption)
		}
		return true
	})
	if won != 1 {
		t.Errorf("%d of 8 changes were made", won)
	}
}

// A seal, a delete, a restore and a batch cannot depend on a condition: they do nothing instead of ignoring it.
func TestCondition_IsRejectedWhereItCannotBeKept(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	draft := rt.upload(t, one.Key, filePart("a.txt", []byte("hello")))
	id := draft.MediaId.String()
	for _, condition := range []string{`"1"`, `"99"`, "*", ""} {
		for path, method := range map[string]string{"/media/seal/" + id: http.MethodPost, "/media/delete/" + id: http.MethodDelete, "/media/restore/" + id: http.MethodPost} {
			rt.do(t, method, path, key(one.Key), header("If-Match", condition)).rejected(t, http.StatusBadRequest, "Bad Request")
		}
		rt.do(t, http.MethodPost, "/media/batch", key(one.Key), text(`{"operation": "delete", "ids": ["`+id+`"]}`), header("If-Match", condition)).rejected(t, http.StatusBadRequest, "Bad Request")
	}
	if got := rt.do(t, http.MethodGet, "/media/get/"+id, key(one.Key)).item(t); !got.Temp {
		t.Error("the draft was sealed")
	}
}

// A seal, a delete and changes of one draft: each change is before or after the others, and the counters
// are those of the rows.
func TestUpdate_RacesWithSealAndDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.runtime(t), w.runtime(t)
	one := w.tenant(t, "one")
	for i := range 12 {
		item := a.upload(t, one.Key, filePart("a.txt", []byte("hello")), field("group", "g"))
		path := item.MediaId.String()
		var all sync.WaitGroup
		send := func(rt *runtime, method, path, body string) {
			all.Go(func() {
				if got, err := rt.try(t.Context(), method, path, key(one.Key), text(body), header("Content-Type", "application/json")); err != nil || got.Status != http.StatusOK && got.Status != http.StatusNotFound {
					t.Errorf("%s %s: %v %d %s", method, path, err, got.Status, got.Body)
				}
			})
		}
		send(a, http.MethodPatch, "/media/"+path, `{"access": "public", "group": "h"}`)
		send(b, http.MethodPost, "/media/seal/"+path, "")
		send(b, http.MethodPatch, "/media/"+path, `{"group": "g"}`)
		if i%2 == 0 {
			send(a, http.MethodDelete, "/media/delete/"+path, "")
		}
		all.Wait()
	}
	for _, filter := range []string{"", "?access=public", "?access=private", "?group=g", "?group=h", "?group=h&access=public", "?group=g&access=private"} {
		count := decode[api.Count](t, b.do(t, http.MethodGet, "/media/get/count"+filter, key(one.Key))).Count
		listed := decode[[]api.MediaItem](t, a.do(t, http.MethodGet, "/media/get?limit=100&"+strings.TrimPrefix(filter, "?"), key(one.Key)))
		if int(count) != len(listed) || filter == "" && count != 6 {
			t.Errorf("%q: %d are counted, %d are listed", filter, count, len(listed))
		}
	}
}

// When a change of the access is answered, no replica serves the file by the former one.
func TestUpdate_OfTheAccessIsInForceOnEveryReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.runtime(t, cachedItems), w.runtime(t, cachedItems)
	one := w.tenant(t, "one")
	item := a.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("access", "public"))
	public := item.File
	for range 5 {
		for _, rt := range []*runtime{a, b} {
			for range 3 { // the second one is served from the cache
				rt.do(t, http.MethodGet, public).MustBe(t, http.StatusOK, "public")
			}
		}
		private := a.patch(t, one.Key, item, `{"access": "private"}`).item(t)
		for _, rt := range []*runtime{a, b} {
			rt.do(t, http.MethodGet, public).MustBe(t, http.StatusNotFound, "the public address of a private item")
			rt.do(t, http.MethodGet, private.File).Is(t, http.StatusOK, "the signed address")
		}
		if again := b.patch(t, one.Key, item, `{"access": "public"}`).item(t); again.File != public {
			t.Errorf("public again, its URL is %s, not %s", again.File, public)
		}
	}
	// The name is the last segment of the URL, and that of the download.
	renamed := b.patch(t, one.Key, item, `{"fileName": "b.txt"}`).item(t)
	if renamed.File == public || !strings.Contains(renamed.File, "/b.txt?v=") {
		t.Errorf("the URL is %s", renamed.File)
	}
	for _, address := range []string{renamed.File, public} {
		if got := a.do(t, http.MethodGet, address); got.Status != http.StatusOK || !strings.Contains(got.Header.Get("Content-Disposition"), "b.txt") {
			t.Errorf("%s: %d %s", address, got.Status, got.Header.Get("Content-Disposition"))
		}
	}
}

func TestFields_SelectMembers(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	item := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("caption", "c"))
	want := fmt.Sprintf(`{"mediaId":"%s","caption":"c"}`, item.MediaId)
	for path, want := range map[string]string{
		"/media/get/" + item.MediaId.String() + "?fields=caption,mediaId": want,
		"/media/get?fields=mediaId,caption":                               "[" + want + "]",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if got := rt.do(t, method, path, key(one.Key)); got.Status != http.StatusOK || strings.TrimSpace(string(got.Body)) != want {
				t.Errorf("%s %s: %d %s", method, path, got.Status, got.Body)
			}
		}
	}
	if got := rt.do(t, http.MethodGet, "/media/get?fields=mediaId&limit=1", key(one.Key)); !strings.Contains(got.Header.Get("Link"), "fields=mediaId") {
		t.Errorf("the links have no fields: %s", got.Header.Get("Link"))
	}
	detail := rt.do(t, http.MethodGet, "/media/get?fields=caption,secret", key(one.Key)).rejected(t, http.StatusBadRequest, "Bad Request")
	if !strings.Contains(detail, `"secret" is not among them`) {
		t.Errorf("an unknown member: %s", detail)
	}
}

// batch sends a batch.
func (rt *runtime) batch(t *testing.T, body string, change ...option) answer {
	t.Helper()
	return rt.do(t, http.MethodPost, "/media/batch", append(change, text(body))...)
}

func TestBatch_AnswersEachItemInOrder(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	var ids []string
	for i := range 3 {
		ids = append(ids, rt.upload(t, one.Key, filePart(fmt.Sprintf("%d.txt", i), []byte("hello"))).MediaId.String())
	}
	list := fmt.Sprintf(`["%s", "%s", "%s", "%s"]`, ids[2], anyItem, ids[0], ids[1])
	for _, step := range []struct {
		body string
		is   func(*api.MediaItem) bool
	}{
		{`"seal"`, func(i *api.MediaItem) bool { return i != nil && !i.Temp }},
		{`"update", "patch": {"group": "g", "metadata": {"a": "b"}}`, func(i *api.MediaItem) bool { return i != nil && i.Group == "g" && i.Metadata["a"] == "b" }},
		{fmt.Sprintf(`"update", "patches": {"%s": {"caption": "0"}, "%s": {"caption": "1"}, "%s": {"caption": "2"}, "%s": {}}`, ids[0], ids[1], ids[2], anyItem),
			func(i *api.MediaItem) bool {
				return i != nil && i.Caption+".txt" == i.OriginalFileName && i.Group == "g"
			}},
		{`"delete"`, func(i *api.MediaItem) bool { return i == nil }},
	} {
		results := decode[api.BatchResults](t, rt.batch(t, fmt.Sprintf(`{"ids": %s, "operation": %s}`, list, step.body), key(one.Key))).Results
		for at, id := range []string{ids[2], anyItem, ids[0], ids[1]} {
			result := results[at]
			ok := result.Status == http.StatusOK && result.Error == nil && step.is(result.Item)
			if id == anyItem {
				ok = result.Status == http.StatusNotFound && result.Error != nil && result.Error.Code == "not_found"
			}
			if !ok || result.MediaId.String() != id {
				t.Errorf("%s: %d is %+v", step.body, at, result)
			}
		}
	}
	rt.expect(t, one, 0, 0)
}

func TestBatch_RejectsABadBodyAndChangesNothing(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	draft := rt.upload(t, one.Key, filePart("a.txt", []byte("hello")))
	id := draft.MediaId.String()
	tooMany := make([]string, 101)
	for i := range tooMany {
		tooMany[i] = fmt.Sprintf(`"0190a0a0-0000-7000-8000-%012d"`, i)
	}
	for body, says := range map[string]string{
		``: "must be a JSON object", `{}`: "operation must be delete, restore, seal or update", `{"operation": "purge", "ids": ["` + id + `"]}`: "operation must be delete, restore, seal or update",
		`{"operation": "seal"}`: "ids must be a list of 1 to 100", `{"operation": "seal", "ids": []}`: "ids must be a list of 1 to 100", `{"operation": "seal", "ids": [` + strings.Join(tooMany, ",") + `]}`: "ids must be a list of 1 to 100",
		`{"operation": "seal", "ids": ["` + id + `", "x"]}`: "which is no id", `{"operation": "seal", "ids": ["` + id + `", "` + strings.ToUpper(id) + `"]}`: "twice",
		`{"operation": "seal", "ids": ["` + id + `"], "all": true}`: `unknown field "all"`, `{"operation": "seal", "ids": ["` + id + `"], "patch": {}}`: "only an update has patch",
		`{"operation": "update", "ids": ["` + id + `"]}`: "needs patch or patches", `{"operation": "update", "ids": ["` + id + `"], "patch": {"x": 1}}`: `unknown field "x"`,
		`{"operation": "update", "ids": ["` + id + `"], "patches": {}}`: "has none for " + id, `{"operation": "update", "ids": ["` + id + `"], "patches": {"` + anyItem + `": {}}}`: "not among ids",
		`{"operation": "update", "ids": ["` + id + `"], "patches": {"urn:uuid:` + id + `": {}}}`:                                       "not among ids",
		`{"operation": "update", "ids": ["` + id + `"], "patches": {"` + id + `": {}, "` + strings.ReplaceAll(id, "-", "") + `": {}}}`: "not among ids",
		`{"operation": "update", "ids": ["` + id + `"], "patches": {"` + id + `": {"access": "x"}}}`:                                   "access must be public or private",
	} {
		if detail := rt.batch(t, body, key(one.Key)).rejected(t, http.StatusBadRequest, "Bad Request"); !strings.Contains(detail, says) {
			t.Errorf("%s: %q, want %q", body, detail, says)
		}
	}
	if item := rt.do(t, http.MethodGet, "/media/get/"+id, key(one.Key)).item(t); !item.Temp {
		t.Error("the draft was sealed")
	}
}

// A batch is in memory as a whole, several times: bodies that never end must not fill the process.
func TestBatch_AnAccountHoldsAQuarterOfTheSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t) // with 16 slots
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	seal := `{"operation": "seal", "ids": ["` + anyItem + `"]}`
	var held sync.WaitGroup
	release := make(chan struct{})
	for range 4 {
		held.Go(func() {
			for again := true; again; {
				reader, writer := io.Pipe()
				go func() {
					<-release
					_, err := io.WriteString(writer, seal)
					_ = writer.CloseWithError(err)
				}()
				got, err := rt.try(t.Context(), http.MethodPost, "/media/batch", key(one.Key), func(r *request) { r.Body = reader })
				again = got.Status == http.StatusTooManyRequests // the fifth one had the slot
				if err != nil || !again && got.Status != http.StatusOK {
					t.Errorf("a held batch: %d %s %v", got.Status, got.Body, err)
					return
				}
			}
		})
	}
	wait.Until(t, "the fifth batch is rejected", func() bool {
		got := rt.batch(t, seal, key(one.Key))
		return got.Status == http.StatusTooManyRequests && retryafter.Is(got.Header, 1)
	})
	rt.batch(t, seal, key(other.Key)).Is(t, http.StatusOK, "another account")
	close(release)
	held.Wait()
	rt.batch(t, seal, key(one.Key)).Is(t, http.StatusOK, "after the others")
	tooLong := `{"operation": "update", "ids": ["` + anyItem + `"], "patches": {` + strings.Repeat(" ", 1<<20) + `}}`
	rt.batch(t, tooLong, key(one.Key)).rejected(t, http.StatusRequestEntityTooLarge, http.StatusText(http.StatusRequestEntityTooLarge))
}

func TestBatch_NeedsTheScopeOfItsOperation(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, func(o *options) { o.Auth.Resource = runtimetest.BaseURL + "/mcp" })
	for _, tt := range []struct {
		operation string
		scope     auth.Scope
		status    int
	}{
		{`"delete"`, auth.ScopeDelete, http.StatusOK}, {`"delete"`, auth.ScopeWrite, http.StatusForbidden}, {`"seal"`, auth.ScopeWrite, http.StatusOK}, {`"seal"`, auth.ScopeDelete, http.StatusForbidden},
		{`"update", "patch": {}`, auth.ScopeWrite, http.StatusOK}, {`"update", "patch": {}`, auth.ScopeRead, http.StatusForbidden},
	} {
		got := rt.batch(t, fmt.Sprintf(`{"operation": %s, "ids": ["%s"]}`, tt.operation, anyItem), bearer(w.Session(t, one, tt.scope)))
		if got.Status != tt.status || (got.Header.Get("WWW-Authenticate") != "") != (tt.status == http.StatusForbidden) {
			t.Errorf("%s with %s: %d %s", tt.operation, tt.scope, got.Status, got.Body)
		}
	}
}

func TestBatch_CountsEachItemTowardsTheLimits(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Limits = ratelimit.Config{Key: 0.001, KeyBurst: 3} })
	ids := make([]string, 5)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"0190a0a0-0000-7000-8000-%012d"`, i)
	}
	results := decode[api.BatchResults](t, rt.batch(t, `{"operation": "seal", "ids": [`+strings.Join(ids, ",")+`]}`, key(one.Key))).Results
	for i, result := range results {
		if want := map[bool]int{true: http.StatusNotFound, false: http.StatusTooManyRequests}[i < 3]; result.Status != want {
			t.Errorf("item %d: %d, want %d", i, result.Status, want)
		}
	}
}
