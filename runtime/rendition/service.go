package rendition

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/lru"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// Deps are the dependencies of a Service.
type Deps struct {
	Store Store
	Now   func() time.Time
	// Registry takes the metrics; nil = they are not exported.
	Registry prometheus.Registerer
}

// Service makes, stores and finds renditions. It is safe for concurrent use.
type Service struct {
	maker   *Maker
	deps    Deps
	metrics metrics
	// dataSlots has a slot for each job whose data are in memory: from before the file is decoded until the rendition
	// is stored, or the responses that have it unstored have ended.
	dataSlots *fairlimit.Limiter[uuid.UUID]
	// dataSlotWait is how long a job waits for such a slot: half of the time that it has.
	dataSlotWait time.Duration
	// unstored has renditions that could not be stored.
	unstored *unstored

	// shutdownGrace is the constant, except in tests.
	shutdownGrace time.Duration

	mu      sync.Mutex
	jobs    map[jobKey]*job
	running map[*job]struct{} // those that can be joined, and those that end without users
	cached  *lru.Map[Ref, cachedRow]
	failed  *lru.Map[Ref, failure] // without a key: those of all recipes of an item; see formatRef
	touched map[Ref]struct{}       // that were used since the last batch
}

// cachedRow is a row that this process has read.
type cachedRow struct {
	Stored
	until time.Time
}

// errKnown is in the chain of an error that was found by an earlier request.
var errKnown = errors.New("it failed a short time ago")

// failure is why a rendition cannot be made.
type failure struct {
	err   error
	until time.Time
}

const (
	// cacheTTL is how long a row is served from the cache. It is less than the time for which the objects of evicted renditions
	// are kept (migration 00020), so that a redirect to the object store finds its object.
	cacheTTL = time.Minute
	// maxFailures bounds the failures that are remembered, and maxTouched the uses of which the times are not recorded yet.
	maxFailures = 10_000
	maxTouched  = 10_000
	// touchAfter is how old the recorded use of a rendition is when another one is recorded, and touchInterval the
	// time between two batches.
	touchAfter    = 5 * time.Minute
	touchInterval = time.Minute
	// shutdownGrace is how long jobs may take to end at a shutdown. No request waits for them any more.
	shutdownGrace = 5 * time.Second
)

// New returns a Service that uses maker and deps.
func New(maker *Maker, deps Deps) (*Service, error) {
	metrics, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	cfg := maker.cfg
	dataSlots := newDataSlots(cfg.Jobs)
	if deps.Registry != nil {
		if err := dataSlots.RegisterWithQueue(deps.Registry, "mediastack_rendition_data", "Slots of renditions whose data is in memory, while they are made, or sent without being stored (`SERVICE_RENDITION_JOBS`)"); err != nil {
			return nil, err
		}
	}
	return &Service{
		maker: maker, deps: deps, metrics: metrics, dataSlots: dataSlots, dataSlotWait: cfg.Timeout / 2,
		unstored: newUnstored(cfg.UnstoredCache, deps.Now), shutdownGrace: shutdownGrace,
		jobs: map[jobKey]*job{}, running: map[*job]struct{}{}, touched: map[Ref]struct{}{},
		cached: lru.New[Ref, cachedRow](cfg.CacheEntries), failed: lru.New[Ref, failure](maxFailures),
	}, nil
}

// Get returns a rendition of an item, of which the caller has checked the access, and a recipe, of which it has checked that a
// preset of the account allows it. owner is that of the item. Get looks for the rendition in the cache of this process, then
// in the database, and makes it if it is in neither; concurrent calls for the same rendition, in all replicas, wait
// for one job. When ctx ends, Get returns; the job ends if no other call waits for it and no worker has
// taken it: the picture that a worker makes is stored. The caller releases the result.
//
// Faults: UnsupportedType if the original is no image, is broken or exceeds a limit, with media.ErrNotOffered
// in its chain if that is the format alone (404 at the edge, or another format), and media.ErrOtherFormat in that of any fault if
// another format may succeed; Busy, with RetryAfter, if the image workers have too much to do, or too many renditions that are
// not stored are in memory, and the error of request.Admit; NotFound if the item was deleted meanwhile; FileLost if its original
// is not there, which may be gone with the item; Unavailable if a store, or the workers, cannot be used. A cap without room is no
// error: the result is not stored then.
func (s *Service) Get(ctx context.Context, item media.Item, owner media.Owner, request Request) (Result, error) {
	original, ok := item.Objects.Find(media.Original)
	if !ok {
		return Result{}, fault.New(fault.NotFound, "the item has no file")
	}
	w := s.maker.want(&image{item, owner, original}, request)
	if found, source := s.find(w); source != "" {
		s.metrics.served(source)
		return found, nil
	}
	if _, err := s.knownFailure(w.Ref); err != nil {
		s.metrics.fail(knownReason)
		return Result{}, err
	}
	w.Admit = media.AdmitOnce(request.Admit)
	for rejections := 0; ; {
		j, begun := s.join(ctx, w)
		if begun {
			go j.run()
		}
		result, err := j.wait(ctx)
		if errors.As(err, new(media.NotAdmitted)) && !begun {
			// The limit was that of another request: one of those that wait begins the next job. After some rejections each asks
			// for itself first: of many requests over their limit, each would be woken by each of the others.
			if rejections++; rejections <= media.MaxRejections {
				continue
			}
			if err = w.Admit(); err == nil {
				continue
			}
		}
		if err != nil {
			s.metrics.fail(reasonOf(err))
			return Result{}, err
		}
		s.metrics.served(j.source)
		return result, nil
	}
}

// find returns a rendition that this process knows, and where from; "" if it knows none.
func (s *Service) find(w wanted) (found Result, source string) {
	if !w.again {
		if found, ok := s.cachedResult(w.Ref); ok {
			return found, fromCache
		}
	}
	if found, ok := s.unstored.get(w.Ref); ok {
		return found, fromMemory
	}
	return Result{}, ""
}

// Lost is Get after the object of an earlier result was not found in the object store. It ends
// the rendition, and makes it again. While nothing may be written, it makes the rendition and ends none. The caller releases both
// results.
func (s *Service) Lost(ctx context.Context, item media.Item, owner media.Owner, request Request, lost Result) (Result, error) {
	original, _ := item.Objects.Find(media.Original)
	w := s.maker.want(&image{item, owner, original}, request)
	if id, ok := IDOfObject(lost.Object.Key); ok {
		s.mu.Lock()
		if row, ok := s.cached.Get(w.Ref); ok && row.Object.Key == lost.Object.Key {
			s.cached.Delete(w.Ref)
		}
		s.mu.Unlock()
		s.metrics.lost.Inc()
		if s.maker.held() {
			request.again = true
			return s.Get(ctx, item, owner, request)
		}
		s.maker.Log.WarnContext(ctx, "the object of a rendition is missing; it is made again", "item", item.ID, "account", item.AccountID, "preset", request.Preset, "rendition", id)
		if err := s.deps.Store.EndRendition(ctx, item.AccountID, w.Ref, id); err != nil {
			return Result{}, err
		}
	}
	return s.Get(ctx, item, owner, request)
}

// Nearest returns the stored rendition of an item that is the most like a picture of this size, and its preset. It makes none, and
// the preset may have changed since. The result need not be released.
//
// Faults: NotFound if nothing is stored; Unavailable.
func (s *Service) Nearest(ctx context.Context, item media.Item, width, height int) (found Result, preset string, err error) {
	return s.deps.Store.NearestRendition(ctx, item.AccountID, item.ID, width, height)
}

// cachedResult returns a rendition from the cache, and records that it is used.
func (s *Service) cachedResult(ref Ref) (Result, bool) {
	now := s.deps.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.cached.Get(ref)
	if !ok {
		return Result{}, false
	}
	if !now.Before(row.until) {
		s.cached.Delete(ref)
		return Result{}, false
	}
	if now.Sub(row.UsedAt) >= touchAfter {
		row.UsedAt = now
		s.cached.Put(ref, row)
		s.touch(ref)
	}
	return row.Result, true
}

// keep puts a row that was just read, or made, into the cache, and records that it is used.
func (s *Service) keep(ref Ref, stored Stored) {
	now := s.deps.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(stored.UsedAt) >= touchAfter {
		stored.UsedAt = now
		s.touch(ref)
	}
	if stored.Data = nil; s.maker.cfg.CacheEntries > 0 {
		s.cached.Put(ref, cachedRow{stored, now.Add(cacheTTL)})
	}
}

// touch adds a rendition to the next batch. The caller holds s.mu.
func (s *Service) touch(ref Ref) {
	if len(s.touched) < maxTouched {
		s.touched[ref] = struct{}{}
	}
}

// formatRef stands for all recipes of an item in one format.
func formatRef(item uuid.UUID, format settings.Format) Ref {
	return Ref{ItemID: item, Key: sha256.Sum256([]byte("format " + format))}
}

// itemFailure returns why no rendition of an item, or none in one format, can be made, if that was found a short time ago. ref has no key, or is a
// formatRef. Those that are stored are served.
func (s *Service) itemFailure(ref Ref) error {
	left, known := s.knownFailure(ref)
	if known == nil {
		return nil
	}
	return &fault.Error{Kind: fault.Unavailable, Public: fault.From(known).Public, RetryAfter: left, Cause: errors.Join(errKnown, known)}
}

// knownFailure returns why a rendition cannot be made, if it was tried a short time ago, and how long that is remembered.
func (s *Service) knownFailure(ref Ref) (left time.Duration, known error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.failed.Get(ref)
	if !ok {
		return 0, nil
	}
	if left = found.until.Sub(s.deps.Now()); left <= 0 {
		s.failed.Delete(ref)
		return 0, nil
	}
	return left, found.err
}

// remember keeps an error that another attempt would have, too, and returns it: that of the recipe, or, after a file made
// workers die or took them too long, of every recipe of the item, or of those in the same format if it may be the format,
// so that it does not hold workers again and again.
func (s *Service) remember(w wanted, err error) error {
	ref := w.Ref
	switch {
	case s.maker.cfg.FailureTTL == 0:
		return err
	case errors.Is(err, media.ErrWorkerFailed) && errors.Is(err, media.ErrOtherFormat):
		ref = formatRef(w.ItemID, w.Recipe.Format)
	case errors.Is(err, media.ErrWorkerFailed):
		ref.Key = media.RenditionKey{}
	case !fault.Is(err, fault.UnsupportedType):
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed.Put(ref, failure{err, s.deps.Now().Add(s.maker.cfg.FailureTTL)})
	return err
}

// Run records when renditions were used, until ctx ends: when all requests have ended. Then it lets the jobs end that still run, for a moment, and
// ends the others, whose claims they give back.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(touchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.finish(s.shutdownGrace)
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
			defer cancel()
			s.RecordUse(ending)
			return nil
		case <-tick.C:
			s.RecordUse(ctx)
		}
	}
}

// RecordUse records which renditions were used since the last call. While nothing may be written, it leaves that to a later one.
func (s *Service) RecordUse(ctx context.Context) {
	if s.maker.held() {
		return
	}
	s.mu.Lock()
	used := make([]Ref, 0, len(s.touched))
	for ref := range s.touched {
		used = append(used, ref)
	}
	clear(s.touched)
	s.mu.Unlock()
	if len(used) == 0 {
		return
	}
	now := s.deps.Now()
	// They may end too early: what is lost is a moment in the order in which renditions make room.
	if err := s.deps.Store.TouchRenditions(ctx, used, now, now.Add(-touchAfter)); err != nil {
		s.maker.Log.WarnContext(ctx, "the use of renditions is not recorded", "renditions", len(used), "error", err)
	}
}
