package mcp_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/settings"
)

// listed is a tool in the list that clients get.
type listed struct {
	Name, Title, Description string
	InputSchema              *jsonschema.Schema
	OutputSchema             *jsonschema.Schema
	Annotations              map[string]any
}

func (rt *replica) tools(t *testing.T, key string) []listed {
	t.Helper()
	var message struct{ Result struct{ Tools []listed } }
	got := rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, apiKey(key))
	if err := json.Unmarshal(got.Body, &message); err != nil || got.Status != http.StatusOK {
		t.Fatalf("tools/list: %d %s", got.Status, got.Body)
	}
	return message.Result.Tools
}

// wrong is an input that a tool rejects.
type wrong struct {
	input object
	says  string // a part of the error text; "?" = none, the input is valid
}

// row has the hints and the inputs of a tool.
type row struct {
	hints object
	// right returns a valid input for an account with this draft.
	right func(draft string) object
	wrong []wrong
}

// eitherOf are the optional arguments of a tool of which one must be sent.
var eitherOf = map[string][]string{"update_media": {"mediaId"}}

var one64 = base64.StdEncoding.EncodeToString([]byte("one"))

func reads() object {
	return object{"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
}

func writes(destructive, idempotent bool) object {
	return object{"readOnlyHint": false, "destructiveHint": destructive, "idempotentHint": idempotent, "openWorldHint": false}
}

func nothing(string) object { return object{} }

func draftID(id string) object { return object{"mediaId": id} }

// aFile returns valid arguments of upload_media with one field changed.
func uploadArguments(field string, value any) object {
	file := object{"fileBase64": one64, "fileName": "one.txt", "mimeType": "text/plain"}
	file[field] = value
	return file
}

// anyID is the id of no item.
const anyID = "0197f2a4-7c1e-7d3a-9b2e-5f6a7b8c9d0e"

var badIDs = []wrong{
	{object{"mediaId": ""}, "mediaId must be an id"},
	{object{"mediaId": nil}, "mediaId is missing"},
	{object{"mediaId": "../x"}, "mediaId must be an id"},
	{object{"mediaId": "{0197f2a4-7c1e-7d3a-9b2e-5f6a7b8c9d0e}"}, "mediaId must be an id"},
	{object{"mediaId": "0197f2a4-7c1e-7d3a-9b2e-5f6a7b8c9d0e"}, "media item not found"},
}

// rows has a row for every tool.
var rows = map[string]row{
	"list_media": {reads(), func(string) object { return object{"page": 1, "limit": 1, "access": "private", "group": "g"} }, []wrong{
		{object{"page": 0}, "page must be 1 or more"},
		{object{"page": 1.5}, "page must be an integer"},
		{object{"page": 1e300}, "page must be an integer"},
		{object{"page": 1 << 31}, "page must be an integer"},
		{object{"page": 1<<31 - 1, "limit": 100}, "page must be"},
		{object{"limit": 0}, "limit must be from 1 to 100"},
		{object{"limit": 101}, "limit must be from 1 to 100"},
		{object{"access": "secret"}, "access must be public or private"},
		{object{"group": strings.Repeat("g", 256)}, "group must be at most 255 bytes"},
		{object{"group": "a\nb"}, "group must not contain control characters"},
	}},
	"get_media":         {reads(), draftID, badIDs},
	"get_media_count":   {reads(), nothing, nil},
	"get_total_storage": {reads(), nothing, nil},
	"seal_media":        {writes(false, true), draftID, badIDs},
	"delete_media":      {writes(true, true), draftID, badIDs},
	"update_media": {writes(true, true), func(draft string) object {
		return object{"mediaId": draft, "caption": "c", "access": "public", "group": "g", "fileName": "x.txt", "metadata": object{"a": "b"}, "clear": []string{"metadata"}}
	}, append(slices.Clone(badIDs[1:]),
		wrong{object{"mediaId": ""}, "mediaId is missing"},
		wrong{object{"caption": "c"}, "mediaId is missing: send mediaId, or mediaIds for up to 50 items"},
		wrong{object{"mediaId": anyID, "mediaIds": []string{anyID}}, "send mediaId or mediaIds"},
		wrong{object{"mediaIds": []string{}, "caption": "c"}, "mediaIds must be a list of 1 to 50 ids"},
		wrong{object{"mediaIds": slices.Repeat([]string{anyID}, 51), "caption": "c"}, "mediaIds must be a list of 1 to 50 ids"},
		wrong{object{"mediaIds": []string{anyID, strings.ToUpper(anyID)}, "caption": "c"}, "twice"},
		wrong{object{"mediaIds": []string{anyID, "x"}, "caption": "c"}, "mediaIds has \"x\", which is no id"},
		wrong{object{"mediaIds": []string{anyID}, "caption": strings.Repeat("c", 4097)}, "caption must be at most 4096 bytes"},
		wrong{object{"mediaId": anyID, "dryRun": true, "caption": strings.Repeat("c", 4097)}, "caption must be at most 4096 bytes"},
		wrong{object{"mediaId": anyID, "access": "secret"}, "access must be public or private"},
		wrong{object{"mediaId": anyID, "caption": strings.Repeat("c", 4097)}, "caption must be at most 4096 bytes"},
		wrong{object{"mediaId": anyID, "group": "a\nb"}, "group must not contain control characters"},
		wrong{object{"mediaId": anyID, "metadata": object{"A": "b"}}, "a metadata key must have"},
		wrong{object{"mediaId": anyID, "metadata": object{"a": 1}}, "metadata.a must be a string"},
		wrong{object{"mediaId": anyID, "metadata": object{"a": strings.Repeat("é", 513)}}, "metadata.a must be at most 512 characters"},
		wrong{object{"mediaId": anyID, "clear": []string{"access"}}, "clear must be a list of caption, group or metadata"},
		wrong{object{"mediaId": anyID, "clear": []string{"group"}, "group": "g"}, "group is in clear and has a new value"})},
	"upload_media": {writes(false, false), func(string) object { return uploadArguments("caption", "c") }, []wrong{
		{uploadArguments("fileBase64", ""), "fileBase64 is empty"},
		{uploadArguments("fileBase64", " \n"), "fileBase64 is empty"},
		{uploadArguments("fileBase64", "data:text/plain;base64,"+one64), "without a data: prefix"},
		{uploadArguments("fileBase64", "b25"), "?"}, // padding is optional
		{uploadArguments("fileBase64", "b"), "incomplete"},
		{uploadArguments("fileBase64", "b25lb"), "incomplete"},
		{uploadArguments("fileBase64", "b25="), "?"},
		{uploadArguments("fileBase64", "b25=="), "padding is wrong"},
		{uploadArguments("fileBase64", "===="), "padding is wrong"},
		{uploadArguments("fileBase64", "b2=5"), "follows the padding"},
		{uploadArguments("fileBase64", "+-+-"), "mixes"},
		{uploadArguments("fileBase64", "b25lß"), "is not base64"},
		{uploadArguments("fileBase64", "file 0"), "incomplete"}, // a placeholder of this package
		{uploadArguments("fileName", ""), "fileName is empty"},
		{uploadArguments("mimeType", ""), "mimeType is empty"},
		{uploadArguments("access", "secret"), "access must be public or private"},
		{uploadArguments("fileName", nil), "fileName is missing"},
		{uploadArguments("caption", strings.Repeat("c", 4097)), "caption must be at most 4096 bytes"},
		{uploadArguments("caption", "a\x00b"), "caption must not contain control characters"},
		{uploadArguments("group", strings.Repeat("g", 256)), "group must be at most 255 bytes"},
	}},
	"create_upload_signature": {writes(false, false), func(string) object { return object{"group": "g"} }, []wrong{
		{object{"group": strings.Repeat("g", 256)}, "group must be at most 255 bytes"},
		{object{"group": "a\nb"}, "group must not contain control characters"},
	}},
	"get_media_settings": {reads(), nothing, nil},
	"update_media_settings": {writes(true, true), func(string) object {
		return object{"useWebP": true, "webpOutputQuality": 80.0, "thumbnailWidth": 1, "thumbnailHeight": 4096}
	}, []wrong{
		{object{"webpOutputQuality": -1}, "webpOutputQuality must be from 0 to 100"},
		{object{"webpOutputQuality": 101}, "webpOutputQuality must be from 0 to 100"},
		{object{"webpOutputQuality": 80.5}, "webpOutputQuality must be an integer"},
		{object{"thumbnailWidth": 0}, "thumbnailWidth must be from 1 to 4096"},
		{object{"thumbnailHeight": 4097}, "thumbnailHeight must be from 1 to 4096"},
		{object{"useWebP": true, "thumbnailHeight": 4097}, "thumbnailHeight must be from 1 to 4096"},
	}},
}

func TestTools_MatchTheirSchemasAndRejectOtherInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one", withOrganize), w.tenant(t, "other")
	rt := w.replica(t)
	foreign := rt.upload(t, other.Key, "theirs.bin", []byte("theirs"))
	tools := rt.tools(t, one.Key)
	if len(tools) != len(rows) {
		t.Errorf("there are %d tools", len(tools))
	}
	for _, tool := range tools {
		row, ok := rows[tool.Name]
		if !ok {
			t.Errorf("%s has no row in this table", tool.Name)
			continue
		}
		hints := tool.Annotations
		if title := hints["title"]; title != tool.Title || tool.Title == "" {
			t.Errorf("%s: its titles are %q and %q", tool.Name, tool.Title, title)
		}
		delete(hints, "title")
		if diff := cmp.Diff(row.hints, hints); diff != "" {
			t.Errorf("%s: its hints (-want +got)\n%s", tool.Name, diff)
		}
		described(t, tool.Name, tool.InputSchema)
		described(t, tool.Name, tool.OutputSchema)
		draft := rt.upload(t, one.Key, "one.bin", []byte("one"))
		before := rt.state(t, one.Key, draft)
		for _, bad := range append(invalidInputs(tool, row.right(draft), eitherOf[tool.Name]), row.wrong...) {
			got := rt.call(t, one.Key, tool.Name, bad.input)
			if bad.says == "?" {
				succeeded[any](t, got)
				before = rt.state(t, one.Key, draft)
				continue
			}
			if says := failed(t, got); !strings.Contains(says, bad.says) {
				t.Errorf("%s %v says %q, want %q", tool.Name, short(bad.input), says, bad.says)
			}
			if after := rt.state(t, one.Key, draft); after != before {
				t.Fatalf("%s %v changed something: %s, before %s", tool.Name, short(bad.input), after, before)
			}
		}
		if _, byID := tool.InputSchema.Properties["mediaId"]; byID {
			theirs := failed(t, rt.call(t, one.Key, tool.Name, object{"mediaId": foreign}))
			if none := failed(t, rt.call(t, one.Key, tool.Name, object{"mediaId": uuid.NewString()})); theirs != none || !strings.Contains(none, "media item not found") {
				t.Errorf("%s: another tenant's item: %q, none: %q", tool.Name, theirs, none)
			}
		}
		output, err := tool.OutputSchema.Resolve(nil)
		must(t, err)
		must(t, output.Validate(succeeded[any](t, rt.call(t, one.Key, tool.Name, row.right(draft)))))
	}
	if got := succeeded[api.MediaItem](t, rt.call(t, other.Key, "get_media", object{"mediaId": foreign})); !got.Temp {
		t.Errorf("the other tenant's draft is %+v", got)
	}
	if got := succeeded[api.Settings](t, rt.call(t, other.Key, "get_media_settings", nil)); got.UseWebP || got.Sources["useWebP"] != settings.FromDefault {
		t.Errorf("the other tenant's settings are %+v", got)
	}
	if got := succeeded[api.Count](t, rt.call(t, other.Key, "get_media_count", nil)); got.Count != 0 {
		t.Errorf("the other tenant has %d items", got.Count)
	}
	if strings.Contains(rt.Logs.String(), one.Key) {
		t.Error("the key is in the log")
	}
}

// described checks that every field has a description for the model.
func described(t *testing.T, tool string, s *jsonschema.Schema) {
	t.Helper()
	if s == nil || s.Type != "object" {
		t.Fatalf("%s: a schema is %+v", tool, s)
	}
	for name, field := range s.Properties {
		if field.Description == "" || field.Type == "" {
			t.Errorf("%s: %s is not described", tool, name)
		}
	}
}

// invalidInputs derives inputs from the schema of a tool that it must reject.
func invalidInputs(tool listed, right object, either []string) []wrong {
	with := func(name string, value any) object {
		input := object{}
		for field, good := range right {
			input[field] = good
		}
		input[name] = value
		return input
	}
	bad := []wrong{{with("surprise", 1), `unknown argument "surprise"`}, {with(strings.Repeat("x", 100), 1), "unknown argument"}}
	for name, field := range tool.InputSchema.Properties {
		var values []any
		if field.Type != "array" {
			values = append(values, []any{})
		}
		if field.Type != "object" {
			values = append(values, object{})
		}
		if field.Type != "string" {
			values = append(values, "1")
		}
		if field.Type != "integer" {
			values = append(values, 1)
		}
		if field.Type != "boolean" {
			values = append(values, true)
		}
		for _, value := range values {
			bad = append(bad, wrong{with(name, value), name + " must be"})
		}
		bad = append(bad, wrong{with(strings.ToUpper(name), "x"), "unknown argument"})
		if slices.Contains(tool.InputSchema.Required, name) {
			less := with("x", 1)
			delete(less, "x")
			delete(less, name)
			bad = append(bad, wrong{less, name + " is missing"}, wrong{with(name, nil), name + " is missing"})
		} else if !slices.Contains(either, name) {
			bad = append(bad, wrong{with(name, nil), "?"}, wrong{with(name, ""), "?"}) // absent
		}
	}
	return bad
}

// state returns what a call could change in a tenant.
func (rt *replica) state(t *testing.T, key, draft string) string {
	t.Helper()
	item := succeeded[api.MediaItem](t, rt.call(t, key, "get_media", object{"mediaId": draft}))
	item.File = ""
	state := []any{item, succeeded[list](t, rt.call(t, key, "list_media", nil)).Total, succeeded[api.Settings](t, rt.call(t, key, "get_media_settings", nil)),
		succeeded[api.Totals](t, rt.call(t, key, "get_total_storage", nil))}
	text, err := json.Marshal(state)
	must(t, err)
	return string(text)
}

func short(input object) string {
	text, _ := json.Marshal(input)
	return string(text[:min(len(text), 100)])
}

func TestArguments_MustBeAnObject(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	for _, arguments := range []any{[]any{}, "page", 1, true} {
		if says := failed(t, rt.call(t, one.Key, "list_media", arguments)); says != "the arguments must be a JSON object" {
			t.Errorf("%v says %q", arguments, says)
		}
	}
}

func TestTools_RejectEndedCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.replica(t)
	names := []string{}
	for name := range rows {
		names = append(names, name)
	}
	rejected := func(key string) bool {
		for _, name := range names {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{}}}`
			if got := rt.post(t, body, apiKey(key)); got.Status != http.StatusUnauthorized {
				return false
			}
		}
		return rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, apiKey(key)).Status == http.StatusUnauthorized
	}
	suspended, revoked := w.tenant(t, "suspended"), w.tenant(t, "revoked")
	for _, key := range []string{suspended.Key, revoked.Key} {
		succeeded[api.Count](t, rt.call(t, key, "get_media_count", nil))
	}
	w.Change(t, suspended, func(s *account.Spec) { s.Suspended = true })
	wait.Until(t, "a suspended account is rejected", func() bool { return rejected(suspended.Key) })
	_, _, err := w.Registry.IssueKey(t.Context(), revoked.App.ID, 2, 0)
	must(t, err)
	wait.Until(t, "a revoked key is rejected", func() bool { return rejected(revoked.Key) })
}

func TestPinnedSetting_IsRejectedByName(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	succeeded[any](t, rt.call(t, one.Key, "update_media_settings", object{"thumbnailHeight": 50}))
	quality := 40
	must(t, w.Settings.Pin(t.Context(), one.Account.ID, settings.Layer{WebPOutputQuality: &quality}, settings.Object{Name: "team-a/site", UID: "uid of team-a/site"}))
	says := failed(t, rt.call(t, one.Key, "update_media_settings", object{"useWebP": true, "webpOutputQuality": 90}))
	if !strings.Contains(says, "webpOutputQuality: pinned by MediaSettings team-a/site") || !strings.Contains(says, "nothing was changed") {
		t.Errorf("it says %q", says)
	}
	want := api.Settings{
		Effective: settings.Effective{WebPOutputQuality: 40, ThumbnailWidth: 320, ThumbnailHeight: 50}, PinnedBy: "team-a/site",
		Sources: api.Sources{"useWebP": settings.FromDefault, "webpOutputQuality": settings.FromPin, "thumbnailWidth": settings.FromDefault, "thumbnailHeight": settings.FromTenant},
	}
	if got := succeeded[api.Settings](t, rt.call(t, one.Key, "get_media_settings", nil)); !reflect.DeepEqual(got, want) {
		t.Errorf("the settings are %+v, want %+v", got, want)
	}
}

// A signature that a tool creates is valid for uploads by REST, with its group.
func TestSignature_UploadsByREST(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	signature := succeeded[api.Signature](t, rt.call(t, one.Key, "create_upload_signature", object{"group": "bound"})).Signature
	body := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nhello\r\n--x--\r\n"
	got := rt.send(t, http.MethodPost, "/media/create", strings.NewReader(body), header("x-service-signature", signature), header("Content-Type", "multipart/form-data; boundary=x"))
	var item api.MediaItem
	if err := json.Unmarshal(got.Body, &item); err != nil || got.Status != http.StatusCreated || item.Group != "bound" {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	sealed := succeeded[api.MediaItem](t, rt.call(t, one.Key, "seal_media", object{"mediaId": item.MediaId}))
	if !bytes.Equal(rt.read(t, sealed), []byte("hello")) {
		t.Error("the file has other bytes")
	}
	rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, header("x-service-signature", signature)).Is(t, http.StatusUnauthorized, "a signature")
}

func TestTools_NameTheLifetimeOfDrafts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	for words, ttl := range map[string]time.Duration{"24 hours": 24 * time.Hour, "1 hour": time.Hour, "90 minutes": 90 * time.Minute} {
		rt := w.replica(t, func(o *options) { o.MCP.DraftTTL = ttl })
		named := 0
		for _, tool := range rt.tools(t, one.Key) {
			if strings.Contains(tool.Description, "after "+words) {
				named++
			} else if strings.Contains(tool.Description, " hour") {
				t.Errorf("%s: %s", words, tool.Description)
			}
		}
		if named != 2 { // seal_media and upload_media
			t.Errorf("%d tools name %s", named, words)
		}
	}
}
