package rest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/accountcache"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/itemcache"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/server"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
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
	spec := account.Spec{Name: name, MaxStorage: maxStorage, MaxUploadSize: maxUploadSize}
	for _, apply := range change {
		apply(&spec)
	}
	return w.Tenant(t, spec)
}

// runtime is a running runtime.
type runtime struct {
	client  *http.Client
	server  *server.Server
	api     *rest.API
	files   *delivery.Delivery
	clock   *runtimetest.Clock
	core    *runtimetest.Core
	job     uuid.UUID // an upload from a URL
	running uuid.UUID // a resumable upload
	logs    *runtimetest.Log
	stop    context.CancelFunc
	ended   chan error
}

// options of a runtime.
type options struct {
	secret, previous string
	brand            string
	resource         string // the resource of access tokens; empty = logins are off
	media            media.Config
	server           server.Config
	limits           ratelimit.Config
	delivery         delivery.Config
	presigned        delivery.Presigner
	cache            itemcache.Config
	images           bool         // uploads get derivatives, by the built worker
	source           fetch.Source // of uploads from a URL; nil = any URL is valid
}

func secretOf(char string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(char, 32)))
}

func (w *world) runtime(t *testing.T, change ...func(*options)) *runtime {
	t.Helper()
	o := options{secret: secretOf("a"), brand: "service", media: runtimetest.MediaConfig(), server: runtimetest.ServerConfig(),
		delivery: delivery.Config{TTL: time.Hour, PublicMaxAge: time.Hour, Mode: delivery.Stream}}
	o.media.UploadMemory = 64 << 20
	for _, apply := range change {
		apply(&o)
	}
	o.server.Brand = o.brand
	credentials := auth.Config{Secret: o.secret, SecretPrevious: o.previous, SignatureTTL: time.Hour, KeyCacheTTL: time.Minute}
	if o.resource != "" {
		credentials.Resource, credentials.MetadataURL = o.resource, baseURL+"/.well-known/oauth-protected-resource/mcp"
	}
	rt := &runtime{clock: &runtimetest.Clock{}}
	uploadSettings := accountcache.NewSettings(w.Store.Settings, time.Minute, rt.clock.Now)
	core := w.Core(t, runtimetest.CoreConfig{Server: o.server, Media: o.media, Limits: o.limits, Auth: credentials, Delivery: o.delivery,
		Now: rt.clock.Now, Images: o.images, Cache: o.cache, Presigner: o.presigned, Settings: uploadSettings, Caches: []accountcache.Cache{uploadSettings}, Source: o.source})
	rt.core, rt.logs, rt.files = core, core.Logs, core.Files
	locks := w.Store.Items.UploadLocks(core.Logs.Logger()) // they do not run: the tests of package tus end uploads
	var err error
	rt.api, err = rest.New(rest.Config{MaxBatches: 16, BaseURL: baseURL, Brand: o.brand}, rest.Deps{Limits: core.Limits, Media: core.Media, Items: core.Items, Uploads: media.NewRunningUploads(core.Media, locks, 5*time.Minute), Settings: settings.NewService(uploadSettings), Auth: core.Auth, Documents: core.Documents, Fetch: core.Fetch})
	must(t, err)
	checks := []server.Check{{Name: "database", Run: w.Store.Ping}, {Name: "schema", Run: w.Store.CheckSchema}, {Name: "objects", Run: w.Objects.Ping}}
	replica := core.Serve(t, checks, []func(chi.Router){rt.api.Mount, rt.files.Mount})
	rt.server, rt.stop, rt.ended = replica.Server, replica.Stop, replica.Ended
	rt.client = newClient(t, rt.server.Addr(), o.brand)
	return rt
}

// withTenant returns a world with one tenant and a runtime.
func withTenant(t *testing.T, change ...func(*options)) (*world, tenant, *runtime) {
	t.Helper()
	w := newWorld(t)
	return w, w.tenant(t, "one"), w.runtime(t, change...)
}

// answer is a response whose body was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// is reports an error if the status is another one. what names the request, with its arguments.
func (a answer) is(t *testing.T, status int, what string, args ...any) {
	t.Helper()
	runtimetest.CheckStatus(t, t.Errorf, a.status, status, a.body, what, args...)
}

// mustBe ends the test if the status is another one.
func (a answer) mustBe(t *testing.T, status int, what string, args ...any) {
	t.Helper()
	runtimetest.CheckStatus(t, t.Fatalf, a.status, status, a.body, what, args...)
}

// request is a request that options change.
type request struct {
	header http.Header
	body   io.Reader
}

type option func(*request)

func header(name, value string) option { return func(r *request) { r.header.Set(name, value) } }

func key(k string) option { return header("x-service-apikey", k) }

func signature(s string) option { return header("x-service-signature", s) }

func text(body string) option { return func(r *request) { r.body = strings.NewReader(body) } }

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
		r.body = bytes.NewReader(body)
		r.header.Set("Content-Type", kind)
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
	r := request{header: http.Header{}}
	for _, apply := range change {
		apply(&r)
	}
	req, err := http.NewRequestWithContext(ctx, method, baseURL+strings.TrimPrefix(path, baseURL), r.body)
	if err != nil {
		return answer{}, err
	}
	req.Header = r.header
	response, err := rt.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: body}, err
}

// item decodes a media document.
func (a answer) item(t *testing.T) api.MediaItem { return decode[api.MediaItem](t, a) }

func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var value T
	if a.status/100 != 2 {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	must(t, json.Unmarshal(a.body, &value))
	return value
}

// rejected checks the status and the error text, and returns the detail.
func (a answer) rejected(t *testing.T, status int, text string) string {
	t.Helper()
	var body api.Error
	if err := json.Unmarshal(a.body, &body); err != nil || a.status != status || body.Error != text {
		t.Fatalf("got %d %s, want %d with error %q", a.status, a.body, status, text)
	}
	return body.Detail
}

// upload stores a draft.
func (rt *runtime) upload(t *testing.T, k string, parts ...part) api.MediaItem {
	t.Helper()
	got := rt.do(t, http.MethodPost, "/media/create", key(k), form(parts...))
	got.mustBe(t, http.StatusCreated, "upload")
	return got.item(t)
}

// sealed stores an item and seals it.
func (rt *runtime) sealed(t *testing.T, k string, parts ...part) api.MediaItem {
	t.Helper()
	draft := rt.upload(t, k, parts...)
	return rt.do(t, http.MethodPost, "/media/seal/"+draft.MediaId.String(), key(k)).item(t)
}

var must = check.NoError
