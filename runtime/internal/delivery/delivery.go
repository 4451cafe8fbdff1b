// Package delivery serves the files of items, and makes the documents and addresses
// that lead to them. REST calls Document for its answers; the routes under
// /media/file are served here, by range reads from the object store.
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
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/exchange"
	"mediastack.dev/runtime/media"
)

// Config bounds delivery. The tags are flag and environment names.
type Config struct {
	TTL          time.Duration `env:"SERVICE_DELIVERY_TTL" default:"1h" help:"How long the address of a draft's or a private item's file is valid."`
	PublicMaxAge time.Duration `env:"SERVICE_PUBLIC_MAX_AGE" default:"1h" help:"How long caches may keep the file of a public item; also how long they may go on serving it after a delete."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.TTL < time.Second || c.TTL > 7*24*time.Hour {
		return fmt.Errorf("SERVICE_DELIVERY_TTL must be from 1s to 168h, not %s", c.TTL)
	}
	if c.PublicMaxAge < 0 {
		return fmt.Errorf("SERVICE_PUBLIC_MAX_AGE must not be negative, but is %s", c.PublicMaxAge)
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

// Delivery serves files. It is safe for concurrent use.
type Delivery struct {
	items   Items
	objects Objects
	links   *Links
	maxAge  time.Duration
	now     func() time.Time
	log     *slog.Logger
}

// New joins delivery to its stores. Addresses begin with baseURL.
func New(cfg Config, baseURL string, secret auth.Secret, items Items, objects Objects, now func() time.Time, log *slog.Logger) (*Delivery, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	signer, err := secret.Signer(auth.ForDelivery)
	if err != nil {
		return nil, err
	}
	return &Delivery{items: items, objects: objects, maxAge: cfg.PublicMaxAge, now: now, log: log,
		links: &Links{base: strings.TrimRight(baseURL, "/"), ttl: cfg.TTL, signer: signer, now: now}}, nil
}

// Links makes the addresses that Delivery serves.
func (d *Delivery) Links() *Links { return d.links }

// Mount adds the routes.
func (d *Delivery) Mount(r chi.Router) {
	r.Get(route, d.serve)
	r.Head(route, d.serve)
}

const route = prefix + "{mediaId}/{variant}/{name}"

// serve answers GET and HEAD.
func (d *Delivery) serve(w http.ResponseWriter, r *http.Request) {
	found, err := d.find(r)
	if err != nil {
		exchange.Fail(w, r, err)
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
	public bool
}

// find looks the file up and decides whether the client may have it. Whoever may
// not learns nothing: without a signature every file that is not public is missing,
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
	if exists && item.Access == media.Public && !item.Draft() {
		return found{item: item, object: object, bucket: bucket, maxAge: d.maxAge, public: true}, nil
	}
	query := r.URL.Query()
	if !query.Has("signature") && !query.Has("expires") {
		return found{}, missing
	}
	left, err := d.links.verify(id, variant, query.Get("expires"), query.Get("signature"))
	if err != nil {
		return found{}, err
	}
	if !exists {
		return found{}, missing
	}
	return found{item: item, object: object, bucket: bucket, maxAge: min(left, signedMaxAge)}, nil
}

// signedMaxAge bounds how long a browser keeps a file that is not public.
const signedMaxAge = 5 * time.Minute
