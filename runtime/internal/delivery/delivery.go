// Package delivery serves the files of items, and makes the documents and addresses
// that lead to them. REST calls Document for its answers; the routes under
// /media/file are served here, by range reads from the object store or by sending
// the client there.
package delivery

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
)

// Mode says who sends the bytes of a file.
type Mode string

// The modes of delivery.
const (
	// Stream sends them from here.
	Stream Mode = "stream"
	// Redirect sends the client to the object store, with a permission for one object
	// and a short while.
	Redirect Mode = "redirect"
)

// Config bounds delivery. The tags are flag and environment names.
type Config struct {
	TTL            time.Duration `env:"SERVICE_DELIVERY_TTL" default:"1h" help:"How long the address of a draft's or a private item's file is valid, at least; SERVICE_DELIVERY_STEP adds to it."`
	Step           time.Duration `env:"SERVICE_DELIVERY_STEP" default:"1h" help:"Signed addresses expire at multiples of this time, so that a file keeps its address, and browsers their copy, for as long. 0 = every second."`
	PublicMaxAge   time.Duration `env:"SERVICE_PUBLIC_MAX_AGE" default:"1h" help:"How long caches may keep the file of a public item; also how long they may go on serving it after a delete."`
	Mode           Mode          `env:"SERVICE_DELIVERY_MODE" enum:"stream,redirect" default:"stream" help:"Who sends the bytes of files: this process (stream), or the object store, to which clients are redirected (redirect)."`
	RedirectTTL    time.Duration `env:"SERVICE_DELIVERY_REDIRECT_TTL" default:"1m" help:"How long a client may begin the download that it was redirected to."`
	PublicEndpoint string        `env:"SERVICE_S3_PUBLIC_ENDPOINT" help:"The S3 endpoint as clients reach it, for redirects; by default as this process does."`
	MaxDownloads   int           `env:"SERVICE_MAX_DOWNLOADS" default:"512" help:"Files sent at once by this process; each holds a connection to S3 and some 200 KiB of memory. 0 = no limit."`
	DownloadShare  int           `name:"download-per-client-percent" env:"SERVICE_DOWNLOAD_PER_CLIENT_PERCENT" default:"25" help:"Percent of them that one client address (IPv6: one /64) may hold. Behind a proxy that SERVICE_TRUSTED_PROXIES does not name, all clients are one address: then set 100."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case c.TTL < time.Second || c.TTL > 7*24*time.Hour:
		return fmt.Errorf("SERVICE_DELIVERY_TTL must be from 1s to 168h, not %s", c.TTL)
	case c.Step < 0 || c.Step > 24*time.Hour || c.Step%time.Second != 0:
		return fmt.Errorf("SERVICE_DELIVERY_STEP must be from 0s to 24h, in whole seconds, not %s", c.Step)
	case c.PublicMaxAge < 0:
		return fmt.Errorf("SERVICE_PUBLIC_MAX_AGE must not be negative, but is %s", c.PublicMaxAge)
	case c.Mode != Stream && c.Mode != Redirect:
		return fmt.Errorf("SERVICE_DELIVERY_MODE must be stream or redirect, not %q", c.Mode)
	case c.Mode == Redirect && (c.RedirectTTL < 5*time.Second || c.RedirectTTL > time.Hour):
		return fmt.Errorf("SERVICE_DELIVERY_REDIRECT_TTL must be from 5s to 1h, not %s", c.RedirectTTL)
	case c.MaxDownloads < 0 || c.MaxDownloads > 1e6:
		return fmt.Errorf("SERVICE_MAX_DOWNLOADS must be from 0 to 1000000, not %d", c.MaxDownloads)
	case c.MaxDownloads > 0 && (c.DownloadShare < 1 || c.DownloadShare > 100):
		return fmt.Errorf("SERVICE_DOWNLOAD_PER_CLIENT_PERCENT must be from 1 to 100, not %d", c.DownloadShare)
	}
	return nil
}

// Items finds what is to be served. media.Service implements it.
type Items interface {
	ForDelivery(ctx context.Context, id uuid.UUID) (media.Item, string, error)
}

// Objects reads what is to be served. objectstore.Store implements it.
type Objects interface {
	Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
}

// Presigner makes addresses at the object store. objectstore.Presigner implements it.
type Presigner interface {
	// Presign returns an address that opens one object by one method until ttl has
	// passed. The store's answer carries what response says.
	Presign(ctx context.Context, method, bucket, key string, ttl time.Duration, response map[string]string) (string, error)
}

// Delivery serves files. It is safe for concurrent use.
type Delivery struct {
	items     Items
	objects   Objects
	urls      *URLs
	downloads *downloadLimiter
	presign   Presigner // nil unless clients are redirected
	ttl       time.Duration
	maxAge    time.Duration
	now       func() time.Time
	log       *slog.Logger
}

// New joins delivery to its stores. Addresses begin with baseURL. presigner is used,
// and needed, when clients are redirected.
func New(cfg Config, baseURL string, secret keys.Secret, items Items, objects Objects, presigner Presigner, now func() time.Time, log *slog.Logger) (*Delivery, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	signer, err := secret.Signer(keys.PurposeDeliveryURL)
	if err != nil {
		return nil, err
	}
	d := &Delivery{items: items, objects: objects, downloads: newDownloadLimiter(cfg), maxAge: cfg.PublicMaxAge, now: now, log: log,
		urls: &URLs{base: strings.TrimRight(baseURL, "/"), ttl: cfg.TTL, step: max(cfg.Step, time.Second), signer: signer, now: now}}
	if cfg.Mode == Redirect {
		d.presign, d.ttl = presigner, cfg.RedirectTTL
	}
	return d, nil
}

// URLs returns the URLs that Delivery serves.
func (d *Delivery) URLs() *URLs { return d.urls }

// Mount adds the routes.
func (d *Delivery) Mount(r chi.Router) {
	r.Get(route, d.serve)
	r.Head(route, d.serve)
}

const route = api.FilePath + "{mediaId}/{variant}/{name}"

// serve answers GET and HEAD.
func (d *Delivery) serve(w http.ResponseWriter, r *http.Request) {
	found, err := d.find(r)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	if d.presign != nil {
		d.redirect(w, r, found)
		return
	}
	d.send(w, r, found)
}

// found is a file that the client may have.
type found struct {
	item   media.Item
	object media.Object
	bucket string
	maxAge time.Duration
	left   time.Duration // until the address ends; of no meaning when public
	public bool
}

// find looks the file up and decides whether the client may have it. Whoever may
// not learns nothing: without a signature every file that is not open to all is missing,
// and a signature that is wrong is wrong whether the file exists or not.
func (d *Delivery) find(r *http.Request) (found, error) {
	missing := fault.New(fault.NotFound, "there is no such file")
	id, err := uuid.Parse(chi.URLParam(r, "mediaId"))
	if err != nil {
		return found{}, missing
	}
	variant := media.Variant(chi.URLParam(r, "variant"))
	item, bucket, err := d.items.ForDelivery(r.Context(), id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return found{}, err
	}
	object, exists := item.Objects.Find(variant)
	exists = exists && err == nil
	if exists && isPublic(item, variant) {
		return found{item: item, object: object, bucket: bucket, maxAge: d.maxAge, public: true}, nil
	}
	query := r.URL.Query()
	if !query.Has("signature") && !query.Has("expires") {
		return found{}, missing
	}
	left, err := d.urls.verify(id, variant, query.Get("expires"), query.Get("signature"))
	if err != nil {
		return found{}, err
	}
	if !exists {
		return found{}, missing
	}
	return found{item: item, object: object, bucket: bucket, maxAge: left, left: left}, nil
}
