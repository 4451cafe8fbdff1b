package mcp_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/jpeg"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/oauth"
)

// seeing writes a spec with the toolset see.
func seeing(s *account.Spec) {
	s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetFind, account.ToolsetOrganize, account.ToolsetSee}
}

func withImages(o *options) { o.Images = true }

// seen is the structured result of view_media.
type seen struct {
	MediaID, FileName, MimeType, DominantColor, Caption, Group, CreatedAt, CapturedAt, Note string
	Temp                                                                                    bool
	Width, Height                                                                           int
	Shown                                                                                   *struct{ Width, Height int }
}

// view calls view_media. The text is always first and equals the structured content; a picture may follow.
func (rt *replica) view(t *testing.T, key string, arguments object) (found seen, picture []byte, failure string) {
	t.Helper()
	result, err := rt.connect(t, key).CallTool(t.Context(), &sdk.CallToolParams{Name: "view_media", Arguments: arguments})
	must(t, err)
	text, ok := result.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("the first block is %T", result.Content[0])
	}
	if result.IsError {
		if len(result.Content) != 1 || result.StructuredContent != nil {
			t.Errorf("an error has %d blocks, and %v", len(result.Content), result.StructuredContent)
		}
		return seen{}, nil, text.Text
	}
	structured, err := json.Marshal(result.StructuredContent)
	must(t, err)
	var a, b any
	must(t, json.Unmarshal([]byte(text.Text), &a))
	must(t, json.Unmarshal(structured, &b))
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("the text is %s, the structured content %s", text.Text, structured)
	}
	must(t, json.Unmarshal(structured, &found))
	if len(result.Content) > 1 {
		block, ok := result.Content[1].(*sdk.ImageContent)
		if !ok || len(result.Content) != 2 || block.MIMEType != "image/jpeg" {
			t.Fatalf("%d blocks, %T", len(result.Content), result.Content[1])
		}
		picture = block.Data
	}
	if (picture != nil) != (found.Shown != nil) {
		t.Errorf("the text says %v is shown, %d bytes follow", found.Shown, len(picture))
	}
	return found, picture, ""
}

func TestViewMedia_ShowsAnImageAfterItsFacts(t *testing.T) {
	t.Parallel()
	w, _, rt := withTenant(t, withImages)
	one := w.tenant(t, "seeing", seeing)
	photo := imagetest.WithEXIF(imagetest.JPEG(imagetest.Stored(imagetest.Picture(1600, 1200), 6)), 6)
	id := rt.upload(t, one.Key, "photo.jpg", photo, object{"caption": "a caption", "group": "trip"})
	for size, c := range map[string]struct{ width, height, bytes int }{"": {512, 384, 48 << 10}, "small": {512, 384, 48 << 10}, "large": {1024, 768, 200 << 10}} {
		found, picture, failure := rt.view(t, one.Key, object{"mediaId": id, "size": size})
		if failure != "" {
			t.Fatal(failure)
		}
		if found.MediaID != id || found.FileName != "photo.jpg" || found.MimeType != "image/jpeg" || found.Width != 1600 || found.Height != 1200 || found.Caption != "a caption" || found.Group != "trip" ||
			!found.Temp || found.CreatedAt == "" || !strings.HasPrefix(found.DominantColor, "#") {
			t.Errorf("%s: %+v", size, found)
		}
		if !strings.Contains(found.Note, "An image follows. If you can't see it, say so and don't describe it.") || !strings.Contains(found.Note, "update_media") {
			t.Errorf("%s: the note is %q", size, found.Note)
		}
		shown, err := jpeg.Decode(bytes.NewReader(picture))
		must(t, err)
		if at := shown.Bounds(); at.Dx() != c.width || at.Dy() != c.height || *found.Shown != (struct{ Width, Height int }{c.width, c.height}) || len(picture) > c.bytes {
			t.Errorf("%s: %v, said to be %v, with %d bytes", size, at, found.Shown, len(picture))
		}
		if red, _, blue, _ := shown.At(10, 10).RGBA(); red < 0xc000 || blue > 0x4000 {
			t.Errorf("%s: the upper left is %v: it is not upright", size, shown.At(10, 10))
		}
		if bytes.Contains(picture, []byte("Exif")) || bytes.Contains(picture, []byte(imagetest.Secret)) {
			t.Errorf("%s: the picture has metadata", size)
		}
	}
	for _, address := range []string{"_view-small", "_view-large", "_view-small.jpeg", "view-small"} {
		got := rt.send(t, http.MethodGet, "/media/file/"+id+"/"+address+"/photo.jpg", nil)
		if got.Status != http.StatusNotFound {
			t.Errorf("the address %s is answered %d", address, got.Status)
		}
	}
}

// The tool is described, and its results have the form that its schema says.
func TestViewMedia_HasTheFormOfItsSchema(t *testing.T) {
	t.Parallel()
	w, _, rt := withTenant(t, withImages)
	one := w.tenant(t, "seeing", seeing)
	tools := rt.tools(t, one.Key)
	at := slices.IndexFunc(tools, func(tool listed) bool { return tool.Name == "view_media" })
	if at < 0 {
		t.Fatal("it is not listed")
	}
	tool := tools[at]
	described(t, tool.Name, tool.InputSchema)
	described(t, tool.Name, tool.OutputSchema)
	delete(tool.Annotations, "title")
	if diff := cmp.Diff(reads(), tool.Annotations); diff != "" {
		t.Errorf("its hints (-want +got)\n%s", diff)
	}
	output, err := tool.OutputSchema.Resolve(nil)
	must(t, err)
	for _, file := range [][]byte{imagetest.PNG(imagetest.Picture(60, 40)), []byte("a text")} {
		result, err := rt.connect(t, one.Key).CallTool(t.Context(), &sdk.CallToolParams{Name: "view_media", Arguments: object{"mediaId": rt.upload(t, one.Key, "a.png", file)}})
		must(t, err)
		must(t, output.Validate(result.StructuredContent))
		for name := range result.StructuredContent.(object) {
			if tool.OutputSchema.Properties[name] == nil {
				t.Errorf("%s is not in the schema", name)
			}
		}
	}
}

// What is no image, a draft that is gone, and an item of another account are answered as other tools answer them.
func TestViewMedia_OfWhatItCannotShow(t *testing.T) {
	t.Parallel()
	w, plain, rt := withTenant(t, withImages)
	one, other := w.tenant(t, "seeing", seeing), w.tenant(t, "other", seeing)
	picture := imagetest.PNG(imagetest.Picture(60, 40))
	for name, file := range map[string][]byte{"notes.txt": []byte("some text"), "broken.jpg": imagetest.JPEG(imagetest.Picture(600, 400))[:400]} {
		found, shown, failure := rt.view(t, one.Key, object{"mediaId": rt.upload(t, one.Key, name, file)})
		if failure != "" || shown != nil || found.FileName != name || !strings.Contains(found.Note, "No picture follows") || !strings.Contains(found.Note, "Don't describe") {
			t.Errorf("%s: %+v, %d bytes, %s", name, found, len(shown), failure)
		}
	}
	id := rt.upload(t, one.Key, "a.png", picture)
	for name, c := range map[string]struct {
		key  string
		with object
		says string
	}{
		"another account":         {other.Key, object{"mediaId": id}, "not found"},
		"no item":                 {one.Key, object{"mediaId": anyID}, "not found"},
		"no id":                   {one.Key, object{"mediaId": "a.png"}, "mediaId must be an id"},
		"another size":            {one.Key, object{"mediaId": id, "size": "huge"}, "size must be small or large"},
		"an account without it":   {plain.Key, object{"mediaId": rt.upload(t, plain.Key, "a.png", picture)}, "is in the toolset see"},
		"an argument that is odd": {one.Key, object{"mediaId": id, "width": 5}, "unknown argument"},
	} {
		if found, shown, failure := rt.view(t, c.key, c.with); !strings.Contains(failure, c.says) || shown != nil {
			t.Errorf("%s: %+v, %d bytes, %q", name, found, len(shown), failure)
		}
	}
	if rows := w.QueryInt(t, `SELECT count(*) FROM rendition`); rows != 0 {
		t.Errorf("%d pictures were made for calls that failed", rows)
	}
	if _, shown, failure := rt.view(t, one.Key, object{"mediaId": id}); shown == nil {
		t.Error(failure)
	}
	succeeded[object](t, rt.call(t, one.Key, "delete_media", object{"mediaId": id}))
	if _, shown, failure := rt.view(t, one.Key, object{"mediaId": id}); !strings.Contains(failure, "not found") || shown != nil {
		t.Errorf("deleted: %d bytes, %q", len(shown), failure)
	}
	if rows := w.QueryInt(t, `SELECT count(*) FROM rendition`); rows != 0 {
		t.Errorf("%d pictures of a deleted item are left", rows)
	}
}

// A draft that is not checked yet, or cannot be, is shown to nobody; one that has passed is.
func TestViewMedia_OfAFileThatIsNotChecked(t *testing.T) {
	t.Parallel()
	w, _, rt := withTenant(t, withImages)
	one := w.tenant(t, "seeing", seeing, func(s *account.Spec) {
		s.Gate = account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: 8 << 20}
	})
	waits := rt.upload(t, one.Key, "waits.png", imagetest.PNG(imagetest.Picture(64, 64)), nil)
	denied := rt.upload(t, one.Key, "denied.png", imagetest.PNG(imagetest.Picture(64, 64)), nil)
	if _, err := w.Store.Gates.Deny(t.Context(), one.Account.ID, uuid.MustParse(denied), gate.Notice{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{waits, denied} {
		if found, picture, failure := rt.view(t, one.Key, object{"mediaId": id}); failure == "" || !strings.Contains(failure, "is not checked for malware yet") {
			t.Errorf("%q, %+v with %d bytes", failure, found, len(picture))
		}
	}
	if n := w.QueryInt(t, `SELECT count(*) FROM rendition`); n != 0 {
		t.Errorf("%d renditions were made", n)
	}
	if _, err := w.Store.Gates.Pass(t.Context(), one.Account.ID, uuid.MustParse(waits), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, picture, failure := rt.view(t, one.Key, object{"mediaId": waits}); failure != "" || len(picture) == 0 {
		t.Errorf("after it has passed: %q, %d bytes", failure, len(picture))
	}
}

// A picture that was made is not shown to a connection that has ended meanwhile, nor if the file may not leave the service anymore. It was: to make a
// picture can take a minute.
func TestViewMedia_TellsNothingToAConnectionThatHasEnded(t *testing.T) {
	t.Parallel()
	var meanwhile func()
	w := newWorld(t)
	rt := w.replica(t, withImages, func(o *options) { o.Prepare = func(api *mcp.API) { api.AfterView(func() { meanwhile() }) } })
	one := w.tenant(t, "seeing", seeing)
	id := rt.upload(t, one.Key, "a.png", imagetest.PNG(imagetest.Picture(60, 40)))
	for _, c := range []struct{ end, undo, says string }{
		{`UPDATE oauth_grant SET revoked_at = now()`, `UPDATE oauth_grant SET revoked_at = NULL`, "the connection has ended"},
		{`UPDATE account SET suspended = true`, `UPDATE account SET suspended = false`, "the connection has ended"},
		{`UPDATE stored_item SET gate_state = 3`, `UPDATE stored_item SET gate_state = 0`, "is not checked for malware yet"},
		{`SELECT 1`, `SELECT 1`, "An image follows"},
	} {
		token := bearer(w.Session(t, one, oauth.Scopes()...))
		run := func(statement string) {
			must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), statement)))
		}
		meanwhile = func() { run(c.end) }
		got := rt.post(t, callBody(t, "view_media", object{"mediaId": id}), token)
		if shown := bytes.Contains(got.Body, []byte(`"type":"image"`)); shown != (c.end == c.undo) || !bytes.Contains(got.Body, []byte(c.says)) {
			t.Errorf("%s: %d %s", c.end, got.Status, got.Body)
		}
		run(c.undo)
	}
}

// The loop that describes what has no caption: search, look, write. It ends.
func TestViewMedia_DescribesWhatHasNoCaption(t *testing.T) {
	t.Parallel()
	w, _, rt := withTenant(t, withImages)
	one := w.tenant(t, "seeing", seeing)
	for i := range 5 {
		id := rt.upload(t, one.Key, fmt.Sprintf("%d.png", i), imagetest.PNG(imagetest.Picture(60+i, 40)))
		succeeded[object](t, rt.call(t, one.Key, "seal_media", object{"mediaId": id}))
	}
	type part struct {
		MediaItems []object
		Next, Hint string
	}
	// A file that is no image has no caption, either. The loop over all of them had no end.
	succeeded[object](t, rt.call(t, one.Key, "seal_media", object{"mediaId": rt.upload(t, one.Key, "a.txt", []byte("a"))}))
	if all := succeeded[part](t, rt.call(t, one.Key, "search_media", object{"lacks": "caption"})); len(all.MediaItems) != 6 || !strings.Contains(all.Hint, "type image/*") {
		t.Errorf("without a type, %d items and the hint %q", len(all.MediaItems), all.Hint)
	}
	described := 0
	for calls := 0; ; calls++ {
		found := succeeded[part](t, rt.call(t, one.Key, "search_media", object{"lacks": "caption", "type": "image/*", "limit": 2}))
		if len(found.MediaItems) == 0 {
			if found.Hint != "" {
				t.Errorf("nothing is found, and the hint is %q", found.Hint)
			}
			break
		}
		if !strings.Contains(found.Hint, "view_media") || !strings.Contains(found.Hint, "update_media") || strings.Contains(found.Hint, "type image/*") || calls > 5 {
			t.Fatalf("call %d has the hint %q", calls, found.Hint)
		}
		for _, item := range found.MediaItems {
			facts, picture, failure := rt.view(t, one.Key, object{"mediaId": item["mediaId"]})
			if picture == nil {
				t.Fatal(failure)
			}
			succeeded[object](t, rt.call(t, one.Key, "update_media", object{"mediaId": item["mediaId"], "caption": "colors of " + facts.FileName}))
			described++
		}
	}
	if described != 5 {
		t.Errorf("%d of 5 were described", described)
	}
	if found := succeeded[part](t, rt.call(t, one.Key, "search_media", object{"has": "caption"})); len(found.MediaItems) != 5 || strings.Contains(found.Hint, "no caption") || !strings.Contains(found.Hint, "view_media") {
		t.Errorf("%d items, %q", len(found.MediaItems), found.Hint)
	}
	without := w.tenant(t, "without", func(s *account.Spec) {
		s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetFind, account.ToolsetOrganize}
	})
	succeeded[object](t, rt.call(t, without.Key, "seal_media", object{"mediaId": rt.upload(t, without.Key, "a.txt", []byte("a"))}))
	if got := rt.call(t, without.Key, "search_media", object{"lacks": "caption"}); bytes.Contains(got.StructuredContent, []byte(`"hint"`)) {
		t.Errorf("without the toolset: %s", got.StructuredContent)
	}
}

// 100 calls at two replicas make one picture.
func TestViewMedia_IsMadeOnceByAllReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replicas := []*replica{w.replica(t, withImages), w.replica(t, withImages)}
	one := w.tenant(t, "seeing", seeing)
	id := replicas[0].upload(t, one.Key, "photo.jpg", imagetest.JPEG(imagetest.Photo(1200, 900)))
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"view_media","arguments":{"mediaId":%q}}}`, id)
	var all sync.WaitGroup
	answers := make([]runtimetest.Answer, 100)
	for i := range answers {
		all.Go(func() {
			got, err := replicas[i%2].Send(t.Context(), http.MethodPost, "/mcp", apiKey(one.Key), func(r *request) {
				r.Body = strings.NewReader(body)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
			})
			if err != nil {
				t.Error(err)
			}
			answers[i] = got
		})
	}
	all.Wait()
	for i, got := range answers {
		if got.Status != http.StatusOK || !bytes.Equal(got.Body, answers[0].Body) {
			t.Fatalf("call %d: %d %.300s", i, got.Status, got.Body)
		}
	}
	var message struct {
		Result struct{ Content []struct{ Type, Data string } }
	}
	must(t, json.Unmarshal(answers[0].Body, &message))
	data, err := base64.StdEncoding.DecodeString(message.Result.Content[1].Data)
	if err != nil || len(data) > 48<<10 || message.Result.Content[1].Type != "image" {
		t.Errorf("%s of %d bytes, %v", message.Result.Content[1].Type, len(data), err)
	}
	made := 0.0
	for _, rt := range replicas {
		families, err := rt.Registry.Gather()
		must(t, err)
		for _, family := range families {
			if family.GetName() == "mediastack_rendition_jobs_total" {
				made += family.GetMetric()[0].GetCounter().GetValue()
			}
		}
	}
	if rows := w.QueryInt(t, `SELECT count(*) FROM rendition WHERE ready`); rows != 1 || made != 1 {
		t.Errorf("%d pictures are stored, and %v were made", rows, made)
	}
}

// An installation without image workers has no such tool.
func TestViewMedia_NeedsImageWorkers(t *testing.T) {
	t.Parallel()
	w, _, rt := withTenant(t)
	one := w.tenant(t, "seeing", seeing)
	if names := strings.Join(rt.names(t, one.Key), " "); strings.Contains(names, "view_media") {
		t.Errorf("the tools are %s", names)
	}
}
