package media

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/settings"
)

// Config bounds the use cases. The tags are flag and environment names.
type Config struct {
	MaxUploads              int           `env:"SERVICE_MAX_UPLOADS" default:"128" help:"Upload slots: uploads that a process receives at once. Each buffers up to 1.25 MiB, and more from SERVICE_UPLOAD_MEMORY."`
	UploadMemory            int64         `env:"SERVICE_UPLOAD_MEMORY" default:"268435456" help:"Bytes of memory for uploads over 1 MiB, at least 10 MiB. Each uses up to 10 MiB; others wait."`
	UploadPerAccountPercent int           `name:"upload-per-account-percent" env:"SERVICE_UPLOAD_PER_ACCOUNT_PERCENT" default:"75" help:"Percent of upload slots and memory that one account may hold."`
	UploadQueue             int           `env:"SERVICE_UPLOAD_QUEUE" default:"256" help:"Uploads that may wait for a slot; more are rejected with 429. One account may have half of them, and always one."`
	UploadQueueTimeout      time.Duration `name:"upload-queue-timeout" env:"SERVICE_UPLOAD_QUEUE_TIMEOUT" default:"60s" help:"How long an upload waits for a slot, or for memory."`
	UploadMinTransferRate   int64         `name:"upload-min-transfer-rate" env:"SERVICE_UPLOAD_MIN_TRANSFER_RATE" default:"65536" help:"Minimum transfer rate of an upload, in bytes per second, while others wait for its slot or memory; 0 = none."`
	UploadLease             time.Duration `env:"SERVICE_UPLOAD_LEASE" default:"15m" help:"How long an upload may make no progress before the purge considers it dead."`
	ResumableTTL            time.Duration `env:"SERVICE_RESUMABLE_TTL" default:"24h" help:"How long a resumable upload may make no progress before it expires, at least 1m."`
	DeleteTimeout           time.Duration `env:"SERVICE_DELETE_TIMEOUT" default:"10s" help:"How long a delete waits for S3 before it leaves the objects to the purge."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case c.MaxUploads < 1:
		return fmt.Errorf("SERVICE_MAX_UPLOADS must be at least 1, not %d", c.MaxUploads)
	case c.UploadMemory < bufferSize:
		return fmt.Errorf("SERVICE_UPLOAD_MEMORY must be at least %d, not %d", bufferSize, c.UploadMemory)
	case c.UploadPerAccountPercent < 1 || c.UploadPerAccountPercent > 100:
		return fmt.Errorf("SERVICE_UPLOAD_PER_ACCOUNT_PERCENT must be from 1 to 100, not %d", c.UploadPerAccountPercent)
	case c.UploadQueue < 0:
		return fmt.Errorf("SERVICE_UPLOAD_QUEUE must not be negative, but is %d", c.UploadQueue)
	case c.UploadQueueTimeout <= 0:
		return fmt.Errorf("SERVICE_UPLOAD_QUEUE_TIMEOUT must be positive, not %s", c.UploadQueueTimeout)
	case c.UploadMinTransferRate < 0:
		return fmt.Errorf("SERVICE_UPLOAD_MIN_TRANSFER_RATE must not be negative, but is %d", c.UploadMinTransferRate)
	case c.UploadLease < time.Minute:
		return fmt.Errorf("SERVICE_UPLOAD_LEASE must be at least 1m, not %s", c.UploadLease)
	case c.ResumableTTL < time.Minute:
		return fmt.Errorf("SERVICE_RESUMABLE_TTL must be at least 1m, not %s", c.ResumableTTL)
	case c.DeleteTimeout <= 0:
		return fmt.Errorf("SERVICE_DELETE_TIMEOUT must be positive, not %s", c.DeleteTimeout)
	}
	return nil
}

// Bounds of lists.
const (
	DefaultPage  = 1
	DefaultLimit = 10
	MaxLimit     = 100
	// MaxOffset keeps page*limit inside what the database counts with.
	MaxOffset = 1<<31 - 1
)

// Settings returns the settings of an account.
type Settings interface {
	Get(ctx context.Context, accountID uuid.UUID) (settings.Layers, error)
}

// Deps are the dependencies of a Service.
type Deps struct {
	Store   Store
	Objects ObjectStore
	// Deriver makes derivatives; nil = none are made.
	Deriver  Deriver
	Settings Settings
	Now      func() time.Time
	Log      *slog.Logger
	// Registry takes the metrics; nil = none are registered.
	Registry prometheus.Registerer
}

// Service implements the use cases. It is safe for concurrent use.
type Service struct {
	store    Store
	objects  ObjectStore
	deriver  Deriver
	settings Settings
	cfg      Config
	now      func() time.Time
	log      *slog.Logger
	limits   limits
	metrics  metrics
	newHash  func() hash.Hash // of files
}

// New returns a Service that uses deps.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	limits, err := newLimits(cfg, deps.Registry)
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{
		store: deps.Store, objects: deps.Objects, deriver: deps.Deriver, settings: deps.Settings, cfg: cfg, now: deps.Now, log: deps.Log, limits: limits, metrics: metrics, newHash: sha256.New,
	}, nil
}

// ScopeOf returns the scope that a principal's calls act in.
func ScopeOf(p account.Principal) Scope {
	return Scope{AccountID: p.Account.ID, AppID: p.App.ID, Bucket: p.Account.Bucket}
}

// Get returns a draft or a sealed item; NotFound for any other app's item.
func (s *Service) Get(ctx context.Context, p account.Principal, id uuid.UUID) (Item, error) {
	return s.store.Item(ctx, ScopeOf(p), id)
}

// Seal makes a draft visible and permanent. Sealing again returns the sealed item.
func (s *Service) Seal(ctx context.Context, p account.Principal, id uuid.UUID) (Item, error) {
	now := s.now()
	item, err := s.store.Seal(ctx, ScopeOf(p), id, now)
	if err == nil {
		s.metrics.countSeal(item, now)
	}
	return item, err
}

// removalGrace is how long the purge leaves a removal to the request that queued it.
const removalGrace = time.Minute

// removeNow attempts a queued removal once, even if the client has left.
func (s *Service) removeNow(ctx context.Context, removal Removal) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DeleteTimeout)
	defer cancel()
	if !s.tryRemoval(ctx, removal) {
		return
	}
	if err := s.store.FinishRemovals(ctx, []int64{removal.ID}); err != nil {
		s.log.WarnContext(ctx, "cleanup deferred to purge", "stage", "finish removal", "removal", removal.ID, "error", err)
	}
}

// RemoveForRoom attempts removals once that were queued to make room for an upload, even if its client has left. What fails is left
// to the purge. The upload waits for it, so an account cannot fill its bucket faster than it is emptied.
func (s *Service) RemoveForRoom(ctx context.Context, removals []Removal) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DeleteTimeout)
	defer cancel()
	all, ids := Removal{ID: removals[0].ID, Bucket: removals[0].Bucket}, make([]int64, 0, len(removals))
	for _, removal := range removals { // an account has one bucket
		all.Keys, ids = append(all.Keys, removal.Keys...), append(ids, removal.ID)
	}
	if !s.tryRemoval(ctx, all) {
		return
	}
	if err := s.store.FinishRemovals(ctx, ids); err != nil {
		s.log.WarnContext(ctx, "cleanup deferred to purge", "stage", "finish removal", "removal", all.ID, "error", err)
	}
}

// tryRemoval removes the objects, and leaves the removal in the queue.
func (s *Service) tryRemoval(ctx context.Context, removal Removal) (done bool) {
	err := removeObjects(ctx, s.objects, removal)
	if err != nil {
		s.log.WarnContext(ctx, "cleanup deferred to purge", "stage", "remove objects", "removal", removal.ID, "error", err)
	}
	return err == nil
}

// List returns one page of sealed items, newest first.
func (s *Service) List(ctx context.Context, p account.Principal, filter Filter, page, limit int) (Page, error) {
	if err := checkPage(page, limit); err != nil {
		return Page{}, err
	}
	if err := filter.validate(); err != nil {
		return Page{}, err
	}
	list, err := s.store.ListItems(ctx, ScopeOf(p), filter, limit, (page-1)*limit)
	if err != nil {
		return Page{}, err
	}
	return Page{List: list, Number: page, Limit: limit}, nil
}

// checkPage checks the number and the length of a page.
func checkPage(page, limit int) error {
	if page < 1 {
		return errPage
	}
	if limit < 1 || limit > MaxLimit {
		return errLimit()
	}
	if page-1 > MaxOffset/limit {
		return fault.New(fault.Invalid, "page must be %d or less with this limit", MaxOffset/limit+1)
	}
	return nil
}

// Count counts the app's sealed items that match the filter.
func (s *Service) Count(ctx context.Context, p account.Principal, filter Filter) (int64, error) {
	if err := filter.validate(); err != nil {
		return 0, err
	}
	return s.store.CountItems(ctx, ScopeOf(p), filter)
}

// Totals returns what the whole account stores and may store.
func (s *Service) Totals(ctx context.Context, p account.Principal) (Totals, error) {
	return s.store.Totals(ctx, ScopeOf(p))
}

// Usage returns what of its cap the whole account uses. Totals counts sealed items only.
func (s *Service) Usage(ctx context.Context, p account.Principal) (Usage, error) {
	available, maxStorage, err := s.store.AvailableBytes(ctx, ScopeOf(p))
	if err != nil {
		return Usage{}, err
	}
	return Usage{Used: max(0, maxStorage-available), MaxStorage: maxStorage}, nil
}

// ForDelivery returns an item by id alone, with its owner. Package delivery
// decides whether the caller may read it.
func (s *Service) ForDelivery(ctx context.Context, id uuid.UUID) (Item, Owner, error) {
	return s.store.ItemForDelivery(ctx, id)
}
