package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/cdn"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/accountcache"
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
	"mediastack.dev/runtime/internal/webhookclient"
	"mediastack.dev/runtime/internal/webupload"
	"mediastack.dev/runtime/inventory"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/webhook"
	"mediastack.dev/runtime/work"
)

// components are the parts of the service that run, or are drained.
type components struct {
	server  *server.Server
	auth    *auth.Authenticator
	feed    *accountcache.Feed
	origins *accountcache.Origins
	tus     *tus.API
	events  *journal.Feed
	// activity shows the events to people.
	activity  *journal.Activity
	approvals *approval.Service
	locks     *postgres.UploadLocks
	stores    *objectstore.Readiness
	work      *work.Runner
	mail      *mail.Sender // nil if login is disabled

	pictures *rendition.Service

	guard    *installation.Guard
	instance *installation.Instance
}

// builder creates the components step by step. A step uses what the steps before it have set.
type builder struct {
	*serveCommand
	// drained is done once the service is drained.
	drained  context.Context
	store    *postgres.Store
	objects  *objectstore.Store
	images   *imaging.Pool
	traces   *traceexport.Provider
	registry *prometheus.Registry
	log      *slog.Logger

	components
	secret    keys.Secret
	limits    *ratelimit.Limiter
	allowed   *origin.Policy
	cached    *accountcache.Settings
	guarded   media.ObjectStore // objects, while they may be changed and respond
	items     *media.Service
	uploads   *upload.Service
	itemCache *itemcache.Cache
	eager     *rendition.Eager
	later     *upload.Derivatives
	cdn       *cdn.Service // nil without a CDN that purges
	files     *delivery.Delivery
	documents api.Documents
	shown     *pages.Pages // nil where nobody can log in
	fetches   *fetch.Service
	handovers *handover.Service
	mounts    []func(chi.Router)
}

// build returns the components.
func (b *builder) build() (components, error) {
	for _, step := range []func() error{b.buildGuard, b.buildAuth, b.buildItems, b.buildPictures, b.buildCDN, b.buildFiles, b.buildWork, b.buildFetches, b.buildGate, b.buildWebhooks, b.buildAPIs, b.buildLogin, b.buildServer} {
		if err := step(); err != nil {
			return components{}, err
		}
	}
	return b.components, nil
}

// buildGuard creates the guard of the stores, which permits their use and changes, and the lease of the process.
func (b *builder) buildGuard() error {
	b.stores = objectstore.NewReadiness(b.Readiness, b.objects, b.store.Accounts.OwnedBucket, b.log)
	if err := b.stores.Register(b.registry); err != nil {
		return err
	}
	b.guard = installation.NewGuard(b.Installation, installation.Deps{Store: b.store.Installations, Markers: availableMarkers{b.objects, b.stores.Available}, Log: b.log})
	b.guarded = media.GuardObjects(b.objects, b.stores.Available, b.guard.BucketsWritable)
	b.instance = installation.NewInstance(b.Instance, versionText(), installation.InstanceDeps{Store: b.store.Installations, Writable: b.guard.Writable,
		EndUploads: func(ctx context.Context) error { return b.uploads.EndUploadsOfDeadProcesses(ctx) },
		Renewed:    func(until time.Time, lapsed bool) { b.uploads.SetLease(until, lapsed) },
		Settle:     func(ctx context.Context, last bool) error { return b.uploads.Settle(ctx, last) }, Log: b.log})
	return nil
}

// buildAuth creates what identifies and limits a caller.
func (b *builder) buildAuth() (err error) {
	if b.secret, err = b.Auth.ServerSecret(); err != nil {
		return err
	}
	if b.limits, err = ratelimit.New(b.Limits, ratelimit.Deps{Registry: b.registry, Now: time.Now, Log: b.log}); err != nil {
		return err
	}
	if b.allowed, err = origin.New(b.Server.Origins); err != nil {
		return usageError{err}
	}
	cfg := b.Auth
	cfg.Brand = b.Server.Brand
	if b.Mail.Enabled() {
		cfg.Resource, cfg.MetadataURL = oauthhttp.Resource(b.Server.BaseURL), oauthhttp.MetadataURL(b.Server.BaseURL)
	}
	b.cached = accountcache.NewSettings(b.store.Settings, b.Auth.KeyCacheTTL, time.Now)
	b.auth, err = auth.New(cfg, auth.Deps{Store: b.store.Credentials, Settings: b.cached, Limits: b.limits, Writable: b.guard.Writable, Origins: b.allowed, Now: time.Now, Log: b.log})
	if err != nil {
		return err
	}
	return b.auth.Register(b.registry)
}

// buildItems creates the items, the uploads that make them, their cache, and what empties the caches.
func (b *builder) buildItems() (err error) {
	if b.items, err = media.New(b.Media, media.Deps{Store: b.store.Items, Objects: b.guarded, CheckWanted: func() { b.work.Wake(gate.ScanWork) }, Now: time.Now, Log: b.log, Registry: b.registry}); err != nil {
		return err
	}
	b.store.Uploads.OnRoomMade(b.items.RemoveForRoom)
	b.locks = b.store.Uploads.UploadLocks(b.log)
	b.uploads, err = upload.New(b.Upload, upload.Deps{Store: b.store.Uploads, Objects: b.guarded, Items: b.items, Deriver: b.images, Settings: b.cached, DerivativesPending: func() { b.work.Wake(upload.DerivativesWork) }, CheckPending: func() { b.work.Wake(gate.ScanWork) },
		Locks: b.locks, LockTimeout: b.TUS.LockTimeout, Now: time.Now, Log: b.log, Registry: b.registry})
	if err != nil {
		return err
	}
	b.later = upload.NewDerivatives(upload.DerivativesDeps{Store: b.store.Uploads, Uploads: b.uploads, Workers: b.Images.WorkerCount(), Timeout: b.Images.Timeout, Log: b.log,
		Ready: func() error { return cmp.Or(b.stores.Available(), b.guard.Writable()) },
		RunNow: func(ctx context.Context, kind work.Kind, key uuid.UUID) (bool, error) {
			return b.work.RunNow(ctx, kind, key)
		}})
	if b.itemCache, err = itemcache.New(b.Cache, b.items, b.registry, time.Now); err != nil {
		return err
	}
	b.origins = accountcache.NewOrigins(b.store.Accounts, b.allowed, b.log)
	b.feed = accountcache.NewFeed(b.store.Items, b.log, b.auth.Sessions(), b.cached, b.origins)
	if b.Cache.Entries > 0 {
		b.feed = b.feed.WithItems(b.itemCache)
	}
	return nil
}

// buildPictures creates what makes the pictures of presets.
func (b *builder) buildPictures() error {
	maker, err := rendition.NewMaker(b.Pictures, rendition.MakerDeps{Claims: b.store.Pictures, Objects: b.guarded, Renderer: b.images, NewID: b.store.Cell().NewID, Encoder: media.EncoderVersion, Writable: b.guard.Writable, Log: b.log})
	if err != nil {
		return err
	}
	if b.pictures, err = rendition.New(maker, rendition.Deps{Store: b.store.Pictures, Now: time.Now, Registry: b.registry}); err != nil {
		return err
	}
	b.eager, err = rendition.NewEager(b.Eager, maker, rendition.EagerDeps{Store: b.store.Pictures, Settings: settings.NewService(b.store.Settings), Wait: wait, Registry: b.registry})
	return err
}

// buildFiles creates what serves the files, and the documents of items.
func (b *builder) buildFiles() error {
	presigner, err := objectstore.NewPresigner(b.Objects, b.Delivery.PublicEndpoint)
	if err != nil {
		return usageError{fmt.Errorf("SERVICE_S3_PUBLIC_ENDPOINT: %w", err)}
	}
	deps := delivery.Deps{BaseURL: b.Server.BaseURL, Secret: b.secret, Items: b.itemCache, Current: b.items, Objects: b.guarded, Presigner: presigner, Registry: b.registry, Settings: b.cached, Limits: b.limits, CDN: b.cdnOfFiles(), Now: time.Now, Log: b.log}
	b.documents = api.Documents{Settings: b.cached, DraftTTL: b.Drafts.DraftTTL}
	if b.Images.Enabled {
		deps.Renditions, deps.Images, deps.Derivatives, b.documents.Images = b.pictures, b.images, b.later, b.images
	}
	if b.files, err = delivery.New(b.Delivery, deps); err != nil {
		return err
	}
	b.documents.URLs = b.files.URLs()
	return nil
}

// buildWork creates the runner of background work, with the tasks of items and pictures.
func (b *builder) buildWork() (err error) {
	if b.work, err = work.NewRunner(work.Deps{Store: b.store.Tasks, Registry: b.registry, Log: b.log}); err != nil {
		return err
	}
	ready := func() error { return cmp.Or(b.stores.Available(), b.guard.BucketsWritable()) }
	remover := media.NewRemover(b.Removals, media.RemoverDeps{Store: b.store.Items, Objects: b.guarded, Guard: b.guard, Ready: ready, Now: time.Now, Log: b.log})
	if err := b.work.Register(media.RemovalWork, remover, remover.Policy()); err != nil {
		return err
	}
	if b.cdn != nil {
		if err := b.work.Register(cdn.PurgeWork, b.cdn, b.cdn.Policy()); err != nil {
			return err
		}
	}
	if err := b.buildCaptures(); err != nil {
		return err
	}
	searcher := upload.NewSearcher(upload.SearchDeps{Store: b.store.Uploads, Objects: b.objects, Guard: b.guard, Ready: ready, Log: b.log})
	if err := b.work.Register(upload.SearchWork, searcher, searcher.Policy()); err != nil || !b.Images.Enabled {
		return err
	}
	if err := b.work.Register(upload.DerivativesWork, b.later, b.later.Policy()); err != nil {
		return err
	}
	facts := media.NewFactsBackfill(b.Facts, media.FactsDeps{Store: b.store.Items, Objects: b.guarded, Deriver: b.images, Writable: b.guard.Writable, Wait: wait, Log: b.log})
	if err := b.work.Register(media.FactsWork, facts, facts.Policy()); err != nil || !b.eager.Enabled() {
		return err
	}
	return b.work.Register(rendition.PictureWork, b.eager, b.eager.Policy())
}

// buildCaptures creates what reads how files were made. Without image workers, it reads nothing, and ends the tasks.
func (b *builder) buildCaptures() error {
	captures := media.NewCaptures(media.CaptureDeps{Store: b.store.Items, Objects: b.guarded, Reader: b.images, Writable: b.guard.Writable, Wait: wait, Log: b.log})
	passes, locations := captures.Pass(b.Facts), captures.Locations()
	return cmp.Or(b.work.Register(media.CaptureWork, captures, captures.Policy()), b.work.Register(media.CapturesWork, passes, passes.Policy()),
		b.work.Register(media.LocationsWork, locations, locations.Policy()))
}

// buildFetches creates the uploads from a URL. Once the service is drained, other replicas begin them.
func (b *builder) buildFetches() error {
	remote, err := remotefile.New(b.Remote, remotefile.Deps{})
	if err != nil {
		return err
	}
	b.fetches, err = fetch.New(b.Fetch, fetch.Deps{Store: b.store.Fetches, Source: remote, Media: b.items, Uploads: b.uploads, NewID: b.store.Cell().NewID,
		Ready: func() error { return cmp.Or(b.drained.Err(), b.guard.Writable()) }, Queued: func() { b.work.Wake(fetch.JobWork) }, Now: time.Now, Log: b.log, Registry: b.registry})
	if err != nil || !b.fetches.Enabled() {
		return err
	}
	return b.work.Register(fetch.JobWork, b.fetches, b.fetches.Policy())
}

// buildGate creates what checks files before they are sealed. Without a scanner it runs, too: files wait for it, or pass, as their accounts say.
func (b *builder) buildGate() error {
	scanners, err := b.Scanners.Scanners()
	if err != nil {
		return usageError{err}
	}
	checks, err := gate.New(b.Gate, gate.Deps{Store: b.store.Gates, Objects: b.guarded, Scanners: scanners, Emails: b.Mail.Enabled(), Sealed: b.items.CountSealed,
		Ready: func() error { return cmp.Or(b.drained.Err(), b.stores.Available(), b.guard.Writable()) }, NoticeQueued: func() { b.work.Wake(gate.NoticeWork) }, Now: time.Now, Log: b.log, Registry: b.registry})
	if err != nil {
		return err
	}
	return b.work.Register(gate.ScanWork, checks, checks.Policy())
}

// buildWebhooks creates the deliveries of webhooks. Once the service is drained, other replicas begin them.
func (b *builder) buildWebhooks() error {
	sender, err := webhookclient.New(b.Sender, webhookclient.Deps{})
	if err != nil {
		return err
	}
	opener, err := b.secret.Opener(keys.PurposeWebhooks)
	if err != nil {
		return err
	}
	deliveries, err := webhook.New(b.Webhooks, webhook.Deps{Store: b.store.Webhooks, Sender: sender, Opener: opener, BaseURL: b.Server.BaseURL, Timeout: b.Sender.Timeout,
		Ready: func() error { return cmp.Or(b.drained.Err(), b.guard.Writable()) }, Now: time.Now, Log: b.log, Registry: b.registry})
	if err != nil {
		return err
	}
	return b.work.Register(webhook.DeliveryWork, deliveries, deliveries.Policy())
}

// buildAPIs creates the APIs of tenants: REST, TUS and MCP, with their reference.
func (b *builder) buildAPIs() error {
	preferences := settings.NewService(b.cached)
	routesCfg := b.Routes
	routesCfg.BaseURL, routesCfg.Brand = b.Server.BaseURL, b.Server.Brand
	var err error
	if b.events, err = journal.NewFeed(b.Events, b.store.Journal, b.registry); err != nil {
		return err
	}
	b.activity = journal.NewActivity(b.store.Journal)
	if b.approvals, err = approval.New(approval.Deps{Store: b.store.Approvals, Media: b.items, Settings: preferences, NewID: b.store.Cell().NewID,
		Ready: func() error { return cmp.Or(b.drained.Err(), b.guard.Writable()) }, Queued: func() { b.work.Wake(approval.Work) }, Emails: b.ownersDecide(), EmailQueued: func() { b.work.Wake(approval.EmailWork) }, Log: b.log, Registry: b.registry}); err != nil {
		return err
	}
	if err := b.work.Register(approval.Work, b.approvals, b.approvals.Policy()); err != nil {
		return err
	}
	routes, err := rest.New(routesCfg, rest.Deps{Media: b.items, Items: b.itemCache, Uploads: b.uploads, Settings: preferences, Auth: b.auth, Documents: b.documents, Limits: b.limits, Fetch: b.fetches, Events: b.events})
	if err != nil {
		return err
	}
	b.tus, err = tus.New(b.TUS, tus.Deps{Uploads: b.uploads, Auth: b.auth, Documents: b.documents, Locks: b.locks, BaseURL: b.Server.BaseURL, Brand: b.Server.Brand})
	if err != nil {
		return err
	}
	shown, err := pages.New(b.Pages)
	if err != nil {
		return usageError{err}
	}
	if b.Mail.Enabled() {
		b.shown = shown
	}
	if b.handovers, err = handover.New(b.Handover, handover.Deps{Store: b.store.Handovers, Drained: b.drained.Done(), Now: time.Now}); err != nil {
		return usageError{err}
	}
	uploadPage := webupload.New(webupload.Deps{Requests: b.handovers, Auth: b.auth, Uploads: b.uploads, Items: b.items, Pages: shown, Assets: !b.Mail.Enabled(), APIs: []func(chi.Router){routes.Mount, b.tus.Mount}, BaseURL: b.Server.BaseURL})
	found, err := newListing(b.Listing, b.Server, b.Pages, b.shown)
	if err != nil {
		return usageError{err}
	}
	toolsCfg := b.Tools
	toolsCfg.BaseURL, toolsCfg.DraftTTL, toolsCfg.Version = b.Server.BaseURL, b.Drafts.DraftTTL, versionText()
	toolsCfg.Title, toolsCfg.Website = b.Pages.Name, b.Pages.Website
	for _, icon := range iconsOf(b.Server.BaseURL, b.shown) {
		toolsCfg.Icons = append(toolsCfg.Icons, sdk.Icon{Source: icon.URL, MIMEType: icon.Type, Sizes: icon.Sizes})
	}
	toolsDeps := mcp.Deps{Media: b.items, Items: b.itemCache, Uploads: b.uploads, Settings: preferences, Fetch: b.fetches, Activity: b.activity, Approvals: b.asks(), Handover: b.handovers, Auth: b.auth, Documents: b.documents, Origins: b.allowed, Limits: b.limits}
	if b.Images.Enabled {
		toolsDeps.Views = b.pictures
	}
	tools, err := mcp.New(toolsCfg, toolsDeps)
	if err != nil {
		return err
	}
	if err := tools.Register(b.registry); err != nil {
		return err
	}
	reference, err := apidocs.New()
	b.mounts = []func(chi.Router){routes.Mount, b.tus.Mount, tools.Mount, uploadPage.Mount, found.Mount, b.files.Mount, reference.Mount}
	return err
}

// asks returns what records changes that wait for an owner; nil without the page on which the owner decides.
func (b *builder) asks() *approval.Service {
	if !b.ownersDecide() {
		return nil
	}
	return b.approvals
}

// ownersDecide reports whether there is the page on which an owner decides.
func (b *builder) ownersDecide() bool { return b.Mail.Enabled() && b.Files.Enabled }

// buildLogin creates the authorization server with its pages, the files page, and what sends the e-mails of logins, if login is enabled.
func (b *builder) buildLogin() error {
	if !b.Mail.Enabled() {
		return nil
	}
	logins, err := b.buildLogins()
	if err != nil {
		return err
	}
	deps := oauthhttp.Deps{OAuth: logins, Pages: b.shown, Limits: b.limits, BaseURL: b.Server.BaseURL, Name: b.Pages.Name, Privacy: b.Pages.Privacy, Terms: b.Pages.Terms, Now: time.Now}
	if b.Files.Enabled {
		deps.Files = webfiles.OwnerPages()
	}
	login, err := oauthhttp.New(b.OAuth, deps)
	if err != nil {
		return err
	}
	b.mounts = append(b.mounts, login.Mount)
	if !b.Files.Enabled {
		return nil
	}
	page, err := webfiles.New(b.Files, webfiles.Deps{Media: b.items, Uploads: b.uploads, Activity: b.activity, Approvals: b.approvals, URLs: b.files.URLs(), Links: b.files.URLs(), Inline: delivery.IsInline, Objects: b.objects, ArchiveRate: b.Upload.UploadMinTransferRate, Signatures: b.signUploads, Settings: b.cached, StoreOrigin: b.files.StoreOrigin, DraftTTL: b.Drafts.DraftTTL,
		CheckWritable: b.auth.CheckWritable, Login: login, OAuth: logins, Pages: b.shown, Limits: b.limits, BaseURL: b.Server.BaseURL, Now: time.Now})
	if err != nil {
		return err
	}
	b.mounts = append(b.mounts, page.Mount)
	return nil
}

// signUploads issues an upload signature for the script of the files page, under the tool policy of the account as the page.
func (b *builder) signUploads(r *http.Request, p account.Principal, seal bool) (header, signature string, expires time.Time, err error) {
	signature, expires, err = b.auth.IssueWithin(r.Context(), auth.Identity{Principal: p, Assistant: true}, api.SignatureRequest{Seal: &seal}, webfiles.SignatureTTL)
	return b.auth.SignatureHeader, signature, expires, err
}

// buildLogins creates the logins, and the task that sends their e-mails.
func (b *builder) buildLogins() (*oauth.Service, error) {
	signer, err := b.secret.Signer(keys.PurposeOAuth)
	if err != nil {
		return nil, err
	}
	encrypter, err := b.secret.Encrypter(keys.PurposeEmailOutbox)
	if err != nil {
		return nil, err
	}
	logins, err := oauth.NewService(b.Logins, oauth.Deps{Store: b.store.Logins, Signer: signer, Encrypter: encrypter, EmailQueued: func() { b.work.Wake(oauth.EmailWork) }, Now: time.Now, Log: b.log})
	if err != nil {
		return nil, err
	}
	if err := logins.Register(b.registry); err != nil {
		return nil, err
	}
	if b.mail, err = mail.NewSender(b.Mail, b.Pages.Name, b.Server.BaseURL, logins, time.Now, b.log); err != nil {
		return nil, usageError{err}
	}
	if err := b.work.Register(gate.NoticeWork, mail.Notices{Sender: b.mail}, b.Mail.Policy()); err != nil {
		return nil, err
	}
	if err := b.work.Register(approval.EmailWork, mail.Approvals{Sender: b.mail}, b.Mail.Policy()); err != nil {
		return nil, err
	}
	policy := b.Mail.Policy()
	policy.Enqueue = b.store.Tasks.AdoptEmails
	return logins, b.work.Register(oauth.EmailWork, b.mail, policy)
}

// buildServer creates the server of all routes, with its metrics and checks.
func (b *builder) buildServer() error {
	if err := b.registry.Register(inventory.NewCollector(b.store.Installations, b.instance.ID(), b.Accounts.Limit(), time.Now, b.log)); err != nil {
		return err
	}
	accounts, err := newAccountMetrics(b.Accounts, b.registry)
	if err != nil {
		return err
	}
	checks := []server.Check{
		{Name: "database", Run: b.store.Ping},
		{Name: "schema", Run: b.store.CheckSchema},
		{Name: "changes", Run: func(ctx context.Context) error { return changesCheck(ctx, b.store) }},
		{Name: "objects", Run: func(context.Context) error { return objectsCheck(b.stores) }},
		{Name: "images", Run: func(context.Context) error { return server.Degraded(b.images.Check()) }},
		{Name: "installation", Run: func(context.Context) error { return b.guard.Writable() }},
	}
	b.server, err = server.New(b.Server, server.Deps{Origins: b.allowed, Accounts: accounts, Mounts: b.mounts, Limits: b.limits, Checks: checks, Registry: b.registry, Tracer: b.traces.Tracer(), Log: b.log})
	return err
}
