package tus_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/accountcache"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/server"
	"mediastack.dev/runtime/internal/tus"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const baseURL = runtimetest.BaseURL

const collection = "/media/create/resumable"

// world is a database and an S3 store, with the tasks of the operator.
type world struct{ *runtimetest.Env }

func newWorld(t *testing.T) *world { t.Helper(); return &world{runtimetest.New(t)} }

// worldAt is a world with this database and this S3 store.
func worldAt(t *testing.T, database string, access testenv.S3Access) *world {
	t.Helper()
	return &world{runtimetest.NewWith(t, database, access)}
}

type tenant = runtimetest.Tenant

// Default limits of a tenant.
const (
	maxStorage    = 256 << 20
	maxUploadSize = 64 << 20
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

// purged runs the purge as if everything were old, and checks that nothing is left: no
// row, no object, no incomplete upload, no reserved byte.
func (w *world) purged(t *testing.T, of tenant) {
	t.Helper()
	later := func() time.Time { return time.Now().Add(72 * time.Hour) }
	purger, err := media.NewPurger(media.PurgeConfig{DraftConfig: media.DraftConfig{DraftTTL: time.Hour}, MaxAttempts: 10, RemovalConfig: media.RemovalConfig{BatchSize: 100, MaxBackoff: time.Hour}}, media.PurgeDeps{Store: w.Store.Items, Tasks: w.Store.Tasks, Objects: w.Objects, Guard: w.Guard(), Now: later, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	for range 2 {
		must(t, check.ErrorOf(purger.Run(t.Context())))
	}
	must(t, w.Objects.List(t.Context(), of.Account.Bucket, "media/", func(o media.ObjectInfo) error {
		t.Errorf("left in the bucket: %s", o.Key)
		return nil
	}))
	must(t, w.Objects.ListIncomplete(t.Context(), of.Account.Bucket, "", func(u media.IncompleteUpload) error {
		t.Errorf("left incomplete: %s", u.Key)
		return nil
	}))
	w.Counts(t, 0, "rows and bytes are left", `SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM resumable_upload) + (SELECT count(*) FROM item) + (SELECT coalesce(sum(bytes), 0) FROM account_usage)`)
}

// replica is a running runtime with real parts.
type replica struct {
	client    *http.Client
	server    *server.Server
	api       *tus.API
	auth      *auth.Authenticator
	clock     *runtimetest.Clock
	logs      *runtimetest.Log
	stop      context.CancelFunc
	stopLocks context.CancelFunc // ends its locks
}

// options of a replica.
type options struct {
	store   media.Store
	objects media.ObjectStore
	images  bool // with derivatives, by real workers
	brand   string
	deaf    bool // notifications of changes do not arrive
	media   media.Config
	server  server.Config
	limits  ratelimit.Config
	tus     tus.Config
	// beforeLock runs before a request locks its upload.
	beforeLock func()
}

// hookedLocks are locks that run a hook before each Lock.
type hookedLocks struct {
	tus.Locks
	before func()
}

func (l hookedLocks) Lock(ctx context.Context, name uuid.UUID, requestRelease func(), beforeWait func() error) (func(), error) {
	l.before()
	return l.Locks.Lock(ctx, name, requestRelease, beforeWait)
}

func (w *world) replica(t *testing.T, change ...func(*options)) *replica {
	t.Helper()
	o := options{brand: "service", media: runtimetest.MediaConfig(), server: runtimetest.ServerConfig(), tus: tus.Config{LockTimeout: 5 * time.Minute}}
	for _, apply := range change {
		apply(&o)
	}
	o.server.Brand = o.brand
	rt := &replica{clock: &runtimetest.Clock{}}
	// A pool of its own, as every process has.
	store, err := postgres.Open(t.Context(), w.Database)
	must(t, err)
	t.Cleanup(store.Close)
	var source accountcache.Source = store.Items
	connected := make(chan struct{})
	if o.deaf {
		source = deaf{connected: connected}
	}
	core := w.Core(t, runtimetest.CoreConfig{Server: o.server, Media: o.media, Limits: o.limits, Auth: runtimetest.Credentials("a"), Now: rt.clock.Now,
		Images: o.images, Store: o.store, Objects: o.objects, Credentials: store.Credentials, Changes: source})
	rt.auth, rt.logs = core.Auth, core.Logs
	files := core.Files
	locks := store.Items.UploadLocks(rt.logs.Logger())
	var locking tus.Locks = locks
	if o.beforeLock != nil {
		locking = hookedLocks{Locks: locks, before: o.beforeLock}
	}
	plain, err := rest.New(rest.Config{BaseURL: baseURL, Brand: o.brand}, rest.Deps{Media: core.Media, Items: core.Items, Uploads: media.NewRunningUploads(core.Media, locking, o.tus.LockTimeout), Settings: w.Settings, Auth: rt.auth, Documents: core.Documents})
	must(t, err)
	rt.api, err = tus.New(o.tus, tus.Deps{Media: core.Media, Auth: rt.auth, Documents: core.Documents, Locks: locking, BaseURL: baseURL, Brand: o.brand})
	must(t, err)
	replica := core.Serve(t, nil, []func(chi.Router){plain.Mount, rt.api.Mount, files.Mount}, locks.Run)
	rt.server, rt.stop, rt.stopLocks, rt.client = replica.Server, replica.Stop, replica.StopListening, replica.Client
	if o.deaf {
		<-connected
	}
	return rt
}

// deaf is a source that delivers no notification.
type deaf struct {
	connected chan struct{} // closed once the cache is in use
}

// Follow reports a connection, and delivers nothing.
func (d deaf) Follow(ctx context.Context, _ media.ItemCache, onConnect func(), _ func(uuid.UUID), _ func(error)) error {
	onConnect()
	close(d.connected)
	<-ctx.Done()
	return nil
}

// withTenant returns a world with one tenant and a replica.
func withTenant(t *testing.T, change ...func(*options)) (*world, tenant, *replica) {
	t.Helper()
	w := newWorld(t)
	return w, w.tenant(t, "one"), w.replica(t, change...)
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

// request is what the options of do change.
type request struct {
	header http.Header
	body   io.Reader
}

type option func(*request)

func header(name, value string) option {
	return func(r *request) {
		if value == "" {
			r.header.Del(name)
			return
		}
		r.header.Set(name, value)
	}
}

func key(k string) option { return header("x-service-apikey", k) }

func signature(s string) option { return header("x-service-signature", s) }

// chunk sends bytes as PATCH and creation-with-upload do.
func chunk(data []byte) option { return stream(bytes.NewReader(data)) }

func stream(from io.Reader) option {
	return func(r *request) {
		r.body = from
		r.header.Set("Content-Type", "application/offset+octet-stream")
	}
}

func at(offset int) option { return header("Upload-Offset", strconv.Itoa(offset)) }

func length(n int) option { return header("Upload-Length", strconv.Itoa(n)) }

// metadata takes keys and values in turn.
func metadata(pairs ...string) option {
	var fields []string
	for i := 0; i+1 < len(pairs); i += 2 {
		fields = append(fields, pairs[i]+" "+base64.StdEncoding.EncodeToString([]byte(pairs[i+1])))
	}
	return header("Upload-Metadata", strings.Join(fields, ","))
}

// do sends one request and reads the response. path may be a URL.
func (rt *replica) do(t *testing.T, method, path string, change ...option) answer {
	t.Helper()
	got, err := rt.try(t.Context(), method, path, change...)
	must(t, err)
	return got
}

func (rt *replica) try(ctx context.Context, method, path string, change ...option) (answer, error) {
	return send(ctx, rt.client, method, baseURL+strings.TrimPrefix(path, baseURL), change...)
}

func send(ctx context.Context, client *http.Client, method, url string, change ...option) (answer, error) {
	r := request{header: http.Header{"Tus-Resumable": {"1.0.0"}}}
	for _, apply := range change {
		apply(&r)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r.body)
	if err != nil {
		return answer{}, err
	}
	req.Header = r.header
	response, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: body}, err
}

// created creates an upload and returns its URL.
func (rt *replica) created(t *testing.T, k string, n int, change ...option) string {
	t.Helper()
	got := rt.do(t, http.MethodPost, collection, append([]option{key(k), length(n)}, change...)...)
	if got.status != http.StatusCreated || !strings.HasPrefix(got.header.Get("Location"), baseURL+collection+"/") {
		t.Fatalf("create: %d %v %s", got.status, got.header, got.body)
	}
	return got.header.Get("Location")
}

// sent sends a PATCH and checks the offset in the response.
func (rt *replica) sent(t *testing.T, k, address string, offset int, data []byte, change ...option) answer {
	t.Helper()
	got := rt.do(t, http.MethodPatch, address, append([]option{key(k), at(offset), chunk(data)}, change...)...)
	if got.status != http.StatusNoContent || got.header.Get("Upload-Offset") != strconv.Itoa(offset+len(data)) {
		t.Fatalf("PATCH at %d: %d %v %s", offset, got.status, got.header, got.body)
	}
	return got
}

// offset returns the offset of the upload, from HEAD.
func (rt *replica) offset(t *testing.T, k, address string) int {
	t.Helper()
	got := rt.do(t, http.MethodHead, address, key(k))
	n, err := strconv.Atoi(got.header.Get("Upload-Offset"))
	if got.status != http.StatusOK || err != nil {
		t.Fatalf("HEAD: %d %v", got.status, got.header)
	}
	return n
}

// document reads the media document of an answer's header.
func (a answer) document(t *testing.T) api.MediaItem {
	t.Helper()
	text := a.header.Get("x-service-media")
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			t.Fatalf("the document is not ASCII: %q", text)
		}
	}
	var item api.MediaItem
	if err := json.Unmarshal([]byte(text), &item); err != nil || item.MediaId.String() != a.header.Get("x-service-media-id") {
		t.Fatalf("the document of %d is %q, the id %q: %v", a.status, text, a.header.Get("x-service-media-id"), err)
	}
	return item
}

// rejected checks the status and the document of an error response, and returns its detail.
func (a answer) rejected(t *testing.T, status int) string {
	t.Helper()
	var body api.Error
	if err := json.Unmarshal(a.body, &body); err != nil || a.status != status || body.Error == "" || body.Detail == "" || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s %v, want %d", a.status, a.body, a.header, status)
	}
	if a.header.Get("Upload-Offset") != "" || a.header.Get("Tus-Resumable") != "1.0.0" {
		t.Errorf("the error response has the headers %v", a.header)
	}
	return body.Detail
}

// holds checks that a draft has the content data.
func (rt *replica) holds(t *testing.T, item api.MediaItem, data []byte) {
	t.Helper()
	got := rt.do(t, http.MethodGet, item.File)
	if sha256.Sum256(got.body) != sha256.Sum256(data) || item.Size != int64(len(data)) {
		t.Errorf("the draft has %d bytes (%d), want %d", len(got.body), item.Size, len(data))
	}
}

// complete sends the remaining bytes, and checks the draft.
func (rt *replica) complete(t *testing.T, k, address string, data []byte) api.MediaItem {
	t.Helper()
	got := rt.do(t, http.MethodHead, address, key(k))
	offset, err := strconv.Atoi(got.header.Get("Upload-Offset"))
	if got.status != http.StatusOK || err != nil {
		t.Fatalf("HEAD: %d %v", got.status, got.header)
	}
	if offset < len(data) {
		got = rt.sent(t, k, address, offset, data[offset:])
	}
	item := got.document(t)
	rt.holds(t, item, data)
	return item
}

func idOf(address string) string { return address[strings.LastIndexByte(address, '/')+1:] }

// count returns the number of items that the upload became.
func (w *world) count(t *testing.T, address string) int64 {
	t.Helper()
	return w.QueryInt(t, `SELECT count(*) FROM item WHERE id = $1`, uuid.MustParse(idOf(address)))
}

func noise(n int) []byte { return runtimetest.RandomBytes(n) }

var must = check.NoError
