package rest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/server"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const baseURL = runtimetest.BaseURL

// size returns a number of requests: full with MEDIASTACK_TEST_FULL, as in make test-requests.
func size(small, full int64) int64 {
	if os.Getenv("MEDIASTACK_TEST_FULL") != "" {
		return full
	}
	return small
}

// world is a database and an S3 store with the use cases of the operator.
type world struct{ *runtimetest.Env }

func newWorld(t *testing.T) *world { t.Helper(); return &world{runtimetest.New(t)} }

// worldAt returns a world with this database and this S3 store.
func worldAt(t *testing.T, database string, access testenv.S3Access) *world {
	t.Helper()
	return &world{runtimetest.NewWith(t, database, access)}
}

type tenant = runtimetest.Tenant

// The default limits of a tenant.
const (
	maxStorage    = 64 << 20
	maxUploadSize = 24 << 20
)

// tenant creates an account as the operator does for a MediaAccount.
func (w *world) tenant(t *testing.T, name string, change ...func(*account.Spec)) tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, MaxStorage: maxStorage, MaxUploadSize: maxUploadSize}, change...)
}

// journal switches the journals of accounts on.
func (w *world) journal(t *testing.T, of ...tenant) {
	t.Helper()
	for _, one := range of {
		w.Change(t, one, func(s *account.Spec) { s.Journal = 7 * 24 * time.Hour })
	}
}

// runtime is a running runtime, and the uploads that a test has begun.
type runtime struct {
	*runtimetest.Service
	job     uuid.UUID // an upload from a URL
	running uuid.UUID // a resumable upload
}

type options = runtimetest.ServiceConfig

func secretOf(char string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(char, 32)))
}

// runtime starts a runtime, whose client validates responses.
func (w *world) runtime(t *testing.T, change ...func(*options)) *runtime {
	t.Helper()
	o := runtimetest.NewServiceConfig()
	o.Upload.UploadMemory, o.CacheSettings = 64<<20, true
	o.Checks = []server.Check{{Name: "database", Run: w.Store.Ping}, {Name: "schema", Run: w.Store.CheckSchema}, {Name: "objects", Run: w.Objects.Ping}}
	for _, apply := range change {
		apply(&o)
	}
	rt := &runtime{Service: w.Service(t, o)}
	rt.Client = newClient(t, rt.Addr(), o.Server.Brand)
	return rt
}

// withTenant returns a world with one tenant and a runtime.
func withTenant(t *testing.T, change ...func(*options)) (*world, tenant, *runtime) {
	t.Helper()
	w := newWorld(t)
	return w, w.tenant(t, "one"), w.runtime(t, change...)
}

// answer is a response whose body was read.
type answer struct{ runtimetest.Answer }

type (
	request = runtimetest.Request
	option  = runtimetest.Option
)

var (
	header    = runtimetest.Header
	key       = runtimetest.Key
	signature = runtimetest.Signature
	text      = runtimetest.Text
)

// part is one part of a form. A file has a file name.
type part struct {
	name, fileName, contentType string
	data                        []byte
}

func filePart(name string, data []byte) part { return part{name: "file", fileName: name, data: data} }

func field(name, value string) part { return part{name: name, data: []byte(value)} }

// form sends parts in this order.
func form(parts ...part) option {
	return func(r *request) {
		body, kind := encode(parts...)
		r.Body = bytes.NewReader(body)
		r.Header.Set("Content-Type", kind)
	}
}

func encode(parts ...part) (body []byte, contentType string) {
	var buffer bytes.Buffer
	writer := multipart.NewWriter(&buffer)
	for _, p := range parts {
		params := map[string]string{"name": p.name}
		mimeHeader := textproto.MIMEHeader{}
		if p.fileName != "" {
			params["filename"] = p.fileName
			mimeHeader.Set("Content-Type", "application/octet-stream")
		}
		if p.contentType != "" {
			mimeHeader.Set("Content-Type", p.contentType)
		}
		mimeHeader.Set("Content-Disposition", formData(params))
		w, _ := writer.CreatePart(mimeHeader)
		_, _ = w.Write(p.data)
	}
	_ = writer.Close()
	return buffer.Bytes(), writer.FormDataContentType()
}

// formData writes the names as browsers do: UTF-8 in quotation marks, with %22 for the mark itself.
func formData(params map[string]string) string {
	value := `form-data; name="` + params["name"] + `"`
	if name, ok := params["filename"]; ok {
		value += `; filename="` + strings.ReplaceAll(name, `"`, "%22") + `"`
	}
	return value
}

// do sends a request and reads the response, which the client validates against openapi.yaml.
func (rt *runtime) do(t *testing.T, method, path string, change ...option) answer {
	t.Helper()
	got, err := rt.try(t.Context(), method, path, change...)
	must(t, err)
	return got
}

func (rt *runtime) try(ctx context.Context, method, path string, change ...option) (answer, error) {
	got, err := rt.Send(ctx, method, path, change...)
	return answer{got}, err
}

// item decodes a media document.
func (a answer) item(t *testing.T) api.MediaItem { return decode[api.MediaItem](t, a) }

func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var value T
	if a.Status/100 != 2 {
		t.Fatalf("status %d: %s", a.Status, a.Body)
	}
	must(t, json.Unmarshal(a.Body, &value))
	return value
}

// rejected checks the status and the error text, and returns the detail.
func (a answer) rejected(t *testing.T, status int, text string) string {
	t.Helper()
	var body api.Error
	if err := json.Unmarshal(a.Body, &body); err != nil || a.Status != status || body.Error != text {
		t.Fatalf("got %d %s, want %d with error %q", a.Status, a.Body, status, text)
	}
	return body.Detail
}

// upload stores a draft.
func (rt *runtime) upload(t *testing.T, k string, parts ...part) api.MediaItem {
	t.Helper()
	got := rt.do(t, http.MethodPost, "/media/create", key(k), form(parts...))
	got.MustBe(t, http.StatusCreated, "upload")
	return got.item(t)
}

// sealed stores an item and seals it.
func (rt *runtime) sealed(t *testing.T, k string, parts ...part) api.MediaItem {
	t.Helper()
	draft := rt.upload(t, k, parts...)
	return rt.do(t, http.MethodPost, "/media/seal/"+draft.MediaId.String(), key(k)).item(t)
}

var must = check.NoError
