// Package fetch is the domain package of uploads from a URL: a tenant names a URL, and a replica of
// the runtime downloads the file into a draft, in the background. Packages rest and mcp queue jobs and
// show them; package work runs their tasks. Package remotefile sends the requests.
package fetch

import (
	"context"
	"io"
	"net/url"
	"path"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// State is how far a job has come.
type State string

// The states. Done and Failed are final.
const (
	Queued  State = "queued"
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
)

// Request is what a tenant asks for.
type Request struct {
	URL string
	// Fields are those of the draft. Without a file name it is that of the URL.
	Fields media.Fields
	// Seal reports whether the draft is sealed when the file is complete.
	Seal bool
}

// Caller is who requested a job: a job ends with the credential.
type Caller struct {
	account.Principal
	GrantID uuid.UUID // of an access token; zero for an API key
	// Assistant is set for a request at MCP, where the tool policy of the account limits keys, too.
	Assistant bool
}

// Job is an upload from a URL. It is scoped by account and app, as items are.
type Job struct {
	ID        uuid.UUID
	AccountID uuid.UUID
	AppID     uuid.UUID
	KeyID     uuid.UUID
	GrantID   uuid.UUID
	Assistant bool    // see Caller
	Request   Request // its URL is removed when the job ends: it may hold a token

	State State
	// Bytes are those that were received, Total those that the server announced; 0 = unknown.
	Bytes, Total int64
	// MediaID is the item, once the job is done.
	MediaID uuid.UUID
	// Failure is set once the job has failed.
	Failure   Failure
	CreatedAt time.Time
	EndedAt   *time.Time
}

// Claim is a job that this process runs. ItemID is the id of the draft, and the fence: every change of
// the job names it, and is rejected once another process has claimed the job.
type Claim struct {
	Job
	ItemID uuid.UUID
	// Attempt is 1 for the first one.
	Attempt int
	// Committed reports whether an earlier attempt has made the draft.
	Committed bool
}

// File is a file of another server.
type File struct {
	Body     io.ReadCloser
	Size     int64 // 0 = unknown
	MimeType string
}

// Source opens files of other servers. remotefile.Client implements it.
type Source interface {
	// Check returns an Invalid fault for a URL that cannot be opened.
	Check(url string) error
	// Open sends the request. Its errors, and those of the body, are Failures.
	Open(ctx context.Context, url string) (File, error)
}

// Store keeps the jobs. PostgreSQL implements it.
type Store interface {
	// AddFetch queues a job, and adds its task; Busy if the account has maxOpen jobs that have not ended. The transaction counts it towards the
	// ceilings of the guard; nil = there are none.
	AddFetch(ctx context.Context, job Job, guard *account.Guard, maxOpen int) error
	// Fetch returns a job of the scope; NotFound for any other one.
	Fetch(ctx context.Context, scope media.Scope, id uuid.UUID) (Job, error)
	// EnqueueFetches adds the tasks of jobs that have none, which replicas of a version before package work have queued, and returns how many.
	EnqueueFetches(ctx context.Context) (int, error)
	// BeginFetch begins an attempt at a job. It ends the upload of the earlier attempt; keysOf returns the keys of its objects, whose
	// removal is due at notBefore. It returns ErrNotFound if there is no such job that has not ended, and ErrLost if another process, which
	// is alive, runs it, and while this process has no lease.
	BeginFetch(ctx context.Context, id uuid.UUID, keysOf func(itemID uuid.UUID) []string, notBefore time.Time) (Claim, error)
	// StarvedFetch reports whether a task of an account of which none runs has been due for longer than
	// wait. yields is the job that makes room for it, of an account of which several run; the zero UUID
	// if there is none.
	StarvedFetch(ctx context.Context, wait time.Duration) (starved bool, yields uuid.UUID, err error)
	// ReportFetch records the progress of a claim; ErrLost if the claim was lost.
	ReportFetch(ctx context.Context, claim Claim, bytes, total int64) error
	// FinishFetch ends a job: with the item of the claim, or with a failure.
	FinishFetch(ctx context.Context, claim Claim, bytes int64, failure *Failure) error
	// ReturnFetch ends the claim of a job that is not done. Its task says when it runs again; after the delay, so may a replica of a version
	// before package work. counted is false if the attempt does not count.
	ReturnFetch(ctx context.Context, claim Claim, delay time.Duration, counted bool) error

	// FindPrincipalByKeyID returns the principal of a key, and FindGrant that of a grant; NotFound if
	// it has ended.
	FindPrincipalByKeyID(ctx context.Context, id uuid.UUID) (account.Principal, error)
	FindPrincipalOfGrant(ctx context.Context, id uuid.UUID) (account.Principal, error)
}

// ErrLost is the error of a claim that another process has taken over.
var ErrLost = fault.New(fault.Conflict, "the job was taken over by another process")

// ErrNotFound is the fault for a job that does not exist, or belongs to another app.
var ErrNotFound = fault.New(fault.NotFound, "upload from a URL not found")

// host returns the host of a URL for the log, which must have no other part of it.
func host(text string) string {
	if parsed, err := url.Parse(text); err == nil {
		return parsed.Hostname()
	}
	return ""
}

// fileName returns the name of the file by the path of its URL; Commit cleans it.
func fileName(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Path == "" || parsed.Path[len(parsed.Path)-1] == '/' {
		return ""
	}
	return path.Base(parsed.Path)
}
