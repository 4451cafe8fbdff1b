package mcp_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
)

// requestedFile is the result of request_upload, and uploadState that of get_upload.
type requestedFile struct {
	Page         string    `json:"page"`
	UploadURL    string    `json:"uploadUrl"`
	ResumableURL string    `json:"resumableUrl"`
	ExpiresAt    time.Time `json:"expiresAt"`
	UploadID     string    `json:"uploadId"`
}

type uploadState struct {
	UploadID         string    `json:"uploadId"`
	State            string    `json:"state"`
	Message          string    `json:"message"`
	ExpiresAt        time.Time `json:"expiresAt"`
	Received         *int64    `json:"received"`
	Total            int64     `json:"total"`
	MediaID          string    `json:"mediaId"`
	OriginalFileName string    `json:"originalFileName"`
	MimeType         string    `json:"mimeType"`
	Size             *int64    `json:"size"`
	Temp             bool      `json:"temp"`
}

// handover offers the toolset beside the core.
func handover(s *account.Spec) {
	s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetHandover, account.ToolsetFetch}
}

// formOf is a form with a file, as a browser sends it.
func formOf(name string, data []byte) option {
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	part, _ := writer.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + name + `"`}, "Content-Type": {"application/octet-stream"}})
	_, _ = part.Write(data)
	_ = writer.Close()
	return func(r *request) {
		r.Body = bytes.NewReader(body.Bytes())
		r.Header = http.Header{"Content-Type": {writer.FormDataContentType()}}
	}
}

// at returns the path of an address of the service.
func at(address string) string { return strings.TrimPrefix(address, baseURL) }

func (rt *replica) request(t *testing.T, key string, arguments object) requestedFile {
	t.Helper()
	return succeeded[requestedFile](t, rt.call(t, key, "request_upload", arguments))
}

func (rt *replica) stateOf(t *testing.T, key string, of requestedFile) uploadState {
	t.Helper()
	return succeeded[uploadState](t, rt.call(t, key, "get_upload", object{"uploadId": of.UploadID}))
}

// browse sends a request without a credential.
func (rt *replica) browse(t *testing.T, method, address string, change ...option) answer {
	t.Helper()
	got, err := rt.Send(t.Context(), method, at(address), change...)
	must(t, err)
	return answer{got}
}

func withHandover(t *testing.T, change ...func(*options)) (*world, tenant, *replica) {
	t.Helper()
	w := newWorld(t)
	return w, w.tenant(t, "one", handover), w.replica(t, append([]func(*options){func(o *options) { o.TUS = true }}, change...)...)
}

func TestRequestUpload_APersonHandsAFileOverWithoutScriptAndAccount(t *testing.T) {
	t.Parallel()
	w, one, rt := withHandover(t)
	of := rt.request(t, one.Key, object{"caption": "The picture of the dog", "group": "dogs", "fileName": "dog.txt", "types": []string{"text/*"}, "maxBytes": 1000})
	if of.UploadURL != of.Page+"/file" || of.ResumableURL != of.Page+"/resumable" || !strings.HasPrefix(of.Page, baseURL+"/upload/mup_") {
		t.Fatalf("the addresses are %+v", of)
	}
	page := rt.browse(t, http.MethodGet, of.Page)
	page.MustBe(t, http.StatusOK, "the page")
	for _, want := range []string{"Hand over a file", "The picture of the dog", "dog.txt", "texts", `method="post" enctype="multipart/form-data"`, `accept="text/*"`} {
		if !strings.Contains(string(page.Body), want) {
			t.Errorf("the page lacks %q: %s", want, page.Body)
		}
	}
	if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || page.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the page has the policy %q", policy)
	}
	sent := rt.browse(t, http.MethodPost, of.Page, formOf("IMG_1.txt", []byte("a dog")))
	if !strings.Contains(string(sent.Body), "The file has arrived") { // after a redirect
		t.Fatalf("the form: %d %s", sent.Status, sent.Body)
	}
	if page = rt.browse(t, http.MethodGet, of.Page); !strings.Contains(string(page.Body), "The file has arrived") || strings.Contains(string(page.Body), "<form") {
		t.Errorf("afterwards the page is %s", page.Body)
	}
	state := rt.stateOf(t, one.Key, of)
	if state.State != "uploaded" || state.OriginalFileName != "dog.txt" || *state.Size != 5 || !state.Temp || !strings.Contains(state.Message, "seal_media") {
		t.Fatalf("the state is %+v", state)
	}
	item := succeeded[object](t, rt.call(t, one.Key, "get_media", object{"mediaId": state.MediaID}))
	if item["caption"] != "The picture of the dog" || item["group"] != "dogs" || item["access"] != "private" {
		t.Errorf("the item is %v", item)
	}
	again := rt.browse(t, http.MethodPost, of.Page, formOf("b.txt", []byte("another")))
	again.MustBe(t, http.StatusForbidden, "a second file: %s", again.Body)
	rt.browse(t, http.MethodPost, of.UploadURL, formOf("b.txt", []byte("another"))).MustBe(t, http.StatusForbidden, "a second file by a program")
	w.Counts(t, 1, "items", `SELECT count(*) FROM item`)
}

func TestRequestUpload_AProgramUploadsWithoutAHeader(t *testing.T) {
	t.Parallel()
	_, one, rt := withHandover(t)
	of := rt.request(t, one.Key, object{"seal": true})
	sent := rt.browse(t, http.MethodPost, of.UploadURL, formOf("a.txt", []byte("abc")))
	var item api.MediaItem
	if err := json.Unmarshal(sent.Body, &item); sent.Status != http.StatusCreated || err != nil {
		t.Fatalf("%d %s", sent.Status, sent.Body)
	}
	if state := rt.stateOf(t, one.Key, of); state.State != "uploaded" || state.MediaID != item.MediaId.String() || state.Temp {
		t.Errorf("the state is %+v", state)
	}

	of = rt.request(t, one.Key, object{})
	tus := func(more ...string) option {
		return func(r *request) {
			r.Header = http.Header{"Tus-Resumable": {"1.0.0"}}
			for i := 0; i < len(more); i += 2 {
				r.Header.Set(more[i], more[i+1])
			}
		}
	}
	created := rt.browse(t, http.MethodPost, of.ResumableURL, tus("Upload-Length", "6", "Upload-Metadata", "filename YS50eHQ="))
	location := created.Header.Get("Location")
	if created.Status != http.StatusCreated || !strings.HasPrefix(location, of.ResumableURL+"/") {
		t.Fatalf("%d %s to %q", created.Status, created.Body, location)
	}
	part := func(offset, data string) answer {
		return rt.browse(t, http.MethodPatch, location, tus("Upload-Offset", offset, "Content-Type", "application/offset+octet-stream"), func(r *request) { r.Body = strings.NewReader(data) })
	}
	part("0", "abc").MustBe(t, http.StatusNoContent, "the first part")
	if head := rt.browse(t, http.MethodHead, location, tus()); head.Header.Get("Upload-Offset") != "3" {
		t.Errorf("HEAD: %d %v", head.Status, head.Header)
	}
	if page := rt.browse(t, http.MethodGet, of.Page); !strings.Contains(string(page.Body), "A file is on its way") {
		t.Errorf("the page is %s", page.Body)
	}
	part("3", "def").MustBe(t, http.StatusNoContent, "the last part")
	if state := rt.stateOf(t, one.Key, of); state.State != "uploaded" || *state.Size != 6 || state.OriginalFileName != "a.txt" {
		t.Errorf("the state is %+v", state)
	}
}
