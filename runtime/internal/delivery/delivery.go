// Package delivery serves the files of items and the pictures of presets, and builds their URLs. The routes under
// /media/file are served by range reads from the object store, or by a redirect to it.
package delivery

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// Mode is how files are sent.
type Mode string

// The modes of delivery.
const (
	// Stream sends files through this process.
	Stream Mode = "stream"
	// Redirect redirects clients to the object store, with a presigned URL of one object that
	// expires soon.
	Redirect Mode = "redirect"
)

// Config configures delivery. The tags are flag and environment names.
type Config struct {
	TTL                      time.Duration `env:"SERVICE_DELIVERY_TTL" default:"1h" help:"Minimum validity of a signed URL, for the file of a draft or private item. The URL is valid for up to SERVICE_DELIVERY_STEP longer."`
	Step                     time.Duration `env:"SERVICE_DELIVERY_STEP" default:"1h" help:"Signed URLs expire at multiples of this time, from 0s to 24h. Within it a file has one URL, so browsers use their cached copy. 0s = one second."`
	PublicMaxAge             time.Duration `env:"SERVICE_PUBLIC_MAX_AGE" default:"1h" help:"How long caches may keep the file of a public item (max-age). A cache may serve it for as long after its deletion."`
	Mode                     Mode          `env:"SERVICE_DELIVERY_MODE" enum:"stream,redirect" default:"stream" help:"How files are sent: through this process (stream), or by a redirect to S3 (redirect)."`
	RedirectTTL              time.Duration `env:"SERVICE_DELIVERY_REDIRECT_TTL" default:"1m" help:"Validity of the presigned URL of a redirect; at most 3m for pictures of presets."`
	PublicEndpoint           string        `env:"SERVICE_S3_PUBLIC_ENDPOINT" help:"URL of S3 as clients reach it, for redirects; by default SERVICE_S3_ENDPOINT."`
	MaxDownloads             int           `env:"SERVICE_MAX_DOWNLOADS" default:"512" help:"Download slots of a process. Each holds a connection to S3 and about 200 KiB of memory. 0 = no limit."`
	SmallFiles               int64         `env:"SERVICE_SMALL_FILE_CACHE" default:"16777216" help:"Memory for files of up to 64 KiB that were downloaded last, such as thumbnails, in bytes, from 1048576 to 17179869184. 0 = they are read from S3 each time."`
	DownloadPerClientPercent int           `name:"download-per-client-percent" env:"SERVICE_DOWNLOAD_PER_CLIENT_PERCENT" default:"25" help:"Percent of SERVICE_MAX_DOWNLOADS that one client IP (IPv6: one /64) may hold; 100 = no limit, for a proxy that SERVICE_TRUSTED_PROXIES does not name."`
}

// Bounds of Config.SmallFiles.
const (
	minSmallFiles = 1 << 20
	maxSmallFiles = 16 << 30
)

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
	case c.RedirectTTL < 0, c.Mode == Redirect && (c.RedirectTTL < 5*time.Second || c.RedirectTTL > time.Hour):
		return fmt.Errorf("SERVICE_DELIVERY_REDIRECT_TTL must be from 5s to 1h, not %s", c.RedirectTTL)
	case c.SmallFiles != 0 && (c.SmallFiles < minSmallFiles || c.SmallFiles > maxSmallFiles):
		return fmt.Errorf("SERVICE_SMALL_FILE_CACHE must be from %d to %d, or 0, not %d", minSmallFiles, int64(maxSmallFiles), c.SmallFiles)
	case c.MaxDownloads < 0 || c.MaxDownloads > 1e6:
		return fmt.Errorf("SERVICE_MAX_DOWNLOADS must be from 0 to 1000000, not %d", c.MaxDownloads)
	case c.MaxDownloads > 0 && (c.DownloadPerClientPercent < 1 || c.DownloadPerClientPercent > 100):
		return fmt.Errorf("SERVICE_DOWNLOAD_PER_CLIENT_PERCENT must be from 1 to 100, not %d", c.DownloadPerClientPercent)
	}
	return nil
}

// Items finds items. media.Service implements it.
type Items interface {
	ForDelivery(ctx context.Context, id uuid.UUID) (media.Item, media.Owner, error)
}

// Objects reads objects. objectstore.Store implements it.
type Objects interface {
	Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
}

// Presigner builds URLs at the object store. objectstore.Presigner implements it.
type Presigner interface {
	// Presign returns a URL that opens one object by one method until ttl has passed.
	// response are headers of the object store's response.
	Presign(ctx context.Context, method, bucket, key string, ttl time.Duration, response map[string]string) (string, error)
}

// Delivery serves files. It is safe for concurrent use.
type Delivery struct {
	items     Items
	current   Items
	objects   Objects
	small     *smallObjects
	urls      *URLs
	downloads *downloadLimiter
	lost      prometheus.Counter
	spliced   prometheus.Counter // bytes
	settings  Settings
	presign   Presigner // nil unless clients are redirected
	present   *presence // with presign
	cdn       *CDN      // nil = there is none that purges
	limits    *ratelimit.Limiter

	renditions  Renditions
	images      Images
	derivatives Derivatives
	ttl         time.Duration
	maxAge      time.Duration
	now         func() time.Time
	log         *slog.Logger
}

// Deps are what Delivery uses.
type Deps struct {
	// BaseURL is the prefix of the URLs of files.
	BaseURL string
	Secret  keys.Secret
	// Items may be a cache; Current is not. nil = Items.
	Items, Current Items
	Objects        Objects
	// Presigner is required in the mode Redirect.
	Presigner Presigner
	// Registry takes the metrics of downloads; nil = they are not exported.
	Registry prometheus.Registerer
	// Settings are those of accounts.
	Settings Settings
	// Limits bounds the pictures that are made for a client IP; nil = no limit.
	Limits *ratelimit.Limiter
	// Renditions and Images make the pictures of presets; nil = there are none.
	Renditions Renditions
	Images     Images
	// CDN is nil without one that purges what has changed.
	CDN *CDN
	// Derivatives makes thumbnails that are to be made; nil = they are not found until then.
	Derivatives Derivatives
	Now         func() time.Time
	Log         *slog.Logger
}

// New returns a Delivery that uses deps.
func New(cfg Config, deps Deps) (*Delivery, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	signer, err := deps.Secret.Signer(keys.PurposeDeliveryURL)
	if err != nil {
		return nil, err
	}
	downloads, err := newDownloadLimiter(cfg, deps.Registry)
	if err != nil {
		return nil, err
	}
	small, err := newSmallObjects(deps.Objects, cfg.SmallFiles, deps.Registry)
	if err != nil {
		return nil, err
	}
	lost := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mediastack_files_lost_total", Help: "Downloads of files that the object store has lost: the item is there, its object is not (500 `file_lost`; the log has the ids).",
	})
	spliced := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mediastack_downloads_spliced_bytes_total", Help: "Bytes of files that the kernel passed from the object store to clients, without a copy in the process.",
	})
	if deps.Registry != nil {
		for _, counter := range []prometheus.Counter{lost, spliced} {
			if err := deps.Registry.Register(counter); err != nil {
				return nil, err
			}
		}
	}
	d := &Delivery{lost: lost, spliced: spliced, items: deps.Items, current: cmp.Or(deps.Current, deps.Items), objects: deps.Objects, small: small, downloads: downloads, maxAge: cfg.PublicMaxAge, now: deps.Now, log: deps.Log, settings: deps.Settings, limits: deps.Limits, cdn: deps.CDN,
		urls: &URLs{base: strings.TrimRight(deps.BaseURL, "/"), ttl: cfg.TTL, step: max(cfg.Step, time.Second), signer: signer, now: deps.Now}}
	if deps.Renditions != nil {
		d.renditions, d.images, d.derivatives = deps.Renditions, deps.Images, deps.Derivatives
	}
	if cfg.Mode == Redirect {
		d.presign, d.ttl = deps.Presigner, cfg.RedirectTTL
		d.present = newPresence(deps.Now)
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

// serve handles GET and HEAD.
func (d *Delivery) serve(w http.ResponseWriter, r *http.Request) {
	limit := d.pictureLimitOf(w, r)
	limit.show(w.Header())
	file, err := d.resolveFile(r)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	if file.pending {
		if file, err = d.makeThumbnail(w, r, file); err != nil {
			httpapi.WriteError(w, r, err)
			return
		}
	}
	httpapi.FromContext(r.Context()).Account = accountmetrics.Account{ID: file.item.AccountID, Namespace: file.owner.Namespace, Name: file.owner.Name}
	if file.picture != nil {
		defer func() { file.result.Release() }()
		if file.picture.negotiated {
			w.Header().Add("Vary", "Accept")
		}
		file.limit, file.picture.admit = limit, limit.admit
		if !file.public && showsImage(r) {
			file.picture.admit = limit.count
		}
		err := d.makePicture(r, &file)
		limit.show(w.Header())
		if err != nil && !d.substitute(r, &file, err) {
			httpapi.WriteError(w, r, err)
			return
		}
	}
	if d.presign != nil && file.object.Key != "" {
		err := d.findStored(r, &file)
		limit.show(w.Header())
		if err != nil {
			httpapi.WriteError(w, r, err)
			return
		}
	}
	if err := d.authorizeAgain(r, &file); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	if file.substitute != "" {
		if !file.public {
			httpapi.WriteError(w, r, file.rejected)
			return
		}
		w.Header().Set(substituteHeader, file.substitute)
	}
	if d.presign != nil && file.object.Key != "" {
		d.redirect(w, r, file)
		return
	}
	d.send(w, r, file)
}

// resolvedFile is a file that the client may read.
type resolvedFile struct {
	item    media.Item
	variant media.Variant
	object  media.Object
	// data are the bytes of the object if this process has them; nil = read them from the object store.
	data   []byte
	owner  media.Owner
	maxAge time.Duration
	// expiresIn is the remaining validity of a signed URL; 0 = the file is public.
	expiresIn time.Duration
	public    bool
	// resolved is when the file was looked up, and authorized, when the client was last authorized.
	resolved, authorized time.Time

	// pending is set for a thumbnail that is to be made.
	pending bool
	// picture is nil for an object of the item. The others are those of the rendition; again is set when it replaces one whose object
	// was missing.
	picture *picture
	limit   *pictureLimit
	request rendition.Request
	result  rendition.Result
	again   bool
	// substitute is what is sent instead of the picture, and rejected why; empty and nil for the picture itself.
	substitute string
	rejected   error
}

var errFileNotFound = fault.New(fault.NotFound, "file not found")

// resolveFile looks a file up and authorizes the client. An unauthorized client can't
// tell whether a file exists: without a signature a private file is reported as not found,
// and an invalid signature is rejected for files that don't exist too.
func (d *Delivery) resolveFile(r *http.Request) (resolvedFile, error) {
	return d.resolveFileOf(r, d.items)
}

func (d *Delivery) resolveFileOf(r *http.Request, items Items) (resolvedFile, error) {
	id, err := uuid.Parse(chi.URLParam(r, "mediaId"))
	if err != nil {
		return resolvedFile{}, errFileNotFound
	}
	variant, ok := variantOf(r)
	if !ok {
		return resolvedFile{}, errFileNotFound
	}
	item, owner, err := items.ForDelivery(r.Context(), id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return resolvedFile{}, err
	}
	now := time.Now()
	file, exists := resolvedFile{item: item, variant: variant, owner: owner, resolved: now, authorized: now}, false
	originals := settings.OriginalsPublic
	if err == nil {
		if exists, originals, err = d.find(r.Context(), &file); err != nil {
			return resolvedFile{}, err
		}
	}
	if exists && isPublic(item, variant, originals) {
		file.maxAge, file.public = file.maxAgeOf(d.maxAge), true
		return file, nil
	}
	query := r.URL.Query()
	if !query.Has("signature") && !query.Has("expires") {
		return resolvedFile{}, errFileNotFound
	}
	expiresIn, err := d.urls.verify(id, variant, query.Get("expires"), query.Get("signature"))
	if err != nil {
		return resolvedFile{}, err
	}
	if !exists {
		return resolvedFile{}, errFileNotFound
	}
	file.maxAge, file.expiresIn = file.maxAgeOf(expiresIn), expiresIn
	return file, nil
}

// pendingMaxAge is how long caches may keep the original of an item whose conversion is to be made, as its file.
const pendingMaxAge = time.Minute

// maxAgeOf returns how long caches may keep the file, which otherwise do so for maxAge. The original ends to be public with the conversion,
// whichever address it had.
func (f *resolvedFile) maxAgeOf(maxAge time.Duration) time.Duration {
	if f.item.Derivatives == media.DerivativesPending && (f.variant == media.Shown || f.variant == media.Original) {
		return min(maxAge, pendingMaxAge)
	}
	return maxAge
}

// authorizeAgainAfter is for how long an authorization holds before the response begins.
const authorizeAgainAfter = 50 * time.Millisecond

// authorizeAgain authorizes the client of a picture again if it has waited for it: meanwhile the item may have been deleted, or made private, and
// that was acknowledged.
func (d *Delivery) authorizeAgain(r *http.Request, file *resolvedFile) error {
	if file.picture == nil || time.Since(file.authorized) < authorizeAgainAfter {
		return nil
	}
	now, err := d.resolveFile(r)
	if err == nil {
		file.maxAge, file.expiresIn, file.public, file.authorized = now.maxAge, now.expiresIn, now.public, now.authorized
	}
	return err
}

// find sets the object or the picture that the variant of a file names, and reports whether there is one. The settings are read
// only where they matter.
func (d *Delivery) find(ctx context.Context, file *resolvedFile) (exists bool, originals settings.Originals, err error) {
	if file.variant == media.Thumbnail && file.item.Derivatives == media.DerivativesPending {
		file.pending = d.derivatives != nil
		return file.pending, settings.OriginalsPublic, nil
	}
	file.object, exists = file.item.Object(file.variant)
	wanted, isAddress := parseAddress(file.variant)
	if exists && !isPublic(file.item, file.variant, settings.OriginalsPublic) || exists && file.object.Variant != media.Original || !exists && (!isAddress || d.images == nil) {
		return exists, settings.OriginalsPublic, nil
	}
	layers, err := d.settings.Get(ctx, file.item.AccountID)
	if err != nil {
		return false, "", err
	}
	originals, _ = layers.Originals()
	if exists {
		return true, originals, nil
	}
	found, exists := wanted.find(layers, d.images, file.item)
	if exists {
		file.picture = &found
	}
	return exists, originals, nil
}
