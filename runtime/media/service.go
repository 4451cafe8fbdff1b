package media

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// Config bounds the use cases. The tags are flag and environment names.
type Config struct {
	DeleteTimeout time.Duration `env:"SERVICE_DELETE_TIMEOUT" default:"10s" help:"How long a delete waits for S3 before it leaves the objects to the purge."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.DeleteTimeout <= 0 {
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

// Deps are the dependencies of a Service.
type Deps struct {
	Store   Store
	Objects ObjectRemover
	Now     func() time.Time
	Log     *slog.Logger
	// CheckWanted is called when a file is to be checked whose seal is wanted; nil = it is found later.
	CheckWanted func()
	// Registry takes the metrics; nil = none are registered.
	Registry prometheus.Registerer
}

// Service implements the use cases of items. It is safe for concurrent use.
type Service struct {
	store   Store
	objects ObjectRemover
	cfg     Config
	now     func() time.Time
	log     *slog.Logger
	metrics metrics

	checkWanted func()
}

// New returns a Service that uses deps.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{store: deps.Store, objects: deps.Objects, cfg: cfg, now: deps.Now, log: deps.Log, metrics: metrics, checkWanted: deps.CheckWanted}, nil
}

// ScopeOf returns the scope that a principal's calls act in.
func ScopeOf(p account.Principal) Scope {
	return Scope{AccountID: p.Account.ID, AppID: p.App.ID, Bucket: p.Account.Bucket, Actor: p.Actor, Gated: p.Account.Gate.On(), Guard: p.Guard}
}

// Get returns a draft or a sealed item; NotFound for any other app's item.
func (s *Service) Get(ctx context.Context, p account.Principal, id uuid.UUID) (Item, error) {
	return s.store.Item(ctx, ScopeOf(p), id)
}

// Seal makes a draft visible and permanent. Sealing again returns the sealed item. In an account with a gate, it returns the draft until its
// file is known to be clean: the seal is recorded, and happens then. Rejected if the file may not be sealed.
func (s *Service) Seal(ctx context.Context, p account.Principal, id uuid.UUID) (Item, error) {
	now := s.now()
	item, err := s.store.Seal(ctx, ScopeOf(p), id, now)
	if err == nil {
		s.metrics.countSeal(item, now)
	}
	if err == nil && item.Check == CheckSealWanted && s.checkWanted != nil {
		s.checkWanted()
	}
	return item, err
}

// RemovalGrace is how long the purge leaves a removal to the request that queued it.
const RemovalGrace = time.Minute

// RemovalContext returns a context for attempts at removals, which ends after Config.DeleteTimeout, whether or not the client has left.
func (s *Service) RemovalContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DeleteTimeout)
}

// RemoveNow attempts a queued removal once, even if the client has left.
func (s *Service) RemoveNow(ctx context.Context, removal Removal) {
	ctx, cancel := s.RemovalContext(ctx)
	defer cancel()
	if !s.TryRemoval(ctx, removal) {
		return
	}
	if err := s.store.FinishRemovals(ctx, []int64{removal.ID}); err != nil {
		s.log.WarnContext(ctx, "cleanup deferred to purge", "stage", "finish removal", "removal", removal.ID, "error", err)
	}
}

// RemoveForRoom attempts removals once that were queued to make room for an upload, even if its client has left. What fails is left
// to the purge. The upload waits for it, so an account cannot fill its bucket faster than it is emptied.
func (s *Service) RemoveForRoom(ctx context.Context, removals []Removal) {
	ctx, cancel := s.RemovalContext(ctx)
	defer cancel()
	all, ids := Removal{ID: removals[0].ID, Bucket: removals[0].Bucket}, make([]int64, 0, len(removals))
	for _, removal := range removals { // an account has one bucket
		all.Keys, ids = append(all.Keys, removal.Keys...), append(ids, removal.ID)
	}
	if !s.TryRemoval(ctx, all) {
		return
	}
	if err := s.store.FinishRemovals(ctx, ids); err != nil {
		s.log.WarnContext(ctx, "cleanup deferred to purge", "stage", "finish removal", "removal", all.ID, "error", err)
	}
}

// TryRemoval removes the objects, and leaves the removal in the queue.
func (s *Service) TryRemoval(ctx context.Context, removal Removal) (done bool) {
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
	if err := CheckLimit(limit); err != nil {
		return err
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
