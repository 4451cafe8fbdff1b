package erasure_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/controllers/erasure"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// process is an operator that dies after a number of operations. Then nothing that it sends
// arrives any more.
type process struct {
	mu   sync.Mutex
	left int
	died bool
}

// acts reports whether the process is alive for one more operation.
func (p *process) acts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	p.died = p.died || p.left < 0
	return !p.died
}

// isDead reports whether the process has died.
func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.died
}

func (p *process) do(operation func() error) error {
	if !p.acts() {
		return fault.New(fault.Unavailable, "the process is dead")
	}
	return operation()
}

// mortalStore is the database as a process that dies uses it.
type mortalStore struct {
	account.Store
	*process
}

func (s mortalStore) BeginErasure(ctx context.Context, id uuid.UUID) (found account.Account, err error) {
	err = s.do(func() error { found, err = s.Store.BeginErasure(ctx, id); return err })
	return found, err
}

func (s mortalStore) SetBucketRemoved(ctx context.Context, id uuid.UUID) error {
	return s.do(func() error { return s.Store.SetBucketRemoved(ctx, id) })
}

func (s mortalStore) ItemsToErase(ctx context.Context, id uuid.UUID) (n int64, err error) {
	err = s.do(func() error { n, err = s.Store.ItemsToErase(ctx, id); return err })
	return n, err
}

func (s mortalStore) EraseRows(ctx context.Context, id uuid.UUID, _ func() bool) (done bool, err error) {
	err = s.do(func() error { done, err = s.Store.EraseRows(ctx, id, s.acts); return err })
	return done, err
}

type stores struct {
	database *postgres.Store
	access   testenv.S3Access
	objects  *objectstore.Store
}

func openObjects(t *testing.T, access testenv.S3Access) *objectstore.Store {
	t.Helper()
	store, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	return store
}

var must = check.NoError

// closed provisions an account with objects and items, and closes it.
func (s stores) closed(t *testing.T, name string) account.Account {
	t.Helper()
	ctx, registry := t.Context(), account.NewRegistry(s.database.Accounts, "crash", time.Now)
	made, err := registry.Ensure(ctx, account.Spec{Namespace: "team-a", Name: name, ObjectUID: name, NamespaceUID: "ns", MaxStorage: 1 << 30, MaxUploadSize: 1 << 20})
	must(t, err)
	_, _, err = registry.OpenApps(ctx, made.ID, nil)
	must(t, err)
	identity, err := s.database.Installations.Identity(ctx)
	must(t, err)
	_, err = s.objects.Claim(ctx, objectstore.ClaimRequest{Bucket: made.Bucket, Epoch: identity.Epoch,
		Owner: objectstore.Owner{AccountID: made.ID.String(), Namespace: "team-a", Name: name, InstallationID: identity.ID}})
	must(t, err)
	for i := range 3 {
		must(t, s.objects.Put(ctx, made.Bucket, fmt.Sprintf("media/%d/original", i), "image/png", strings.NewReader("x"), 1))
	}
	_, err = s.objects.StartMultipart(ctx, made.Bucket, "media/unfinished/original", "image/png")
	must(t, err)
	after := time.Duration(0)
	made, err = registry.Close(ctx, made.ID, account.CloseOptions{Erase: true, EraseAfter: &after})
	must(t, err)
	return made
}

// erase runs a process until it dies or the erasure is done. It never rests, since its clock
// advances.
func (s stores) erase(t *testing.T, life *process, objects *objectstore.Store, id uuid.UUID) (done bool) {
	t.Helper()
	now := time.Now()
	clock := func() time.Time { return now }
	guard := installation.NewGuard(installation.Config{CheckInterval: time.Second, HeartbeatInterval: time.Minute},
		installation.Deps{Store: s.database.Installations, Markers: s.objects, Log: slog.New(slog.DiscardHandler)})
	eraser := erasure.New(erasure.Deps{
		Accounts: account.NewRegistry(mortalStore{s.database.Accounts, life}, "crash", clock), Buckets: objects, Installation: guard, Now: clock,
	})
	for range 10 {
		progress, err := eraser.Erase(t.Context(), erasure.Target{AccountID: id})
		if progress.Done || life.isDead() {
			return progress.Done
		}
		must(t, err)
		now = now.Add(progress.RetryAfter)
	}
	t.Error("the erasure does not end")
	return false
}

// A crash between the removal of rows and that of the bucket once left a bucket that nothing
// named any more.
func TestErase_DeathAtAnyOperationForgetsNoBucket(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	store, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: database})
	must(t, err)
	t.Cleanup(store.Close)
	s := stores{database: store, access: testenv.S3(t)}
	s.objects = openObjects(t, s.access)
	deaths := 0
	for operations := 0; ; operations++ {
		life := &process{left: operations}
		objects := openObjects(t, testenv.S3Proxy(t, s.access, func(http.ResponseWriter, *http.Request) bool {
			if !life.acts() {
				panic(http.ErrAbortHandler) // cuts the connection
			}
			return false
		}))
		closed := s.closed(t, fmt.Sprintf("dies-after-%d", operations))
		if done := s.erase(t, life, objects, closed.ID); done && !life.isDead() {
			break
		}
		deaths++
		exists, err := s.objects.BucketExists(t.Context(), closed.Bucket)
		must(t, err)
		if _, err := store.Accounts.BeginErasure(t.Context(), closed.ID); exists && err != nil {
			t.Errorf("after %d operations bucket %s has no account: %v", operations, closed.Bucket, err)
		}
		if !s.erase(t, &process{left: 1000}, s.objects, closed.ID) {
			t.Errorf("the next process does not finish what died after %d operations", operations)
		}
		if exists, err := s.objects.BucketExists(t.Context(), closed.Bucket); err != nil || exists {
			t.Errorf("after %d operations bucket %s is left: %v", operations, closed.Bucket, err)
		}
	}
	if deaths < 10 {
		t.Errorf("the processes died at %d operations only", deaths)
	}
	t.Logf("%d deaths", deaths)
}
