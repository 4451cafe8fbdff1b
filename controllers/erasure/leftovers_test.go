package erasure_test

import (
	"context"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/work"
)

// tenant is an open account whose deletes can be undone, with its principal.
func (s stores) tenant(t *testing.T, registry *account.Registry, name string) account.Principal {
	t.Helper()
	ctx := t.Context()
	made, err := registry.Ensure(ctx, account.Spec{Namespace: "team-a", Name: name, ObjectUID: name, NamespaceUID: "ns", MaxStorage: 1 << 30, MaxUploadSize: 64 << 20,
		Undo: account.Undo{Window: 24 * time.Hour, For: account.UndoEveryone}, Journal: 24 * time.Hour})
	must(t, err)
	apps, _, err := registry.OpenApps(ctx, made.ID, nil)
	must(t, err)
	identity, err := s.database.Installations.Identity(ctx)
	must(t, err)
	_, err = s.objects.Claim(ctx, objectstore.ClaimRequest{Bucket: made.Bucket, Epoch: identity.Epoch,
		Owner: objectstore.Owner{AccountID: made.ID.String(), Namespace: "team-a", Name: name, InstallationID: identity.ID}})
	must(t, err)
	must(t, registry.SetBucketOwned(ctx, made.ID, true))
	token, _, err := registry.IssueKey(ctx, apps[0].ID, 1, 0)
	must(t, err)
	p, err := s.database.Credentials.FindPrincipal(ctx, token.Hash())
	must(t, err)
	return p
}

// files opens files by URL: "file" is one, "missing" has a status, and any other one sends 12 MiB and then stalls.
type files struct{}

func (files) Check(string) error { return nil }

func (files) Open(ctx context.Context, url string) (fetch.File, error) {
	switch url {
	case "file":
		return fetch.File{Body: io.NopCloser(strings.NewReader("fetched")), MimeType: "text/plain"}, nil
	case "missing":
		return fetch.File{}, fetch.Fail(fetch.StatusCode(404), "the server answered with status 404")
	}
	return fetch.File{Body: io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", 12<<20)), stalling{ctx}))}, nil
}

type stalling struct{ ctx context.Context }

func (s stalling) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}

// leftovers returns, by table and column, how many rows of the database name one of the ids.
func leftovers(t *testing.T, conn *pgx.Conn, ids ...uuid.UUID) map[string]int {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT c.table_name, c.column_name FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE t.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND (c.data_type = 'uuid' OR c.column_name IN ('account', 'bucket'))`)
	must(t, err)
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Table, Column string }])
	must(t, err)
	if len(columns) < 20 {
		t.Fatalf("the database has %d columns of ids only", len(columns))
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = "%" + id.String() + "%"
	}
	found := map[string]int{}
	for _, c := range columns {
		var n int
		must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM `+pgx.Identifier{c.Table}.Sanitize()+` WHERE `+pgx.Identifier{c.Column}.Sanitize()+`::text LIKE ANY ($1)`, texts).Scan(&n))
		if n > 0 {
			found[c.Table+"."+c.Column] = n
		}
	}
	return found
}

// An account is erased that has deleted items which can be restored, versions of their objects, and uploads from a
// URL in every state, two of which run when it is closed, and one of which is pending throughout. Nothing of it is left, and nothing of another account is gone.
func TestErase_LeavesNothingOfDeletedItemsAndUploadsFromURLs(t *testing.T) {
	t.Parallel()
	for name, closeForErasure := range map[string]func(*testing.T, *account.Registry, uuid.UUID){
		"deletionPolicy Delete": func(t *testing.T, registry *account.Registry, id uuid.UUID) {
			_, err := registry.Close(t.Context(), id, account.CloseOptions{Erase: true, EraseAfter: new(time.Duration)})
			must(t, err)
		},
		"retained, then purged": func(t *testing.T, registry *account.Registry, id uuid.UUID) {
			_, err := registry.Close(t.Context(), id, account.CloseOptions{})
			must(t, err)
			must(t, registry.EachRetained(t.Context(), func(r account.Retained) {
				if r.ID == id {
					must(t, registry.SetErasure(t.Context(), r.Closing(), true))
				}
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eraseAll(t, closeForErasure)
		})
	}
}

func eraseAll(t *testing.T, closeForErasure func(*testing.T, *account.Registry, uuid.UUID)) {
	t.Helper()
	database, ctx := testenv.Postgres(t), t.Context()
	store, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: database})
	must(t, err)
	t.Cleanup(store.Close)
	s := stores{database: store, access: versionedStore(t)}
	s.objects = openObjects(t, s.access)
	conn, err := pgx.Connect(ctx, database)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	registry := account.NewRegistry(store.Accounts, "t", time.Now)
	gone, kept := s.tenant(t, registry, "gone"), s.tenant(t, registry, "kept")
	raw := rawClient(t, s.access)
	versioned := raw.EnableVersioning(ctx, gone.Account.Bucket) == nil

	log := slog.New(slog.DiscardHandler)
	items, err := media.New(media.Config{DeleteTimeout: time.Hour}, media.Deps{Store: store.Items, Objects: s.objects, Now: time.Now, Log: log})
	must(t, err)
	uploads, err := upload.New(upload.Config{MaxUploads: 8, UploadMemory: 64 << 20, UploadPerAccountPercent: 100, UploadQueue: 10, UploadQueueTimeout: time.Hour,
		UploadLease: time.Hour, ResumableTTL: time.Hour},
		upload.Deps{Store: store.Uploads, Objects: s.objects, Items: items, Settings: settings.NewService(store.Settings), Now: time.Now, Log: log})
	must(t, err)
	_, err = store.Installations.TouchRuntime(ctx, uuid.New(), "test", time.Hour)
	must(t, err)
	tasks, err := work.NewRunner(work.Deps{Store: store.Tasks, Log: log})
	must(t, err)
	fetches, err := fetch.New(fetch.Config{Enabled: true, Concurrency: 4, PerAccount: 2, MaxOpen: 100, MaxAttempts: 3, CheckInterval: 20 * time.Millisecond},
		fetch.Deps{Store: store.Fetches, Source: files{}, Media: items, Uploads: uploads, NewID: store.Cell().NewID, Queued: func() { tasks.Wake(fetch.JobWork) }, Now: time.Now, Log: log})
	must(t, err)
	must(t, tasks.Register(fetch.JobWork, fetches, fetches.Policy()))
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tasks.Run(running) }()
	t.Cleanup(func() { stop(); must(t, <-ended) })

	ids := map[uuid.UUID][]uuid.UUID{}
	for _, p := range []account.Principal{gone, kept} {
		ids[p.Account.ID] = []uuid.UUID{p.Account.ID, p.App.ID, p.Key.ID}
		for i := range 6 {
			item := uploaded(t, uploads, p)
			ids[p.Account.ID] = append(ids[p.Account.ID], item.ID)
			if i > 0 { // the first one stays a draft, the second one sealed
				_, err := items.Seal(ctx, p, item.ID)
				must(t, err)
			}
			if i > 1 {
				until, err := items.Delete(ctx, p, item.ID, media.DeleteOptions{})
				if must(t, err); until == nil {
					t.Fatal("the delete cannot be undone")
				}
			}
			if i > 4 {
				_, err := items.Delete(ctx, p, item.ID, media.DeleteOptions{Permanent: true})
				must(t, err)
			}
		}
		for _, url := range []string{"file", "missing", "stalls", "stalls", "stalls"} {
			job, err := fetches.Start(ctx, fetch.Caller{Principal: p}, fetch.Request{URL: url})
			must(t, err)
			ids[p.Account.ID] = append(ids[p.Account.ID], job.ID)
		}
	}
	await(t, conn, "every state of a job", `SELECT count(DISTINCT state) = 4 AND count(*) FILTER (WHERE state = 'running') = 2 FROM fetch_job WHERE account_id = $1`, gone.Account.ID)
	await(t, conn, "parts are uploaded", `SELECT count(*) > 0 FROM upload WHERE reserved > 0 AND account_id = $1`, gone.Account.ID)
	_, err = conn.Exec(ctx, `UPDATE work SET due_at = now() + interval '1 hour' WHERE kind = 'fetch' AND claim IS NULL`) // it is pending throughout
	must(t, err)
	if len(leftovers(t, conn, ids[gone.Account.ID]...)) < 8 {
		t.Errorf("the account has rows in %v only", leftovers(t, conn, ids[gone.Account.ID]...))
	}
	before := leftovers(t, conn, kept.Account.ID)

	closeForErasure(t, registry, gone.Account.ID)
	await(t, conn, "the jobs that ran have ended", `SELECT count(*) FILTER (WHERE state = 'running') = 0 AND count(*) FILTER (WHERE state = 'queued') = 1 FROM fetch_job WHERE account_id = $1`, gone.Account.ID)
	if !s.erase(t, &process{left: 100_000}, s.objects, gone.Account.ID) {
		t.Fatal("the account is not erased")
	}
	if left := leftovers(t, conn, ids[gone.Account.ID]...); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	if exists, err := s.objects.BucketExists(ctx, gone.Account.Bucket); err != nil || exists {
		t.Errorf("the bucket is left: %t, %v", exists, err)
	}
	for column, n := range before {
		if after := leftovers(t, conn, kept.Account.ID)[column]; after < n && !strings.HasPrefix(column, "upload.") {
			t.Errorf("of another account, %d of %d rows in %s are left", after, n, column)
		}
	}
	if page, err := items.ListDeleted(ctx, kept, 1, 10); err != nil || page.Total != 3 {
		t.Errorf("%d deleted items of another account are left, %v", page.Total, err)
	}
	t.Logf("with versions: %t", versioned)
}

// uploaded uploads a file.
func uploaded(t *testing.T, uploads *upload.Service, p account.Principal) media.Item {
	t.Helper()
	u, err := uploads.Begin(t.Context(), p, 0)
	must(t, err)
	defer u.Close(t.Context())
	must(t, u.Receive(t.Context(), strings.NewReader("uploaded"), "text/plain"))
	item, err := u.Commit(t.Context(), media.Fields{Group: "g"})
	must(t, err)
	return item
}

// await waits until a query is true.
func await(t *testing.T, conn *pgx.Conn, what, query string, args ...any) {
	t.Helper()
	wait.Until(t, what, func() (is bool) {
		must(t, conn.QueryRow(t.Context(), query, args...).Scan(&is))
		return is
	})
}

// versionedStore returns a store that keeps versions, if there is one.
func versionedStore(t *testing.T) testenv.S3Access {
	t.Helper()
	if access := testenv.Stores()["minio"]; access != nil {
		return access(t)
	}
	return testenv.S3(t)
}

func rawClient(t *testing.T, access testenv.S3Access) *minio.Client {
	t.Helper()
	u, err := url.Parse(access.Endpoint)
	must(t, err)
	client, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, ""), Region: access.Region})
	must(t, err)
	return client
}
