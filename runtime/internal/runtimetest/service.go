package runtimetest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/internal/accountcache"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/internal/server"
	"mediastack.dev/runtime/internal/tus"
	"mediastack.dev/runtime/internal/webupload"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/settings"
)

// ServiceConfig configures a Service. Its base URL and its brand are those of Server.
type ServiceConfig struct {
	CoreConfig
	// TUS reports whether resumable uploads are served.
	TUS bool
	// MCP configures the tools; nil = they are not served.
	MCP *mcp.Config
	// CacheSettings reports whether the service keeps the settings of uploads, as a process does. Without, a test
	// that changes settings waits for no notification.
	CacheSettings bool
	// BeforeLock runs before a request locks its upload; nil = nothing does.
	BeforeLock func()
	// NoFetch turns uploads from a URL off.
	NoFetch bool
	// Prepare changes the tools before they are served; nil = they stay.
	Prepare func(*mcp.API)
	// Checks are those of readiness.
	Checks []server.Check
}

// NewServiceConfig returns the default configuration of a Service.
func NewServiceConfig() ServiceConfig {
	return ServiceConfig{CoreConfig: CoreConfig{Server: ServerConfig(), Media: MediaConfig(), Upload: UploadConfig(), LockTimeout: 5 * time.Minute, Auth: Credentials("a"),
		Delivery: delivery.Config{TTL: time.Hour, PublicMaxAge: time.Hour, Mode: delivery.Stream, SmallFiles: 16 << 20}}}
}

// Service is a running replica with REST, downloads, and the APIs that its configuration names.
type Service struct {
	*Core
	*Replica
	// TUS are the resumable uploads, and MCP the tools; nil if they are not served.
	TUS *tus.API
	MCP *mcp.API
	// Clock is the clock of the service.
	Clock *Clock
}

// Service starts a service. It ends with the test.
func (e *Env) Service(t *testing.T, config ServiceConfig) *Service {
	t.Helper()
	s := &Service{Clock: &Clock{}}
	config.Now = s.Clock.Now
	base, brand := config.Server.BaseURL, config.Server.Brand
	process, err := postgres.Open(t.Context(), e.Database) // a pool of its own, as every process has
	must(t, err)
	t.Cleanup(process.Close)
	// The lease that a serving process has. A database without a schema gives none.
	_, _ = process.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)
	if config.Credentials == nil {
		config.Credentials = process.Credentials
	}
	if config.Images && config.Uploads == nil {
		config.Uploads, config.Work = process.Uploads, process.Tasks // derivatives that are made later need the lease
	}
	if config.Changes == nil {
		config.Changes = process.Items
	}
	if config.Auth.Resource != "" { // logins are on
		config.Auth.MetadataURL = oauthhttp.MetadataURL(base)
	}
	changes := e.Settings
	if config.CacheSettings {
		cached := accountcache.NewSettings(e.Store.Settings, time.Minute, s.Clock.Now)
		config.Settings, config.Caches = cached, append(config.Caches, cached)
		changes = settings.NewService(cached)
	}
	config.Logs = &Log{}
	held := process.Uploads.UploadLocks(config.Logs.Logger())
	config.Locks = held
	if config.BeforeLock != nil {
		config.Locks = hookedLocks{Locks: held, before: config.BeforeLock}
	}
	s.Core = e.Core(t, config.CoreConfig)
	if config.NoFetch {
		s.Fetch = nil
	}
	plain, err := rest.New(rest.Config{MaxBatches: 16, BaseURL: base, Brand: brand}, rest.Deps{Limits: s.Limits, Media: s.Media, Items: s.Items,
		Uploads: s.Uploads, Settings: changes, Auth: s.Auth, Documents: s.Documents, Fetch: s.Fetch, Events: s.Events})
	must(t, err)
	apis := []func(chi.Router){plain.Mount, s.Files.Mount}
	var listeners []func(context.Context) error
	if config.TUS {
		s.TUS, err = tus.New(tus.Config{LockTimeout: config.LockTimeout}, tus.Deps{Uploads: s.Uploads, Auth: s.Auth, Documents: s.Documents, Locks: config.Locks, BaseURL: base, Brand: brand})
		must(t, err)
		apis = append(apis, s.TUS.Mount)
		listeners = append(listeners, held.Run) // without resumable uploads nothing locks, and one connection listens
	}
	if config.MCP != nil {
		shown, err := pages.New(pages.Config{Name: "Media storage", Color: "#2456d6"})
		must(t, err)
		page := webupload.New(webupload.Deps{Requests: s.Handover, Auth: s.Auth, Uploads: s.Uploads, Items: s.Media, Pages: shown, Assets: true, APIs: slices.Concat([]func(chi.Router){plain.Mount}, s.resumable()), BaseURL: base})
		apis = append(apis, page.Mount)
		s.MCP = s.tools(t, config, changes)
		apis = append(apis, s.MCP.Mount)
	}
	s.Replica = s.Serve(t, config.Checks, apis, listeners...)
	return s
}

// resumable returns what mounts resumable uploads, if the service has them.
func (s *Service) resumable() []func(chi.Router) {
	if s.TUS == nil {
		return nil
	}
	return []func(chi.Router){s.TUS.Mount}
}

// tools returns the tools of a service.
func (s *Service) tools(t *testing.T, config ServiceConfig, changes *settings.Service) *mcp.API {
	t.Helper()
	cfg := *config.MCP
	cfg.BaseURL, cfg.DraftTTL, cfg.Version = config.Server.BaseURL, cmp.Or(cfg.DraftTTL, 24*time.Hour), "test"
	documents := s.Documents
	documents.DraftTTL = cfg.DraftTTL
	deps := mcp.Deps{Media: s.Media, Items: s.Items, Uploads: s.Uploads, Settings: changes, Fetch: s.Fetch, Activity: s.Activity, Approvals: s.Approvals, Handover: s.Handover, Auth: s.Auth, Documents: documents, Origins: s.Origins, Limits: s.Limits}
	if s.Renditions != nil {
		deps.Views = s.Renditions
	}
	tools, err := mcp.New(cfg, deps)
	must(t, err)
	must(t, tools.Register(s.Registry))
	if config.Prepare != nil {
		config.Prepare(tools)
	}
	return tools
}

// Send sends a request to the service, by a path or by a URL, and reads the response.
func (s *Service) Send(ctx context.Context, method, path string, change ...Option) (Answer, error) {
	return Send(ctx, s.Client, method, Absolute(path), change...)
}

// hookedLocks are locks that run a hook before each Lock.
type hookedLocks struct {
	tus.Locks
	before func()
}

// Lock runs the hook, and locks.
func (l hookedLocks) Lock(ctx context.Context, name uuid.UUID, requestRelease func(), beforeWait func() error) (func(), error) {
	l.before()
	return l.Locks.Lock(ctx, name, requestRelease, beforeWait)
}
