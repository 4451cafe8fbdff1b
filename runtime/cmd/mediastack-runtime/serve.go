package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/accountcache"
	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/apidocs"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/itemcache"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/internal/origin"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/remotefile"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/internal/server"
	"mediastack.dev/runtime/internal/traceexport"
	"mediastack.dev/runtime/internal/tus"
	"mediastack.dev/runtime/internal/webfiles"
	"mediastack.dev/runtime/inventory"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/work"
)

type serveCommand struct {
	Server   server.Config         `embed:"" group:"Server"`
	Auth     auth.Config           `embed:"" group:"Credentials"`
	Media    media.Config          `embed:"" group:"Media"`
	Drafts   media.DraftConfig     `embed:"" group:"Media"`
	Removals media.RemovalConfig   `embed:"" group:"Media"`
	Images   imaging.Config        `embed:"" prefix:"image-" group:"Images"`
	Facts    media.FactsConfig     `embed:"" group:"Images"`
	Pictures rendition.Config      `embed:"" group:"Images"`
	Eager    rendition.EagerConfig `embed:"" group:"Images"`
	Delivery delivery.Config       `embed:"" prefix:"delivery-" group:"Delivery"`
	Cache    itemcache.Config      `embed:"" group:"Delivery"`
	Uploads  tus.Config            `embed:"" group:"Media"`
	Tools    mcp.Config            `embed:"" group:"Server"`
	Routes   rest.Config           `embed:"" group:"Limits"`
	Fetch    fetch.Config          `embed:"" group:"Uploads from a URL"`
	Remote   remotefile.Config     `embed:"" group:"Uploads from a URL"`
	OAuth    oauthhttp.Config      `embed:"" group:"Login"`
	Files    webfiles.Config       `embed:"" group:"Login"`
	Logins   oauth.Config          `embed:"" group:"Login"`
	Pages    pages.Config          `embed:"" group:"Login"`
	Mail     mail.Config           `embed:"" group:"Login"`
	Limits   ratelimit.Config      `embed:"" group:"Limits"`
	Accounts accountmetrics.Config `embed:"" group:"Server"`
	Database postgres.Config       `embed:"" group:"Stores"`
	Searches postgres.SearchConfig `embed:"" group:"Stores"`
	Objects  objectstore.Config    `embed:"" prefix:"s3-" group:"Stores"`

	Installation installation.Config         `embed:"" group:"Stores"`
	Instance     installation.InstanceConfig `embed:"" group:"Stores"`
	Readiness    objectstore.ReadinessConfig `embed:"" group:"Stores"`

	Traces traceexport.Config `embed:"" group:"Server"`
}

// statementTimeout bounds each statement of a request: none of them takes a second on a server that
// responds.
const statementTimeout = 15 * time.Second

// Run serves until ctx ends. While the database is unavailable, or its schema outdated, the
// process runs but is not ready.
func (c *serveCommand) Run(ctx context.Context, log *slog.Logger) error {
	c.Database.StatementTimeout, c.Database.Search = statementTimeout, c.Searches
	store, err := postgres.Open(ctx, c.Database)
	if err != nil {
		return usageError{err}
	}
	defer store.Close()
	if err := checkCell(ctx, store); err != nil {
		return err
	}
	objects, err := objectstore.New(c.Objects)
	if err != nil {
		return usageError{err}
	}
	registry, err := newRegistry(store, objects)
	if err != nil {
		return err
	}
	traces, err := traceexport.New(ctx, c.Traces, traceexport.Deps{Service: "mediastack-runtime", Version: versionText(), Registry: registry, Log: log})
	if err != nil {
		return usageError{err}
	}
	defer traces.Close(ctx)
	images, err := imaging.New(ctx, c.Images, imaging.Deps{Registry: registry, Log: log})
	if err != nil {
		return usageError{err}
	}
	defer images.Close()
	svc, err := c.build(ctx, store, objects, images, traces, registry, log)
	if err != nil {
		return err
	}
	if err := svc.server.Listen(ctx); err != nil {
		return err
	}
	log.InfoContext(ctx, "starting", "version", versionText(), "logins", c.Mail.Enabled(), "traces", traces.Enabled())

	// Requests that run after SIGTERM still need the key cache and last-used updates.
	// Resumable uploads are interrupted once no new requests arrive.
	backgroundCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background errgroup.Group
	// The lease outlives all else: when it ends, other processes take over the tasks that still run.
	leaseCtx, endLease := context.WithCancel(context.WithoutCancel(ctx))
	var lease errgroup.Group
	lease.Go(func() error { return svc.instance.Run(leaseCtx) })
	background.Go(func() error {
		_ = svc.stores.Check(backgroundCtx) // first: while the object store is away, the guard does not wait for it
		background.Go(func() error { return svc.guard.Run(backgroundCtx) })
		return svc.stores.Run(backgroundCtx)
	})
	background.Go(func() error { return svc.feed.Run(backgroundCtx) })
	background.Go(func() error { return svc.origins.Run(backgroundCtx) })
	background.Go(func() error { svc.auth.Run(backgroundCtx); return nil })
	background.Go(func() error { return svc.locks.Run(backgroundCtx) })
	if c.Images.Enabled {
		background.Go(func() error { return svc.pictures.Run(backgroundCtx) })
	}
	background.Go(func() error { return svc.work.Run(backgroundCtx) })
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.Server.DrainDelay, svc.uploads.Drain) })()
	err = svc.server.Run(ctx)
	stop()
	backgroundErr := background.Wait()
	endLease()
	err = cmp.Or(err, backgroundErr, lease.Wait())
	if svc.mail != nil {
		svc.mail.Close()
	}
	log.InfoContext(ctx, "shutdown complete")
	return err
}

// cellTimeout bounds the look at the database before the process serves.
const cellTimeout = 2 * time.Second

// checkCell returns an error if the database has another cell than the configuration. While the
// database does not respond it returns nil: the guard rejects changes until it has read the row.
func checkCell(ctx context.Context, store *postgres.Store) error {
	ctx, cancel := context.WithTimeout(ctx, cellTimeout)
	defer cancel()
	var invalid usageError
	if _, err := store.Installations.Installation(ctx); errors.As(otherCellIsUsage(err), &invalid) {
		return invalid
	}
	return nil
}

// components are the parts of the service that run, or are drained.
type components struct {
	server  *server.Server
	auth    *auth.Authenticator
	feed    *accountcache.Feed
	origins *accountcache.Origins
	uploads *tus.API
	locks   *postgres.UploadLocks
	stores  *objectstore.Readiness
	work    *work.Runner
	mail    *mail.Sender // nil if login is disabled

	pictures *rendition.Service

	guard    *installation.Guard
	instance *installation.Instance
}

// build creates the components of the service, which is drained once ctx ends.
func (c *serveCommand) build(ctx context.Context, store *postgres.Store, objects *objectstore.Store, images *imaging.Pool, traces *traceexport.Provider, registry *prometheus.Registry, log *slog.Logger) (components, error) {
	limits, err := ratelimit.New(c.Limits, ratelimit.Deps{Registry: registry, Now: time.Now, Log: log})
	if err != nil {
		return components{}, err
	}
	authCfg := c.Auth
	authCfg.Brand = c.Server.Brand
	if c.Mail.Enabled() {
		authCfg.Resource, authCfg.MetadataURL = oauthhttp.Resource(c.Server.BaseURL), oauthhttp.MetadataURL(c.Server.BaseURL)
	}
	stores := objectstore.NewReadiness(c.Readiness, objects, store.Accounts.OwnedBucket, log)
	if err := stores.Register(registry); err != nil {
		return components{}, err
	}
	guard := installation.NewGuard(c.Installation, installation.Deps{Store: store.Installations, Markers: availableMarkers{objects, stores.Available}, Log: log})
	guarded := media.GuardObjects(objects, stores.Available, guard.BucketsWritable)
	origins, err := origin.New(c.Server.Origins)
	if err != nil {
		return components{}, usageError{err}
	}
	cachedSettings := accountcache.NewSettings(store.Settings, c.Auth.KeyCacheTTL, time.Now)
	authenticator, err := auth.New(authCfg, auth.Deps{Store: store.Credentials, Settings: cachedSettings, Limits: limits, Writable: guard.Writable, Origins: origins, Now: time.Now, Log: log})
	if err != nil {
		return components{}, err
	}
	if err := authenticator.Register(registry); err != nil {
		return components{}, err
	}
	preferences := settings.NewService(cachedSettings)
	items, err := media.New(c.Media, media.Deps{Store: store.Items, Objects: guarded, Deriver: images, Settings: cachedSettings, Now: time.Now, Log: log, Registry: registry})
	if err != nil {
		return components{}, err
	}
	store.Items.OnRoomMade(items.RemoveForRoom)
	secret, err := c.Auth.ServerSecret()
	if err != nil {
		return components{}, err
	}
	presigner, err := objectstore.NewPresigner(c.Objects, c.Delivery.PublicEndpoint)
	if err != nil {
		return components{}, usageError{fmt.Errorf("SERVICE_S3_PUBLIC_ENDPOINT: %w", err)}
	}
	cached, err := itemcache.New(c.Cache, items, registry, time.Now)
	if err != nil {
		return components{}, err
	}
	fileDeps := delivery.Deps{BaseURL: c.Server.BaseURL, Secret: secret, Items: cached, Current: items, Objects: guarded, Presigner: presigner, Registry: registry, Settings: cachedSettings, Limits: limits, Now: time.Now, Log: log}
	documents := api.Documents{Settings: cachedSettings, DraftTTL: c.Drafts.DraftTTL}
	maker, err := rendition.NewMaker(c.Pictures, rendition.MakerDeps{Claims: store.Pictures, Objects: guarded, Renderer: images, NewID: store.Cell().NewID, Encoder: media.EncoderVersion, Writable: guard.Writable, Log: log})
	if err != nil {
		return components{}, err
	}
	pictures, err := rendition.New(maker, rendition.Deps{Store: store.Pictures, Now: time.Now, Registry: registry})
	if err != nil {
		return components{}, err
	}
	eager, err := rendition.NewEager(c.Eager, maker, rendition.EagerDeps{Store: store.Pictures, Settings: settings.NewService(store.Settings), Wait: wait, Registry: registry})
	if err != nil {
		return components{}, err
	}
	if c.Images.Enabled {
		fileDeps.Renditions, fileDeps.Images, documents.Images = pictures, images, images
	}
	files, err := delivery.New(c.Delivery, fileDeps)
	if err != nil {
		return components{}, err
	}
	remote, err := remotefile.New(c.Remote, remotefile.Deps{})
	if err != nil {
		return components{}, err
	}
	tasks, err := work.NewRunner(work.Deps{Store: store.Tasks, Registry: registry, Log: log})
	if err != nil {
		return components{}, err
	}
	fetches, err := c.buildFetches(ctx, fetch.Deps{Store: store.Fetches, Source: remote, Media: items, NewID: store.Cell().NewID, Ready: guard.Writable, Now: time.Now, Log: log, Registry: registry}, tasks)
	if err != nil {
		return components{}, err
	}
	documents.URLs = files.URLs()
	routesCfg := c.Routes
	routesCfg.BaseURL, routesCfg.Brand = c.Server.BaseURL, c.Server.Brand
	locks := store.Items.UploadLocks(log)
	running := media.NewRunningUploads(items, locks, c.Uploads.LockTimeout)
	routes, err := rest.New(routesCfg,
		rest.Deps{Media: items, Items: cached, Uploads: running, Settings: preferences, Auth: authenticator, Documents: documents, Limits: limits, Fetch: fetches})
	if err != nil {
		return components{}, err
	}
	uploads, err := tus.New(c.Uploads, tus.Deps{
		Media: items, Auth: authenticator, Documents: documents, Locks: locks,
		BaseURL: c.Server.BaseURL, Brand: c.Server.Brand,
	})
	if err != nil {
		return components{}, err
	}
	toolsCfg := c.Tools
	toolsCfg.BaseURL, toolsCfg.DraftTTL, toolsCfg.Version = c.Server.BaseURL, c.Drafts.DraftTTL, versionText()
	tools, err := mcp.New(toolsCfg, mcp.Deps{Media: items, Items: cached, Settings: preferences, Fetch: fetches, Auth: authenticator, Documents: documents, Origins: origins, Limits: limits})
	if err != nil {
		return components{}, err
	}
	if err := tools.Register(registry); err != nil {
		return components{}, err
	}
	checks := []server.Check{
		{Name: "database", Run: store.Ping},
		{Name: "schema", Run: store.CheckSchema},
		{Name: "changes", Run: func(ctx context.Context) error { return changesCheck(ctx, store) }},
		{Name: "objects", Run: func(context.Context) error { return objectsCheck(stores) }},
		{Name: "images", Run: func(context.Context) error { return server.Degraded(images.Check()) }},
		{Name: "installation", Run: func(context.Context) error { return guard.Writable() }},
	}
	reference, err := apidocs.New()
	if err != nil {
		return components{}, err
	}
	mounts := []func(chi.Router){routes.Mount, uploads.Mount, tools.Mount, files.Mount, reference.Mount}
	ready := func() error { return cmp.Or(stores.Available(), guard.BucketsWritable()) }
	remover := media.NewRemover(c.Removals, media.RemoverDeps{Store: store.Items, Objects: guarded, Guard: guard, Ready: ready, Now: time.Now, Log: log})
	if err := tasks.Register(media.RemovalWork, remover, remover.Policy()); err != nil {
		return components{}, err
	}
	if c.Images.Enabled {
		facts := media.NewFactsBackfill(c.Facts, media.FactsDeps{Store: store.Items, Objects: guarded, Deriver: images, Writable: guard.Writable, Wait: wait, Log: log})
		if err := tasks.Register(media.FactsWork, facts, facts.Policy()); err != nil {
			return components{}, err
		}
		if eager.Enabled() {
			if err := tasks.Register(rendition.PictureWork, eager, eager.Policy()); err != nil {
				return components{}, err
			}
		}
	}
	var emails *mail.Sender
	if c.Mail.Enabled() {
		page := webfiles.Deps{Media: items, Uploads: running, URLs: files.URLs(), Settings: cachedSettings, StoreOrigin: files.StoreOrigin, DraftTTL: c.Drafts.DraftTTL, CheckWritable: authenticator.CheckWritable}
		var forOwners []func(chi.Router)
		if forOwners, emails, err = c.buildOAuth(store, tasks, secret, page, limits, registry, log); err != nil {
			return components{}, err
		}
		mounts = append(mounts, forOwners...)
	}
	instance := installation.NewInstance(c.Instance, versionText(), installation.InstanceDeps{Store: store.Installations, Writable: guard.Writable, EndUploads: items.EndUploadsOfDeadProcesses, Log: log})
	if err := registry.Register(inventory.NewCollector(store.Installations, instance.ID(), c.Accounts.Limit(), time.Now, log)); err != nil {
		return components{}, err
	}
	accounts, err := newAccountMetrics(c.Accounts, registry)
	if err != nil {
		return components{}, err
	}
	serving, err := server.New(c.Server, server.Deps{Origins: origins, Accounts: accounts, Mounts: mounts, Limits: limits, Checks: checks, Registry: registry, Tracer: traces.Tracer(), Log: log})
	accountOrigins := accountcache.NewOrigins(store.Accounts, origins, log)
	feed := accountcache.NewFeed(store.Items, log, authenticator.Sessions(), cachedSettings, accountOrigins)
	if c.Cache.Entries > 0 {
		feed = feed.WithItems(cached)
	}
	return components{server: serving, origins: accountOrigins, auth: authenticator, feed: feed, uploads: uploads, locks: locks, stores: stores, work: tasks, mail: emails,
		pictures: pictures, guard: guard, instance: instance}, err
}

// buildFetches creates the uploads from a URL. After ctx, other replicas begin them.
func (c *serveCommand) buildFetches(ctx context.Context, deps fetch.Deps, tasks *work.Runner) (*fetch.Service, error) {
	writable := deps.Ready
	deps.Ready = func() error { return cmp.Or(ctx.Err(), writable()) }
	deps.Queued = func() { tasks.Wake(fetch.JobWork) }
	fetches, err := fetch.New(c.Fetch, deps)
	if err != nil || !fetches.Enabled() {
		return fetches, err
	}
	return fetches, tasks.Register(fetch.JobWork, fetches, fetches.Policy())
}

// buildOAuth creates the authorization server with its login pages, the files page, and what sends the e-mails of logins.
func (c *serveCommand) buildOAuth(store *postgres.Store, tasks *work.Runner, secret keys.Secret, files webfiles.Deps, limits *ratelimit.Limiter, registry *prometheus.Registry, log *slog.Logger) ([]func(chi.Router), *mail.Sender, error) {
	signer, err := secret.Signer(keys.PurposeOAuth)
	if err != nil {
		return nil, nil, err
	}
	encrypter, err := secret.Encrypter(keys.PurposeEmailOutbox)
	if err != nil {
		return nil, nil, err
	}
	logins, err := oauth.NewService(c.Logins, oauth.Deps{Store: store.Logins, Signer: signer, Encrypter: encrypter, EmailQueued: func() { tasks.Wake(oauth.EmailWork) }, Now: time.Now, Log: log})
	if err != nil {
		return nil, nil, err
	}
	if err := logins.Register(registry); err != nil {
		return nil, nil, err
	}
	emails, err := mail.NewSender(c.Mail, c.Pages.Name, c.Server.BaseURL, logins, time.Now, log)
	if err != nil {
		return nil, nil, usageError{err}
	}
	policy := c.Mail.Policy()
	policy.Enqueue = store.Tasks.AdoptEmails
	if err := tasks.Register(oauth.EmailWork, emails, policy); err != nil {
		return nil, nil, err
	}
	shown, err := pages.New(c.Pages)
	if err != nil {
		return nil, nil, usageError{err}
	}
	deps := oauthhttp.Deps{OAuth: logins, Pages: shown, Limits: limits, BaseURL: c.Server.BaseURL, Name: c.Pages.Name, Now: time.Now}
	if c.Files.Enabled {
		deps.Files = webfiles.OwnerPages()
	}
	login, err := oauthhttp.New(c.OAuth, deps)
	if err != nil {
		return nil, nil, err
	}
	if !c.Files.Enabled {
		return []func(chi.Router){login.Mount}, emails, nil
	}
	files.Login, files.OAuth, files.Pages, files.Limits, files.BaseURL, files.Now = login, logins, shown, limits, c.Server.BaseURL, time.Now
	page, err := webfiles.New(c.Files, files)
	if err != nil {
		return nil, nil, err
	}
	return []func(chi.Router){login.Mount, page.Mount}, emails, nil
}
