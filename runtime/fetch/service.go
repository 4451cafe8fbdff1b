package fetch

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// Deps are the dependencies of a Service.
type Deps struct {
	Store   Store
	Source  Source
	Media   *media.Service
	Uploads *upload.Service
	NewID   func() (uuid.UUID, error)
	// Ready returns an error while no job may begin; nil = they always may.
	Ready func() error
	// Queued is called after a job was queued, so that it begins at once.
	Queued func()
	Now    func() time.Time
	Log    *slog.Logger
	// Registry registers the metrics; nil registers none.
	Registry prometheus.Registerer
}

// Service queues the jobs, and is the worker that runs them. It is safe for concurrent use.
type Service struct {
	cfg     Config
	deps    Deps
	metrics metrics
	running attempts
}

// New returns a Service that uses deps.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics(deps.Registry, cfg.Concurrency)
	if err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, deps: deps, metrics: metrics}, nil
}

// errDisabled is the fault of an installation that does not offer uploads from a URL.
var errDisabled = fault.New(fault.Forbidden, "uploads from a URL are disabled in this installation")

// Enabled reports whether the installation offers uploads from a URL.
func (s *Service) Enabled() bool { return s != nil && s.cfg.Enabled }

// Start queues a job. It rejects early what cannot succeed.
func (s *Service) Start(ctx context.Context, caller Caller, request Request) (Job, error) {
	if !s.Enabled() {
		return Job{}, errDisabled
	}
	if err := permits(caller, request); err != nil {
		return Job{}, err
	}
	if request.URL == "" {
		return Job{}, fault.New(fault.Invalid, "url is missing")
	}
	if err := s.deps.Source.Check(request.URL); err != nil {
		return Job{}, err
	}
	if request.Fields.FileName == "" {
		request.Fields.FileName = fileName(request.URL)
	}
	request.Fields.FileName = media.CleanFileName(request.Fields.FileName)
	if request.Fields.Access == "" {
		request.Fields.Access = media.Private
	}
	if err := request.Fields.Validate(); err != nil {
		return Job{}, err
	}
	id, err := s.deps.NewID()
	if err != nil {
		return Job{}, err
	}
	job := Job{ID: id, AccountID: caller.Account.ID, AppID: caller.App.ID, KeyID: caller.Key.ID, GrantID: caller.GrantID, Assistant: caller.Assistant,
		Request: request, State: Queued, CreatedAt: s.deps.Now()}
	if err := s.deps.Store.AddFetch(ctx, job, caller.Guard, s.cfg.MaxOpen); err != nil {
		return Job{}, err
	}
	s.deps.Queued()
	return job, nil
}

// Job returns a job of the principal's app; NotFound for any other one.
func (s *Service) Job(ctx context.Context, p account.Principal, id uuid.UUID) (Job, error) {
	if !s.Enabled() {
		return Job{}, errDisabled
	}
	return s.deps.Store.Fetch(ctx, media.ScopeOf(p), id)
}

// permits returns a Forbidden fault if the tool policy of the account does not allow the job to a login, or
// to a key at MCP.
func permits(caller Caller, request Request) error {
	policy := caller.Account.ToolPolicy
	switch {
	case caller.GrantID == uuid.Nil && !caller.Assistant:
	case !policy.Allows(account.UploadMediaFromURL):
		return fault.New(fault.Forbidden, "%s is not allowed for assistants and connected applications in this account", account.UploadMediaFromURL)
	case request.Seal && !policy.Allows(account.SealMedia):
		return fault.New(fault.Forbidden, "%s is not allowed for assistants and connected applications in this account: leave out seal", account.SealMedia)
	case request.Seal && request.Fields.Access == media.Public && caller.Guard.Publishes() != nil:
		return fault.New(fault.Forbidden, "the account wants its owner to allow what becomes public: leave out seal, and call %s for the draft afterwards", account.SealMedia)
	}
	return nil
}
