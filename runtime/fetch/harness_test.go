package fetch_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

type world struct{ *runtimetest.Env }

// twoProcesses returns the environments of two processes with the same stores.
func twoProcesses(t *testing.T) (*world, *world) {
	t.Helper()
	database, objects := testenv.Postgres(t), testenv.S3(t)
	return &world{runtimetest.NewWith(t, database, objects)}, &world{runtimetest.NewWith(t, database, objects)}
}

func (w *world) tenant(t *testing.T) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: "one", MaxStorage: 64 << 20, MaxUploadSize: 32 << 20})
}

func (w *world) exec(t *testing.T, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), statement)
	must(t, err)
}

// holds waits until the installation has these items and bytes, and no upload.
func (w *world) holds(t *testing.T, items, bytes int64) {
	t.Helper()
	wait.Until(t, "the bytes are exact", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM upload`) == 0 && w.QueryInt(t, `SELECT count(*) FROM item`) == items &&
			w.QueryInt(t, `SELECT coalesce(sum(bytes), 0) FROM account_usage`) == bytes
	})
}

// claim claims the next task.
func (w *world) claim(t *testing.T, perAccount int) []work.Task {
	t.Helper()
	tasks, err := w.Store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: fetch.JobWork, Limit: 1, PerAccount: perAccount, Duration: time.Hour})
	must(t, err)
	return tasks
}

// begin begins the attempt of a task.
func (w *world) begin(t *testing.T, task work.Task) fetch.Claim {
	t.Helper()
	claim, err := w.Store.Fetches.BeginFetch(t.Context(), task.Key, media.UploadKeys, time.Now())
	must(t, err)
	return claim
}

// process is the part of a runtime process that runs uploads from a URL.
type process struct{ core *runtimetest.Core }

// source opens the same file by every URL.
type source func(ctx context.Context) (fetch.File, error)

func (source) Check(string) error                                       { return nil }
func (s source) Open(ctx context.Context, _ string) (fetch.File, error) { return s(ctx) }

// sources open another file by each URL.
type sources map[string]source

func (sources) Check(string) error                                         { return nil }
func (s sources) Open(ctx context.Context, url string) (fetch.File, error) { return s[url](ctx) }

func (w *world) process(t *testing.T, open source, change ...func(*fetch.Config)) process {
	t.Helper()
	return w.processOf(t, open, change...)
}

func (w *world) processOf(t *testing.T, source fetch.Source, change ...func(*fetch.Config)) process {
	t.Helper()
	cfg := runtimetest.FetchConfig()
	for _, apply := range change {
		apply(&cfg)
	}
	return process{w.Core(t, runtimetest.CoreConfig{Server: runtimetest.ServerConfig(), Media: runtimetest.MediaConfig(), Upload: runtimetest.UploadConfig(), Auth: runtimetest.Credentials("a"),
		Now: time.Now, Source: source, Fetch: cfg})}
}

func (p process) start(t *testing.T, of runtimetest.Tenant, request fetch.Request) fetch.Job {
	t.Helper()
	caller := fetch.Caller{Principal: account.Principal{Account: of.Account, App: of.App, Key: account.Key{ID: of.KeyID}}}
	job, err := p.core.Fetch.Start(t.Context(), caller, request)
	must(t, err)
	return job
}

// ended waits until a job has ended.
func (p process) ended(t *testing.T, of runtimetest.Tenant, job fetch.Job) fetch.Job {
	t.Helper()
	return p.endedFor(t, account.Principal{Account: of.Account, App: of.App}, job)
}

func (p process) endedFor(t *testing.T, principal account.Principal, job fetch.Job) (state fetch.Job) {
	t.Helper()
	wait.Until(t, "the job has ended", func() bool {
		var err error
		state, err = p.core.Fetch.Job(t.Context(), principal, job.ID)
		must(t, err)
		return state.EndedAt != nil
	})
	return state
}

// serve opens a file with this text.
func serve(text string) source {
	return func(context.Context) (fetch.File, error) {
		return fetch.File{Body: io.NopCloser(strings.NewReader(text)), Size: int64(len(text)), MimeType: "text/plain"}, nil
	}
}

// stall is a file that stalls after size bytes, and ends when it is released.
type stall struct {
	size    int64
	release chan struct{}
}

func newStall(size int64) *stall { return &stall{size: size, release: make(chan struct{})} }

func (s *stall) open(ctx context.Context) (fetch.File, error) {
	return fetch.File{Body: io.NopCloser(io.MultiReader(io.LimitReader(endless{}, s.size), waiting{ctx, s.release}))}, nil
}

// trickle is a file that arrives at some 20 KB/s, and has no end.
func trickle(ctx context.Context) (fetch.File, error) {
	return fetch.File{Body: io.NopCloser(dripping{ctx})}, nil
}

type dripping struct{ ctx context.Context }

func (d dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(5 * time.Millisecond): //nolint:forbidigo // the pace of a slow server
		return min(100, len(p)), nil
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
}

type waiting struct {
	ctx     context.Context
	release chan struct{}
}

func (w waiting) Read([]byte) (int, error) {
	select {
	case <-w.release:
		return 0, io.EOF
	case <-w.ctx.Done():
		return 0, context.Cause(w.ctx)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("a file that is too large is read")
	return 0, io.EOF
}

var must = check.NoError
