package rendition_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// renderer makes pictures of size bytes without an image worker. It waits in queue, if there is one, until it has a worker, and
// then for gate.
type renderer struct {
	size  int
	queue chan struct{}
	gate  chan struct{}
	err   error

	without settings.Format          // has no encoder
	fails   func(media.Recipe) error // of each picture, if it is set

	// made and collected count pictures, and those of which the memory is free again.
	made, collected atomic.Int64

	jobs    atomic.Int64
	started chan struct{} // receives a value per job, if there is one
	ended   chan error    // receives the error of each job's context, if there is one
}

type slot struct{}

func (slot) Release()        {}
func (slot) Contended() bool { return false }

func (r *renderer) Handles(string, int64) bool { return true }

func (r *renderer) Encodes(format settings.Format) bool { return format != r.without }

func (r *renderer) ReserveRender(uuid.UUID) (media.ImageSlot, error) { return slot{}, nil }

func (r *renderer) Render(ctx context.Context, job media.RenderJob) ([]media.Picture, error) {
	r.jobs.Add(1)
	wait := func(until chan struct{}) error {
		if until == nil {
			return nil
		}
		select {
		case <-until:
			return nil
		case <-ctx.Done():
			if r.ended != nil {
				r.ended <- ctx.Err()
			}
			return ctx.Err()
		}
	}
	if err := wait(r.queue); err != nil {
		return nil, err
	}
	if job.Taken != nil {
		job.Taken()
	}
	if r.started != nil {
		r.started <- struct{}{}
	}
	if err := wait(r.gate); err != nil {
		return nil, err
	}
	source, err := job.Source(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close() }()
	if _, err := io.Copy(io.Discard, source); err != nil {
		return nil, err
	}
	made := make([]media.Picture, len(job.Recipes))
	for i, recipe := range job.Recipes {
		err := r.err
		if err == nil && r.fails != nil {
			err = r.fails(recipe)
		}
		if made[i] = (media.Picture{MimeType: "image/webp", Width: recipe.Width, Height: recipe.Width, Data: picture(recipe, r.size)}); err != nil {
			made[i] = media.Picture{Err: err}
		} else {
			r.made.Add(1)
			runtime.AddCleanup(&made[i].Data[0], func(*renderer) { r.collected.Add(1) }, r)
		}
	}
	return made, nil
}

// picture returns what renderer makes of a recipe.
func picture(recipe media.Recipe, size int) []byte {
	return bytes.Repeat([]byte{byte(recipe.Width)}, size)
}

// of returns the request for a preset whose recipe has this width.
func of(preset string, width int) rendition.Request {
	return rendition.Request{Preset: preset, Recipe: media.Recipe{Width: width, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatWebP, Quality: 80}}
}

// world is a database and an object store as one process uses them.
type world struct {
	*runtimetest.Env
	core     *runtimetest.Core
	cfg      rendition.Config
	service  *rendition.Service
	renderer *renderer
	registry *prometheus.Registry
	clock    *runtimetest.Clock
	hold     atomic.Bool    // nothing may be written
	pool     media.Renderer // of useImages
}

// processes returns what n processes with the same stores have. The clock is that of all.
func processes(t *testing.T, n int, change ...func(*rendition.Config)) []*world {
	t.Helper()
	database, objects, clock := testenv.Postgres(t), testenv.S3(t), &runtimetest.Clock{}
	all := make([]*world, n)
	for i := range all {
		all[i] = newWorld(t, runtimetest.NewWith(t, database, objects), clock, change...)
	}
	return all
}

func newWorld(t *testing.T, env *runtimetest.Env, clock *runtimetest.Clock, change ...func(*rendition.Config)) *world {
	t.Helper()
	w := &world{Env: env, renderer: &renderer{size: 1000}, registry: prometheus.NewRegistry(), clock: clock}
	w.core = w.Core(t, runtimetest.CoreConfig{Server: runtimetest.ServerConfig(), Media: runtimetest.MediaConfig(), Upload: runtimetest.UploadConfig(), Auth: runtimetest.Credentials("a"), Now: clock.Now})
	// With the largest timeout: how long a busy machine needs is not what the tests are about.
	w.cfg = rendition.Config{CacheEntries: 100, Timeout: 10 * time.Minute, Jobs: 8, MaxBytes: 16 << 20, FailureTTL: time.Minute}
	for _, apply := range change {
		apply(&w.cfg)
	}
	w.service = w.newService(t, w.renderer)
	return w
}

func (w *world) newService(t *testing.T, renderer media.Renderer) *rendition.Service {
	t.Helper()
	service, err := rendition.New(w.maker(t, w.makerDeps(renderer)), rendition.Deps{Store: w.Store.Pictures, Now: w.clock.Now, Registry: w.registry})
	must(t, err)
	return service
}

func (w *world) makerDeps(renderer media.Renderer) rendition.MakerDeps {
	return rendition.MakerDeps{Claims: w.Store.Pictures, Objects: w.Objects, Renderer: renderer, NewID: w.Store.Cell().NewID, Encoder: media.EncoderVersion, Writable: w.writable, Log: slog.New(slog.DiscardHandler)}
}

func (w *world) maker(t *testing.T, deps rendition.MakerDeps) *rendition.Maker {
	t.Helper()
	maker, err := rendition.NewMaker(w.cfg, deps)
	must(t, err)
	return maker
}

// writable is rendition.MakerDeps.Writable.
func (w *world) writable() error {
	if w.hold.Load() {
		return fault.New(fault.Unavailable, "on hold")
	}
	return nil
}

func setup(t *testing.T, change ...func(*rendition.Config)) *world {
	t.Helper()
	return processes(t, 1, change...)[0]
}

// tenant is an account with a cap in bytes, whose deletes can be undone.
type tenant struct {
	runtimetest.Tenant
	account.Principal
	owner media.Owner
}

func (w *world) tenant(t *testing.T, maxStorage int64) tenant {
	t.Helper()
	of := w.Tenant(t, account.Spec{Name: "t-" + uuid.NewString(), MaxStorage: maxStorage, MaxUploadSize: maxStorage, Undo: account.Undo{Window: 24 * time.Hour, For: account.UndoAgents}})
	return tenant{of, w.Principal(t, of), media.Owner{Namespace: "team", Name: of.Account.Name, Bucket: of.Account.Bucket}}
}

// upload makes a draft of so many bytes.
func (w *world) upload(ctx context.Context, p account.Principal, size int) (media.Item, error) {
	return w.uploadBytes(ctx, p, make([]byte, size))
}

func (w *world) uploadBytes(ctx context.Context, p account.Principal, file []byte) (media.Item, error) {
	u, err := w.core.Uploads.Begin(ctx, p, 0)
	if err != nil {
		return media.Item{}, err
	}
	defer u.Close(ctx)
	if err := u.Receive(ctx, bytes.NewReader(file), ""); err != nil {
		return media.Item{}, err
	}
	return u.Commit(ctx, media.Fields{Access: media.Private})
}

func (w *world) sealed(t *testing.T, p account.Principal, size int) media.Item {
	t.Helper()
	return w.sealedBytes(t, p, make([]byte, size))
}

func (w *world) sealedBytes(t *testing.T, p account.Principal, file []byte) media.Item {
	t.Helper()
	item, err := w.uploadBytes(t.Context(), p, file)
	must(t, err)
	item, err = w.core.Media.Seal(t.Context(), p, item.ID)
	must(t, err)
	return item
}

// get returns a rendition, which must have the right bytes.
func (w *world) get(t *testing.T, of tenant, item media.Item, request rendition.Request) rendition.Result {
	t.Helper()
	result, err := w.service.Get(t.Context(), item, of.owner, request)
	must(t, err)
	w.check(t, of, request, result)
	return result
}

// check compares the bytes of a result, and of its object, with those that the renderer makes.
func (w *world) check(t *testing.T, of tenant, request rendition.Request, result rendition.Result) {
	t.Helper()
	want := picture(request.Recipe, w.renderer.size)
	sum := sha256.Sum256(want)
	if result.Object.Bytes != int64(len(want)) || result.Object.MimeType != "image/webp" || result.Width != request.Recipe.Width || !bytes.Equal(result.Object.SHA256, sum[:]) {
		t.Errorf("%+v", result)
	}
	if result.Data != nil && !bytes.Equal(result.Data, want) || result.Data == nil && !result.Stored() {
		t.Errorf("the data are %d other bytes", len(result.Data))
	}
	if !result.Stored() {
		return
	}
	body, err := w.Objects.Open(t.Context(), of.owner.Bucket, result.Object.Key, 0, -1)
	must(t, err)
	defer func() { _ = body.Close() }()
	if data, err := io.ReadAll(body); err != nil || !bytes.Equal(data, want) {
		t.Errorf("the object has %d other bytes, %v", len(data), err)
	}
}

// jobs checks how many jobs the processes have had, by their metric.
func jobs(t *testing.T, want float64, all ...*world) {
	t.Helper()
	var sum float64
	for _, w := range all {
		sum += w.metric(t, "mediastack_rendition_jobs_total")
	}
	if sum != want {
		t.Errorf("%v jobs, want %v", sum, want)
	}
}

// metric returns the value of a counter, with the value of its label if it has one.
func (w *world) metric(t *testing.T, name string, label ...string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && (len(label) == 0 || metric.GetLabel()[0].GetValue() == label[0]) {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %v", name, label)
	return 0
}

func (w *world) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), statement, args...)))
}

// rows returns how many renditions of an account are ready.
func (w *world) rows(t *testing.T, of tenant) int64 {
	t.Helper()
	return w.QueryInt(t, `SELECT count(*) FROM rendition WHERE account_id = $1 AND ready`, of.Account().ID)
}

// Account resolves the ambiguity of the embedded types.
func (t tenant) Account() account.Account { return t.Principal.Account }

// purge runs the purge of objects a long time later, when every removal is due.
func (w *world) purge(t *testing.T) {
	t.Helper()
	purger, err := media.NewPurger(media.PurgeConfig{DraftConfig: media.DraftConfig{DraftTTL: 24 * time.Hour}, UploadGrace: 5 * time.Minute, MaxAttempts: 3, RemovalConfig: media.RemovalConfig{BatchSize: 100, MaxBackoff: time.Hour}},
		media.PurgeDeps{Store: w.Store.Items, Tasks: w.Store.Tasks, Objects: w.Objects, Guard: w.Guard(), Now: func() time.Time { return w.clock.Now().Add(2 * time.Hour) }, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, check.ErrorOf(purger.Run(t.Context())))
}

// balanced checks that the counters of an account equal a recount, and that its bucket holds, after a
// purge, exactly the objects that the rows name.
func (w *world) balanced(t *testing.T, of tenant) {
	t.Helper()
	id := of.Account().ID
	for counter, recount := range map[string]string{
		`SELECT bytes FROM account_usage WHERE account_id = $1`: `SELECT ((SELECT coalesce(sum(bytes), 0) FROM stored_item WHERE account_id = $1) + (SELECT coalesce(sum(reserved), 0) FROM upload WHERE account_id = $1)
			+ (SELECT coalesce(sum(bytes), 0) FROM rendition WHERE account_id = $1))::bigint`,
		`SELECT rendition_bytes FROM account_usage WHERE account_id = $1`:                                     `SELECT coalesce(sum(bytes), 0)::bigint FROM rendition WHERE account_id = $1`,
		`SELECT coalesce(sum(items * 1000000 + bytes), 0)::bigint FROM rendition_total WHERE account_id = $1`: `SELECT coalesce(sum(1000000 + bytes), 0)::bigint FROM rendition WHERE account_id = $1 AND ready`,
		`SELECT draft_bytes FROM account_holding WHERE id = $1`:                                               `SELECT coalesce(sum(bytes), 0)::bigint FROM item WHERE account_id = $1 AND sealed_at IS NULL`,
		`SELECT coalesce(sum(bytes), 0)::bigint FROM app_total WHERE account_id = $1`:                         `SELECT coalesce(sum(bytes), 0)::bigint FROM item WHERE account_id = $1 AND sealed_at IS NOT NULL`,
	} {
		if recorded, actual := w.QueryInt(t, counter, id), w.QueryInt(t, recount, id); recorded != actual {
			t.Errorf("%s: %d, the recount is %d", counter, recorded, actual)
		}
	}
	drift, err := w.Store.Consistency.FindDrift(t.Context(), id)
	if err != nil || len(drift) > 0 {
		t.Errorf("drift: %v, %v", drift, err)
	}
	w.purge(t)
	named := w.QueryInt(t, `SELECT (SELECT count(*) FROM stored_item, jsonb_array_elements(objects) WHERE account_id = $1) + (SELECT count(*) FROM rendition WHERE account_id = $1 AND ready)`, id)
	if stored := w.objects(t, of); int64(len(stored)) != named {
		t.Errorf("the bucket has %d objects, the rows name %d: %v", len(stored), named, stored)
	}
}

// objects returns the keys of the objects of an account.
func (w *world) objects(t *testing.T, of tenant) (keys []string) {
	t.Helper()
	must(t, w.Objects.List(t.Context(), of.owner.Bucket, "media/", func(o media.ObjectInfo) error {
		keys = append(keys, o.Key)
		return nil
	}))
	return keys
}

// renditions returns how many objects of an account are renditions.
func (w *world) renditions(t *testing.T, of tenant) (n int) {
	t.Helper()
	for _, key := range w.objects(t, of) {
		if strings.Contains(key, "/rendition-") {
			n++
		}
	}
	return n
}

var must = check.NoError

// concurrently calls do n times at once.
func concurrently(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// presets are the presets of every account.
type presets []rendition.Request

// Recipes implements rendition.Presets.
func (p presets) Recipes(context.Context, uuid.UUID) ([]rendition.Request, error) { return p, nil }

// nopSeeker is a body of one byte.
func nopSeeker() io.ReadSeeker { return bytes.NewReader([]byte{1}) }
