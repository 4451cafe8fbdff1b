package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/cdnclient"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/itemcache"
	"mediastack.dev/runtime/internal/listing"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/remotefile"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/internal/scanner"
	"mediastack.dev/runtime/internal/server"
	"mediastack.dev/runtime/internal/traceexport"
	"mediastack.dev/runtime/internal/tus"
	"mediastack.dev/runtime/internal/webfiles"
	"mediastack.dev/runtime/internal/webhookclient"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/webhook"
)

type serveCommand struct {
	Server   server.Config         `embed:"" group:"Server"`
	Auth     auth.Config           `embed:"" group:"Credentials"`
	Upload   upload.Config         `embed:"" group:"Media"`
	Media    media.Config          `embed:"" group:"Media"`
	Drafts   media.DraftConfig     `embed:"" group:"Media"`
	Removals media.RemovalConfig   `embed:"" group:"Media"`
	Images   imaging.Config        `embed:"" prefix:"image-" group:"Images"`
	Facts    media.FactsConfig     `embed:"" group:"Images"`
	Pictures rendition.Config      `embed:"" group:"Images"`
	Eager    rendition.EagerConfig `embed:"" group:"Images"`
	Delivery delivery.Config       `embed:"" prefix:"delivery-" group:"Delivery"`
	Cache    itemcache.Config      `embed:"" group:"Delivery"`
	CDN      cdnclient.Config      `embed:"" group:"CDN"`
	TUS      tus.Config            `embed:"" group:"Media"`
	Tools    mcp.Config            `embed:"" group:"Server"`
	Listing  listing.Config        `embed:"" group:"Server"`
	Routes   rest.Config           `embed:"" group:"Limits"`
	Events   journal.Config        `embed:"" group:"Limits"`
	Fetch    fetch.Config          `embed:"" group:"Uploads from a URL"`
	Remote   remotefile.Config     `embed:"" group:"Uploads from a URL"`
	Webhooks webhook.Config        `embed:"" group:"Webhooks"`
	Sender   webhookclient.Config  `embed:"" group:"Webhooks"`
	Handover handover.Config       `embed:"" group:"Media"`
	Gate     gate.Config           `embed:"" group:"Gate"`
	Scanners scanner.Config        `embed:"" group:"Gate"`
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
	svc, err := (&builder{serveCommand: c, drained: ctx, store: store, objects: objects, images: images, traces: traces, registry: registry, log: log}).build()
	if err != nil {
		return err
	}
	if err := svc.server.Listen(ctx); err != nil {
		return err
	}
	log.InfoContext(ctx, "starting", "version", versionText(), "logins", c.Mail.Enabled(), "traces", traces.Enabled())

	err = c.serve(ctx, svc)
	log.InfoContext(ctx, "shutdown complete")
	return err
}

// serve runs the components until ctx ends, and drains them: the requests first, then what runs beside them, then the lease of the process.
func (c *serveCommand) serve(ctx context.Context, svc components) error {
	// Requests that run after SIGTERM still need the key cache and last-used updates.
	// Resumable uploads are interrupted, and waits for events ended, once no new requests arrive.
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
	drain := func() { svc.tus.Drain(); svc.events.Drain() }
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.Server.DrainDelay, drain) })()
	err := svc.server.Run(ctx)
	stop()
	backgroundErr := background.Wait()
	endLease()
	leaseErr := lease.Wait()
	if svc.mail != nil {
		svc.mail.Close()
	}
	return cmp.Or(err, backgroundErr, leaseErr)
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
