package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// oneItem is a store with one item, which can be changed. It records what is asked of other items, and
// has none of them.
type oneItem struct {
	media.Store
	item  media.Item
	calls []string
}

func (s *oneItem) called(operation string, id uuid.UUID) error {
	s.calls = append(s.calls, operation+" "+id.String())
	if id != s.item.ID || operation != "update" {
		return fault.New(fault.NotFound, "media item not found")
	}
	return nil
}

// UpdateItem implements media.Store.
func (s *oneItem) UpdateItem(_ context.Context, _ media.Scope, id uuid.UUID, decide func(media.Item, bool) (media.Item, bool, error)) (media.Item, error) {
	if err := s.called("update", id); err != nil {
		return media.Item{}, err
	}
	changed, differs, err := decide(s.item, false)
	if err != nil || !differs {
		return s.item, err
	}
	changed.Version++
	s.item = changed
	return changed, nil
}

// Seal implements media.Store.
func (s *oneItem) Seal(_ context.Context, _ media.Scope, id uuid.UUID, _ time.Time) (media.Item, error) {
	return media.Item{}, s.called("seal", id)
}

// DeleteItem implements media.Store.
func (s *oneItem) DeleteItem(_ context.Context, _ media.Scope, id uuid.UUID, _ time.Time) (media.Removal, error) {
	return media.Removal{}, s.called("delete", id)
}

// RestoreItem implements media.Store.
func (s *oneItem) RestoreItem(_ context.Context, _ media.Scope, id uuid.UUID) (media.Item, bool, error) {
	return media.Item{}, false, s.called("restore", id)
}

// draft is an item with a value of each kind.
func draft() media.Item {
	return media.Item{ID: uuid.MustParse("0197f2a4-7c1e-7d3a-9b2e-5f6a7b8c9d0e"), FileName: "a.txt", Access: media.Public, Caption: "c", Group: "g",
		Metadata: media.Metadata{"album": "2026", "b": "x"}, Version: 3, Objects: media.Objects{{Variant: media.Original, MimeType: "text/plain"}}}
}

// merged applies a merge patch as RFC 7396 says (section 2).
func merged(target, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	into, ok := target.(map[string]any)
	if !ok {
		into = map[string]any{}
	}
	for name, value := range members {
		if value == nil {
			delete(into, name)
		} else {
			into[name] = merged(into[name], value)
		}
	}
	return into
}

// document returns what a merge patch changes.
func document(item media.Item) map[string]any {
	metadata := map[string]any{}
	for key, value := range item.Metadata {
		metadata[key] = value
	}
	return map[string]any{"fileName": item.FileName, "access": string(item.Access), "caption": item.Caption, "group": item.Group, "metadata": metadata}
}

// FuzzUpdate_FollowsRFC7396 sends arbitrary merge patches and conditions. A patch that is accepted changes
// the item as the RFC says, and the same patch again changes nothing. Any other changes nothing.
func FuzzUpdate_FollowsRFC7396(f *testing.F) {
	for _, patch := range []string{`{}`, ``, `null`, `[]`, `{"caption": null, "group": "x"}`, `{"metadata": null}`, `{"metadata": {"a": "b", "album": null}}`, `{"metadata": {"a": {"b": "c"}}}`, `{"caption": 1}`,
		`{"caption": "a", "caption": "b"}`, `{"caption": "a", "Caption": "b"}`, `{"metadata": {"a": "b", "a": null}}`, `{"caption": "\ud83c\udfd6"}`, `{"caption": "\ud83c"}`, `{"caption": 1e400}`, `{"access": "secret"}`,
		`{"fileName": "../x\u0000"}`, `{"fileName": null}`, `{"fileName": ""}`, `{"caption": "a"} {}`, "{}\f", "\u00a0{}", "{\"caption\": \"\xff\"}", `{"originalFileName": "x"}`, strings.Repeat(`{"metadata":`, 200) + "1" + strings.Repeat("}", 200)} {
		f.Add(patch, "")
	}
	for _, condition := range []string{etag(draft()), "W/" + etag(draft()), `"3"`, `"2"`, "*", `"3", "x"`, `"3`, "3", `,,"3",`, `"x,3"`, "\x00", `"3""3"`} {
		f.Add(`{"caption": "new"}`, condition)
	}
	store := &oneItem{}
	routes := handler(f, store)
	send := func(patch, condition string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPatch, "/media/"+store.item.ID.String(), strings.NewReader(patch))
		r.Header.Set("Content-Type", mergePatch)
		if condition != "" {
			r.Header.Set("If-Match", condition)
		}
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, r)
		return w
	}
	f.Fuzz(func(t *testing.T, patch, condition string) {
		before := draft()
		store.item = before
		switch got := send(patch, condition); got.Code {
		case http.StatusOK:
		case http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge:
			if !reflect.DeepEqual(store.item, before) {
				t.Fatalf("%d for %q, and the item is %+v", got.Code, patch, store.item)
			}
			if !json.Valid(got.Body.Bytes()) {
				t.Fatalf("the answer is %q", got.Body)
			}
			return
		default:
			t.Fatalf("%q if %q: %d %s", patch, condition, got.Code, got.Body)
		}
		var value any
		if err := json.Unmarshal([]byte(patch), &value); err != nil {
			t.Fatalf("%q is accepted: %v", patch, err)
		}
		want, _ := merged(document(before), value).(map[string]any)
		for name, absent := range map[string]any{"access": "private", "caption": "", "group": "", "metadata": map[string]any{}} {
			if _, ok := want[name]; !ok {
				want[name] = absent
			}
		}
		want["fileName"] = media.CleanFileName(fmt.Sprint(want["fileName"]))
		after := store.item
		if got := document(after); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q makes %v, want %v", patch, got, want)
		}
		if changed := !reflect.DeepEqual(document(before), document(after)); (after.Version != before.Version) != changed {
			t.Fatalf("%q: version %d, then %d", patch, before.Version, after.Version)
		}
		if got := send(patch, ""); got.Code != http.StatusOK || !reflect.DeepEqual(store.item, after) {
			t.Fatalf("%q again: %d, %+v, then %+v", patch, got.Code, after, store.item)
		}
	})
}

// numberTags are entity tags that are numbers.
var numberTags = regexp.MustCompile(`"([0-9]+)"`)

// tags are the entity tags of a list (RFC 9110, section 8.8.3), each with what is before it.
var tags = regexp.MustCompile(`^[ \t]*(W/)?"([^"]*)"[ \t]*(,|$)`)

// FuzzCondition reads arbitrary If-Match headers. One that is accepted is a list of tags, and names the
// versions of the strong ones that an item can have.
func FuzzCondition(f *testing.F) {
	for _, header := range []string{"", "*", " * ", `"1"`, `W/"1"`, `"1", "2"`, `"1",, "x" ,`, `"1" "2"`, `"01"`, `"+1"`, `"-1"`, `"99999999999999999999"`, `"x,1"`, `"1`, "1", `w/"1"`, `"", "2"`, "\"1\"\t,\t\"2\"", `*, "1"`, ",\r", "\u00a0"} {
		f.Add(header)
	}
	id := draft().ID
	f.Add(etag(draft()))
	f.Fuzz(func(t *testing.T, header string) {
		// A number stands for the tag of that version of the item.
		tagged := numberTags.ReplaceAllString(header, `"`+etagPrefix(id)+`$1"`)
		condition, err := readCondition(id, tagged)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("%q: %v", header, err)
			}
			return
		}
		if condition.Versions == nil {
			if trimmed := strings.Trim(header, " \t"); trimmed != "" && trimmed != "*" {
				t.Fatalf("%q is any version", header)
			}
			return
		}
		want := []int{}
		for rest := header; strings.Trim(rest, ", \t") != ""; {
			rest = strings.TrimLeft(rest, ", \t")
			tag := tags.FindStringSubmatch(rest)
			if tag == nil {
				t.Fatalf("%q is accepted", header)
			}
			text := strings.TrimPrefix(tag[2], etagPrefix(id))
			if version, err := strconv.Atoi(text); err == nil && version > 0 && tag[1] == "" && strconv.Itoa(version) == text {
				want = append(want, version)
			}
			rest = rest[len(tag[0]):]
		}
		if !slices.Equal(condition.Versions, want) {
			t.Fatalf("%q names %v, want %v", header, condition.Versions, want)
		}
		if more, err := readCondition(id, tagged+`, "`+etagPrefix(id)+`12345"`); err != nil || !slices.Equal(more.Versions, append(want, 12345)) {
			t.Fatalf("%q and another one name %v, %v", header, more.Versions, err)
		}
	})
}

// FuzzBatch sends arbitrary bodies. A batch that is accepted is carried out for each of its ids once, in
// their order, with a result for each. Any other is carried out for none.
func FuzzBatch(f *testing.F) {
	const one, other = "0197f2a4-7c1e-7d3a-9b2e-5f6a7b8c9d0e", "0190a0a0-0000-7000-8000-00000000000a"
	for _, body := range []string{"", "{}", "null", "[]", `{"operation": "seal"}`, `{"operation": "seal", "ids": []}`, `{"operation": "seal", "ids": null}`, `{"operation": "burn", "ids": ["` + one + `"]}`,
		`{"operation": "seal", "ids": ["` + one + `", "` + other + `"]}`, `{"operation": "delete", "ids": ["` + one + `", "` + one + `"]}`, `{"operation": "restore", "ids": ["` + strings.ToUpper(one) + `"]}`,
		`{"operation": "delete", "ids": ["{` + one + `}"]}`, `{"operation": "seal", "ids": ["` + one + `"], "patch": {}}`, `{"operation": "update", "ids": ["` + one + `"]}`,
		`{"operation": "update", "ids": ["` + one + `"], "patch": {"caption": "x"}}`, `{"operation": "update", "ids": ["` + one + `"], "patch": null}`, `{"operation": "update", "ids": ["` + one + `"], "patch": {}, "patches": {}}`,
		`{"operation": "update", "ids": ["` + one + `", "` + other + `"], "patches": {"` + one + `": {"caption": "x"}, "` + other + `": {}}}`, `{"operation": "update", "ids": ["` + one + `"], "patches": {"` + one + `": {"caption": 1}}}`,
		`{"operation": "update", "ids": ["` + one + `"], "patches": {"` + one + `": {}, "` + strings.ToUpper(one) + `": {"caption": "x"}}}`, `{"operation": "seal", "operation": "delete", "ids": ["` + one + `"]}`,
		`{"operation": "seal", "ids": [1e400]}`, `{"operation": "\ud83c", "ids": ["` + one + `"]}`, `{"operation": "seal", "ids": ["` + one + `"], "x": 1}`} {
		f.Add(body)
	}
	store := &oneItem{}
	routes := handler(f, store)
	f.Fuzz(func(t *testing.T, body string) {
		before := draft()
		store.item, store.calls = before, nil
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/media/batch", strings.NewReader(body)))
		switch w.Code {
		case http.StatusOK:
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			if len(store.calls) > 0 || !reflect.DeepEqual(store.item, before) {
				t.Fatalf("%d for %q, and %q was done", w.Code, body, store.calls)
			}
			return
		default:
			t.Fatalf("%q: %d %s", body, w.Code, w.Body)
		}
		var sent struct {
			Operation string
			IDs       []uuid.UUID
			Patch     json.RawMessage
			Patches   map[string]json.RawMessage
		}
		var results api.BatchResults
		if err := json.Unmarshal([]byte(body), &sent); err != nil || len(sent.IDs) < 1 || len(sent.IDs) > maxBatchIDs {
			t.Fatalf("%q is accepted: %v", body, err)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &results); err != nil || len(results.Results) != len(sent.IDs) || len(store.calls) != len(sent.IDs) {
			t.Fatalf("%q: %v, %d results of %d ids, %q was done", body, err, len(results.Results), len(sent.IDs), store.calls)
		}
		for i, id := range sent.IDs {
			want := http.StatusNotFound
			if sent.Operation == "update" && id == before.ID {
				want = http.StatusOK
			}
			if got := results.Results[i]; got.MediaId != id || got.Status != want || (got.Item != nil) != (want == http.StatusOK) || (got.Error == nil) != (want == http.StatusOK) || store.calls[i] != sent.Operation+" "+id.String() {
				t.Fatalf("%q: result %d is %+v, and %q was done", body, i, got, store.calls[i])
			}
			if slices.Contains(sent.IDs[:i], id) {
				t.Fatalf("%q has %s twice", body, id)
			}
		}
		if sent.Operation != "update" && !reflect.DeepEqual(store.item, before) {
			t.Fatalf("%q changes the item to %+v", body, store.item)
		}
	})
}

// foundQuery is a store that records the list that is searched.
type foundQuery struct {
	recordingStore
	queries []media.Query
}

// FindItems implements media.Store.
func (s *foundQuery) FindItems(_ context.Context, _ media.Scope, q media.Query, _ *media.Position, _ int) (media.Found, error) {
	s.queries = append(s.queries, q)
	return media.Found{}, nil
}

// CountItems implements media.Store.
func (s *foundQuery) CountItems(context.Context, media.Scope, media.Filter) (int64, error) {
	return 0, nil
}

// FuzzFind_LinksNameTheSameList sends arbitrary filters. The link to the first page of a list that is
// accepted requests the same list; any other list is not read.
func FuzzFind_LinksNameTheSameList(f *testing.F) {
	f.Add("image/*", "photo", "2026-11-22T18:30:00Z", "2026-11-23T00:00:00.5+02:00", "-size", "", "color", "red")
	f.Add("IMAGE/PNG", "\x00", "9999-12-31T23:59:59Z", "", "name", "draft", "A", "\xff")
	f.Add("a/b/c", "a&b=c#%", "0000-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "--time", "sealed", "a.b-c_d", "")
	f.Add("", "ü 漢", "", "2026-11-23T00:00:00.123456789Z", "time", "draft", "k", "a;b")
	store := &foundQuery{}
	routes := handler(f, store)
	first := regexp.MustCompile(`<http://media\.test([^>]*)>; rel="first"`)
	f.Fuzz(func(t *testing.T, kind, name, from, to, sort, state, key, value string) {
		query := url.Values{"type": {kind}, "name": {name}, "from": {from}, "to": {to}, "sort": {sort}, "state": {state}, "limit": {"7"}}
		if key != "" {
			query.Set(metaPrefix+key, value)
		}
		ask := func(target string) (int, string, media.Query) {
			store.queries, store.lists = nil, nil
			w := httptest.NewRecorder()
			routes.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest || (w.Code == http.StatusOK) != (len(store.queries)+len(store.lists) == 1) {
				t.Fatalf("%s: %d %s, %d lists were read", target, w.Code, w.Body, len(store.queries)+len(store.lists))
			}
			for _, q := range store.queries {
				return w.Code, w.Header().Get("Link"), q
			}
			return w.Code, "", media.Query{}
		}
		status, link, q := ask("/media/get?" + query.Encode())
		if status != http.StatusOK || link == "" { // a list without filters
			return
		}
		if !utf8.ValidString(q.Name) || q.Limit != 7 {
			t.Fatalf("%v requests %+v", query, q)
		}
		target := first.FindStringSubmatch(link)
		if target == nil {
			t.Fatalf("%v: Link is %q", query, link)
		}
		_, _, again := ask(target[1])
		if !again.From.Equal(q.From) || !again.To.Equal(q.To) || !maps.Equal(again.Metadata, q.Metadata) {
			t.Fatalf("%v requests %+v, its link %+v", query, q, again)
		}
		again.From, again.To, again.Metadata = q.From, q.To, q.Metadata
		if !reflect.DeepEqual(again, q) {
			t.Fatalf("%v requests %+v, its link %+v", query, q, again)
		}
	})
}

// FuzzSignatureRequest creates signatures with arbitrary restrictions. What is accepted is within the
// bounds of a capability.
func FuzzSignatureRequest(f *testing.F) {
	for _, body := range []string{"", "{}", "null", `{"group": "g"}`, `{"expiresIn": 60}`, `{"expiresIn": 1e3, "maxBytes": 5.0, "types": ["image/*"], "count": 1, "access": "public", "metadata": {"a": "b"}, "ref": "r", "seal": true}`,
		`{"expiresIn": 59}`, `{"expiresIn": 18446744134}`, `{"maxBytes": -1}`, `{"maxBytes": 1e400}`, `{"maxBytes": 9223372036854775808}`, `{"count": 0}`, `{"count": 1.5}`, `{"types": []}`, `{"types": [null]}`, `{"types": ["*/*"]}`, `{"seal": "yes"}`,
		`{"metadata": {"a": null}}`, `{"ref": "\ud83c"}`, `{"ref": "a\u0000"}`, `{"count": 1, "Count": 2}`} {
		f.Add(body)
	}
	routes := handler(f, &oneItem{})
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/media/signature/create", strings.NewReader(body)))
		switch w.Code {
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			if !json.Valid(w.Body.Bytes()) {
				t.Fatalf("the answer is %q", w.Body)
			}
			return
		case http.StatusOK:
		default:
			t.Fatalf("%q: %d %s", body, w.Code, w.Body)
		}
		var created api.Signature
		if err := json.Unmarshal(w.Body.Bytes(), &created); err != nil || created.Signature == "" || created.ExpiresAt.IsZero() {
			t.Fatalf("%q: %v, %s", body, err, w.Body)
		}
		if text := bytes.TrimSpace([]byte(body)); len(text) == 0 {
			return
		}
		var sent struct {
			Group, Ref *string
			Access     *media.Access
			Types      []string
			Count      *json.Number
			MaxBytes   *json.Number
			ExpiresIn  *json.Number
		}
		if err := json.Unmarshal([]byte(body), &sent); err != nil && json.Valid([]byte(body)) {
			return // an optional member may be "", too
		}
		for name, number := range map[string]*json.Number{"count": sent.Count, "maxBytes": sent.MaxBytes, "expiresIn": sent.ExpiresIn} {
			if number == nil {
				continue
			}
			if value, err := number.Float64(); err != nil || value < 1 || value != float64(int64(value)) {
				t.Fatalf("%s of %s is accepted: %q", name, *number, body)
			} else if name == "expiresIn" && (value < upload.MinCapabilityLifetime.Seconds() || value > upload.MaxCapabilityLifetime.Seconds()) {
				t.Fatalf("%q is accepted", body)
			}
		}
		if sent.Group != nil && len(*sent.Group) > media.MaxGroup || sent.Access != nil && *sent.Access != media.Public && *sent.Access != media.Private && *sent.Access != "" {
			t.Fatalf("%q is accepted", body)
		}
	})
}
