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

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
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
	return w.Tenant(t, account.Spec{Name: name, MaxStorage: maxStorage, MaxUploadSize: maxUploadSize}, change...)
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
type replica struct{ *runtimetest.Service }

type options = runtimetest.ServiceConfig

// replica starts a replica with resumable uploads.
func (w *world) replica(t *testing.T, change ...func(*options)) *replica {
	t.Helper()
	o := runtimetest.NewServiceConfig()
	o.TUS = true
	for _, apply := range change {
		apply(&o)
	}
	return &replica{w.Service(t, o)}
}

// deafReplica returns a replica that notifications of changes do not reach.
func (w *world) deafReplica(t *testing.T) *replica {
	t.Helper()
	connected := make(chan struct{})
	rt := w.replica(t, func(o *options) { o.Changes = deaf{connected: connected} })
	<-connected
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
type answer struct{ runtimetest.Answer }

type (
	request = runtimetest.Request
	option  = runtimetest.Option
)

func header(name, value string) option {
	return func(r *request) {
		if value == "" {
			r.Header.Del(name)
			return
		}
		r.Header.Set(name, value)
	}
}

var (
	key       = runtimetest.Key
	signature = runtimetest.Signature
)

// chunk sends bytes as PATCH and creation-with-upload do.
func chunk(data []byte) option { return stream(bytes.NewReader(data)) }

func stream(from io.Reader) option {
	return func(r *request) {
		r.Body = from
		r.Header.Set("Content-Type", "application/offset+octet-stream")
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
	return send(ctx, rt.Client, method, runtimetest.Absolute(path), change...)
}

func send(ctx context.Context, client *http.Client, method, url string, change ...option) (answer, error) {
	got, err := runtimetest.Send(ctx, client, method, url, append([]option{header("Tus-Resumable", "1.0.0")}, change...)...)
	return answer{got}, err
}

// created creates an upload and returns its URL.
func (rt *replica) created(t *testing.T, k string, n int, change ...option) string {
	t.Helper()
	got := rt.do(t, http.MethodPost, collection, append([]option{key(k), length(n)}, change...)...)
	if got.Status != http.StatusCreated || !strings.HasPrefix(got.Header.Get("Location"), baseURL+collection+"/") {
		t.Fatalf("create: %d %v %s", got.Status, got.Header, got.Body)
	}
	return got.Header.Get("Location")
}

// sent sends a PATCH and checks the offset in the response.
func (rt *replica) sent(t *testing.T, k, address string, offset int, data []byte, change ...option) answer {
	t.Helper()
	got := rt.do(t, http.MethodPatch, address, append([]option{key(k), at(offset), chunk(data)}, change...)...)
	if got.Status != http.StatusNoContent || got.Header.Get("Upload-Offset") != strconv.Itoa(offset+len(data)) {
		t.Fatalf("PATCH at %d: %d %v %s", offset, got.Status, got.Header, got.Body)
	}
	return got
}

// offset returns the offset of the upload, from HEAD.
func (rt *replica) offset(t *testing.T, k, address string) int {
	t.Helper()
	got := rt.do(t, http.MethodHead, address, key(k))
	n, err := strconv.Atoi(got.Header.Get("Upload-Offset"))
	if got.Status != http.StatusOK || err != nil {
		t.Fatalf("HEAD: %d %v", got.Status, got.Header)
	}
	return n
}

// document reads the media document of an answer's header.
func (a answer) document(t *testing.T) api.MediaItem {
	t.Helper()
	text := a.Header.Get("x-service-media")
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			t.Fatalf("the document is not ASCII: %q", text)
		}
	}
	var item api.MediaItem
	if err := json.Unmarshal([]byte(text), &item); err != nil || item.MediaId.String() != a.Header.Get("x-service-media-id") {
		t.Fatalf("the document of %d is %q, the id %q: %v", a.Status, text, a.Header.Get("x-service-media-id"), err)
	}
	return item
}

// rejected checks the status and the document of an error response, and returns its detail.
func (a answer) rejected(t *testing.T, status int) string {
	t.Helper()
	var body api.Error
	if err := json.Unmarshal(a.Body, &body); err != nil || a.Status != status || body.Error == "" || body.Detail == "" || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s %v, want %d", a.Status, a.Body, a.Header, status)
	}
	if a.Header.Get("Upload-Offset") != "" || a.Header.Get("Tus-Resumable") != "1.0.0" {
		t.Errorf("the error response has the headers %v", a.Header)
	}
	return body.Detail
}

// holds checks that a draft has the content data.
func (rt *replica) holds(t *testing.T, item api.MediaItem, data []byte) {
	t.Helper()
	got := rt.do(t, http.MethodGet, item.File)
	if sha256.Sum256(got.Body) != sha256.Sum256(data) || item.Size != int64(len(data)) {
		t.Errorf("the draft has %d bytes (%d), want %d", len(got.Body), item.Size, len(data))
	}
}

// complete sends the remaining bytes, and checks the draft.
func (rt *replica) complete(t *testing.T, k, address string, data []byte) api.MediaItem {
	t.Helper()
	got := rt.do(t, http.MethodHead, address, key(k))
	offset, err := strconv.Atoi(got.Header.Get("Upload-Offset"))
	if got.Status != http.StatusOK || err != nil {
		t.Fatalf("HEAD: %d %v", got.Status, got.Header)
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
