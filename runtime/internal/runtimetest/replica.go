package runtimetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/accountcache"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/itemcache"
	"mediastack.dev/runtime/internal/origin"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/server"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/work"
)

// MediaConfig returns the default configuration of the items of a replica.
func MediaConfig() media.Config { return media.Config{DeleteTimeout: Long} }

// UploadConfig returns the default configuration of the uploads of a replica.
func UploadConfig() upload.Config {
	return upload.Config{MaxUploads: 8, UploadMemory: 96 << 20, UploadPerAccountPercent: 100, UploadQueue: 8, UploadQueueTimeout: Long,
		UploadLease: time.Minute, ResumableTTL: 24 * time.Hour}
}

// ServerConfig returns the default server configuration of a replica.
func ServerConfig() server.Config {
	return server.Config{BaseURL: BaseURL, Brand: "service", Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0",
		StallTimeout: Long, DiscardLimit: 16 << 20, DiscardTimeout: time.Minute, ShutdownTimeout: 30 * time.Second}
}

// CoreConfig configures a Core. The default of a nil or zero field is that of the environment.
type CoreConfig struct {
	Server   server.Config
	Media    media.Config
	Upload   upload.Config
	Limits   ratelimit.Config
	Auth     auth.Config
	Delivery delivery.Config
	// Cache is the cache of items; without entries there is none.
	Cache itemcache.Config
	// Now is the clock.
	Now func() time.Time
	// Images reports whether uploads get derivatives, and presets pictures, by the worker that make has built.
	Images bool

	Store       media.Store
	Uploads     upload.Store
	Work        work.Store
	Objects     media.ObjectStore
	Credentials auth.CredentialStore
	Settings    upload.Settings
	// Locks are those of resumable uploads, LockTimeout is how long a request waits for one, and Logs is what the replica logs;
	// nil = a Log of its own.
	Locks       upload.Locks
	LockTimeout time.Duration
	Logs        *Log
	// Changes are the notifications that empty the caches: of authentication, and these.
	Changes   accountcache.Source
	Caches    []accountcache.Cache
	Presigner delivery.Presigner
	// Writable returns why nothing may be changed; nil = everything may.
	Writable func() error
	// Source opens the files of uploads from a URL; nil = any URL is valid, and no server is reached.
	// The jobs run while the test calls Core.Fetch.Run.
	Source fetch.Source
	// Scanners check files before they are sealed; nil = there is none. They do while the test calls Core.Tasks.Run.
	Scanners map[string]gate.Scanner
	// Fetch is the configuration of these; the default is FetchConfig.
	Fetch fetch.Config
}

// Items reads items for the APIs and for downloads.
type Items interface {
	media.ItemReader
	delivery.Items
}

// Core is what the APIs of a replica share.
type Core struct {
	Registry *prometheus.Registry
	Limits   *ratelimit.Limiter
	Origins  *origin.Policy
	Auth     *auth.Authenticator
	Media    *media.Service
	Uploads  *upload.Service
	// Items are the items of Media, behind the cache if there is one.
	Items Items
	Files *delivery.Delivery
	// Documents are those of items.
	Documents api.Documents
	// Renditions makes the pictures of presets; nil without images.
	Renditions *rendition.Service
	// Events are those of the journals.
	Events *journal.Feed
	// Activity shows them to people.
	Activity *journal.Activity
	// Approvals are what waits for an owner. Tasks carries out what was allowed.
	Approvals *approval.Service
	// Handover are the files that assistants request of a person.
	Handover *handover.Service
	// Fetch are the uploads from a URL, and Tasks runs them.
	Fetch *fetch.Service
	Tasks *work.Runner
	// Logs is what the replica logs.
	Logs *Log

	log    *slog.Logger
	server server.Config
	feed   *accountcache.Feed

	accountOrigins *accountcache.Origins
}

// Core returns the components of a replica that its APIs use.
func (e *Env) Core(t *testing.T, config CoreConfig) *Core {
	t.Helper()
	c := &Core{Registry: prometheus.NewRegistry(), Logs: cmp.Or(config.Logs, &Log{}), server: config.Server}
	c.log = c.Logs.Logger()
	if config.Store == nil {
		config.Store = e.Store.Items
	}
	if config.Uploads == nil {
		config.Uploads = e.Store.Uploads
	}
	if config.Work == nil {
		config.Work = e.Store.Tasks
	}
	if config.Objects == nil {
		config.Objects = e.Objects
	}
	if config.Credentials == nil {
		config.Credentials = e.Store.Credentials
	}
	if config.Settings == nil {
		config.Settings = e.Settings
	}
	if config.Changes == nil {
		config.Changes = e.Store.Items
	}
	if config.Delivery == (delivery.Config{}) {
		config.Delivery = delivery.Config{TTL: time.Hour, PublicMaxAge: time.Hour, Mode: delivery.Stream, SmallFiles: 16 << 20}
	}
	var err error
	c.Tasks, err = work.NewRunner(work.Deps{Store: config.Work, Registry: c.Registry, Log: c.log})
	must(t, err)
	c.Limits, err = ratelimit.New(config.Limits, ratelimit.Deps{Registry: c.Registry, Now: config.Now, Log: c.log})
	must(t, err)
	config.Auth.Brand = config.Server.Brand
	c.Origins, err = origin.New(config.Server.Origins)
	must(t, err)
	c.Auth, err = auth.New(config.Auth, auth.Deps{Store: config.Credentials, Settings: config.Settings, Origins: c.Origins, Limits: c.Limits, Writable: config.Writable, Now: config.Now, Log: c.log})
	must(t, err)
	c.accountOrigins = accountcache.NewOrigins(e.Store.Accounts, c.Origins, c.log)
	c.feed = accountcache.NewFeed(config.Changes, c.log, append(config.Caches, c.Auth.Sessions(), c.accountOrigins)...)
	wakeScans := func() { c.Tasks.Wake(gate.ScanWork) }
	c.Media, err = media.New(config.Media, media.Deps{Store: config.Store, Objects: config.Objects, CheckWanted: wakeScans, Now: config.Now, Log: c.log})
	must(t, err)
	deps := upload.Deps{Store: config.Uploads, Objects: config.Objects, Items: c.Media, Settings: config.Settings, Locks: config.Locks, LockTimeout: config.LockTimeout, CheckPending: wakeScans, Now: config.Now, Log: c.log}
	files := delivery.Deps{BaseURL: config.Server.BaseURL, Objects: e.Objects, Presigner: config.Presigner, Registry: c.Registry, Settings: config.Settings, Limits: c.Limits, Now: config.Now, Log: c.log}
	c.Documents = api.Documents{Settings: config.Settings, DraftTTL: 24 * time.Hour}
	if config.Images {
		pool := Images(t, c.Registry, c.log)
		deps.Deriver = pool
		maker, err := rendition.NewMaker(rendition.Config{CacheEntries: 1000, Timeout: 10 * time.Minute, Jobs: 8, MaxBytes: 16 << 20, UnstoredCache: 32 << 20, FailureTTL: time.Minute},
			rendition.MakerDeps{Claims: e.Store.Pictures, Objects: e.Objects, Renderer: pool, NewID: e.Store.Cell().NewID, Encoder: media.EncoderVersion, Log: c.log})
		must(t, err)
		c.Renditions, err = rendition.New(maker, rendition.Deps{Store: e.Store.Pictures, Now: config.Now, Registry: c.Registry})
		must(t, err)
		files.Renditions, files.Images, c.Documents.Images = c.Renditions, pool, pool
	}
	c.Uploads, err = upload.New(config.Upload, deps)
	must(t, err)
	if config.Images {
		pending, ok := config.Uploads.(upload.DerivativesStore)
		if !ok { // a test has its own
			pending = e.Store.Uploads
		}
		later := upload.NewDerivatives(upload.DerivativesDeps{Store: pending, Uploads: c.Uploads, RunNow: c.Tasks.RunNow, Workers: 1, Timeout: 10 * time.Minute, Log: c.log})
		must(t, c.Tasks.Register(upload.DerivativesWork, later, later.Policy()))
		files.Derivatives = later
	}
	checks, err := gate.New(gate.Config{Slots: 2, Timeout: Long, Percent: 10}, gate.Deps{Store: e.Store.Gates, Objects: config.Objects, Scanners: config.Scanners, Emails: true, Now: time.Now, Log: c.log})
	must(t, err)
	must(t, c.Tasks.Register(gate.ScanWork, checks, checks.Policy()))
	c.Approvals, err = approval.New(approval.Deps{Store: e.Store.Approvals, Media: c.Media, Settings: e.Settings, NewID: e.Store.Cell().NewID, Queued: func() { c.Tasks.Wake(approval.Work) }, Emails: true, Log: c.log, Registry: c.Registry})
	must(t, err)
	must(t, c.Tasks.Register(approval.Work, c.Approvals, c.Approvals.Policy()))
	c.Handover, err = handover.New(handover.Config{TTL: time.Hour}, handover.Deps{Store: e.Store.Handovers, Now: config.Now})
	must(t, err)
	c.Activity = journal.NewActivity(e.Store.Journal)
	c.Events, err = journal.NewFeed(journal.Config{Waiting: 8, MaxWait: journal.MaxWait}, e.Store.Journal, c.Registry)
	must(t, err)
	secret, err := config.Auth.ServerSecret()
	must(t, err)
	c.Items = c.Media
	if config.Cache.Entries > 0 {
		cached, err := itemcache.New(config.Cache, c.Media, c.Registry, config.Now)
		must(t, err)
		c.Items, c.feed = cached, c.feed.WithItems(cached)
	}
	files.Secret, files.Items, files.Current = secret, c.Items, c.Media
	c.Files, err = delivery.New(config.Delivery, files)
	must(t, err)
	c.Documents.URLs = c.Files.URLs()
	if config.Source == nil {
		config.Source = anySource{}
	}
	if config.Fetch == (fetch.Config{}) {
		config.Fetch = FetchConfig()
	}
	c.Fetch, err = fetch.New(config.Fetch, fetch.Deps{Store: e.Store.Fetches, Source: config.Source, Media: c.Media, Uploads: c.Uploads, NewID: e.Store.Cell().NewID,
		Queued: func() { c.Tasks.Wake(fetch.JobWork) }, Now: config.Now, Log: c.log, Registry: c.Registry})
	must(t, err)
	must(t, c.Tasks.Register(fetch.JobWork, c.Fetch, c.Fetch.Policy()))
	return c
}

// FetchConfig returns a configuration of uploads from a URL.
func FetchConfig() fetch.Config {
	return fetch.Config{Enabled: true, Concurrency: 4, PerAccount: 2, MaxOpen: 100, MaxAttempts: 3, CheckInterval: 20 * time.Millisecond}
}

// anySource accepts any URL, and opens none.
type anySource struct{}

// Check implements fetch.Source.
func (anySource) Check(string) error { return nil }

// Open implements fetch.Source.
func (anySource) Open(context.Context, string) (fetch.File, error) {
	return fetch.File{}, fetch.Fail(fetch.Unreachable, "there is no server")
}

// Replica is a running server.
type Replica struct {
	*server.Server
	// Client connects to the replica for every URL.
	Client *http.Client
	// Stop shuts the server down; StopListening ends the background tasks, such as locks.
	Stop, StopListening context.CancelFunc
	// Ended receives what the server returned.
	Ended chan error
}

// Serve runs a server with APIs, and the listeners in the background. All end with the test.
func (c *Core) Serve(t *testing.T, checks []server.Check, apis []func(chi.Router), listeners ...func(context.Context) error) *Replica {
	t.Helper()
	running, err := server.New(c.server, server.Deps{Origins: c.Origins, Mounts: apis, Limits: c.Limits, Checks: checks, Registry: c.Registry, Log: c.log})
	must(t, err)
	must(t, running.Listen(t.Context()))
	serving, stop := context.WithCancel(context.Background())
	listening, stopListening := context.WithCancel(context.Background())
	r := &Replica{Server: running, Stop: stop, StopListening: stopListening, Ended: make(chan error, 1)}
	var beside, done sync.WaitGroup
	beside.Go(func() { c.Auth.Run(listening) })
	for _, listen := range append(listeners, c.feed.Run, c.accountOrigins.Run) {
		beside.Go(func() { _ = listen(listening) })
	}
	done.Go(func() { r.Ended <- running.Run(serving) })
	t.Cleanup(func() { stop(); done.Wait(); stopListening(); beside.Wait() })
	transport := Dialer(running.Addr())
	t.Cleanup(transport.CloseIdleConnections)
	r.Client = &http.Client{Transport: transport, Timeout: 2 * wait.Timeout(t)} // a test may wait while a request lasts
	return r
}

// CheckStatus calls fail, which is Errorf or Fatalf of a test, if the status of a response is not the one that is wanted. What names
// the request, with its arguments.
func CheckStatus(t testing.TB, fail func(string, ...any), status, want int, body []byte, what string, args ...any) {
	t.Helper()
	if status != want {
		fail("%s: the status is %d, want %d: %s", fmt.Sprintf(what, args...), status, want, body)
	}
}

// RandomBytes returns n random bytes.
func RandomBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data)
	return data
}
