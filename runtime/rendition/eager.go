package rendition

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/settings"
)

// EagerConfig bounds what one process makes in advance. The tags are flag and environment names.
type EagerConfig struct {
	EagerRate int `name:"rendition-eager-rate" env:"SERVICE_RENDITION_EAGER_RATE" default:"5" help:"Items per second, of all accounts, of which a process makes the pictures of eager presets: after they were sealed, and after a preset has changed; from 0 to 1000, 0 = none."`
}

// maxEagerRate is the maximum of EagerRate.
const maxEagerRate = 1000

// Validate checks the bounds.
func (c EagerConfig) Validate() error {
	if c.EagerRate < 0 || c.EagerRate > maxEagerRate {
		return fmt.Errorf("SERVICE_RENDITION_EAGER_RATE must be from 0 to %d, not %d", maxEagerRate, c.EagerRate)
	}
	return nil
}

// EagerWork is what there is to do in advance, of all accounts.
type EagerWork struct {
	Queued  bool // items are in the queue
	Changed bool // the presets of an account have changed, or the encoder has
	Passes  bool // sealed items are still to be queued
	Alone   bool // no process of another version is alive
}

// EagerEncoder is the version of the encoder of a process, and the newest one whose accounts the process takes over. In an update,
// processes with another encoder run beside each other: the newest one has the accounts.
type EagerEncoder struct {
	Own, Newest int
}

// EagerChange is a change of the presets of an account. Version counts the changes.
type EagerChange struct {
	AccountID uuid.UUID
	Version   int64
}

// EagerTask is an item in the queue that a process has claimed.
type EagerTask struct {
	ItemID, AccountID uuid.UUID
	Claim             uuid.UUID
	Attempt           int   // from 1
	Version           int64 // of the presets of the account, when it was claimed
	Encoder           int   // of the process
}

// EagerStore keeps the queue of the items of which pictures are made in advance. Sealing and restoring an item, and moving its
// focus, queue it in the same statement, if its account has eager presets. PostgreSQL implements it.
type EagerStore interface {
	// EagerWork returns what there is to do. encoder is the version of the encoder.
	EagerWork(ctx context.Context, encoder int) (EagerWork, error)
	// EagerChanges returns up to page changes that SeeEager has not recorded, of accounts with ids after the given one, in the
	// order of ids.
	EagerChanges(ctx context.Context, encoder EagerEncoder, after uuid.UUID, page int) ([]EagerChange, error)
	// SeeEager records what is made in advance since a change, by a digest; nil = nothing. Another digest begins a pass over the
	// sealed items of the account. It returns false, and does nothing, if the presets have changed again, or a newer encoder has
	// seen them.
	SeeEager(ctx context.Context, change EagerChange, recipes []byte, encoder EagerEncoder) (bool, error)
	// ClearEager ends up to limit rows of the queue of an account.
	ClearEager(ctx context.Context, accountID uuid.UUID, limit int) (int, error)
	// FillEager goes on with a pass of which no item is in the queue: it queues the images of the next so many items. It
	// returns false if there is no such pass, except those of a newer encoder.
	FillEager(ctx context.Context, encoder, page int) (bool, error)
	// ClaimEager claims an item for so long. Accounts take turns; those that are closed or suspended, and those that a newer encoder
	// has, are skipped.
	ClaimEager(ctx context.Context, claim uuid.UUID, encoder int, lease time.Duration) (EagerTask, bool, error)
	// FinishEager ends a claim, and the row, unless the presets have changed meanwhile, or a newer encoder has the account: then
	// the item is due again.
	FinishEager(ctx context.Context, task EagerTask) error
	// ReturnEager ends a claim. The item is due after the delay. If the attempt failed, it counts, and the pass goes on
	// without the item.
	ReturnEager(ctx context.Context, task EagerTask, delay time.Duration, failed bool) error
	// PauseEager lets nothing of an account be claimed for so long, or until its presets change.
	PauseEager(ctx context.Context, accountID uuid.UUID, delay time.Duration) error
	// EagerQueue counts the items in the queue, up to most.
	EagerQueue(ctx context.Context, most int) (int, error)
	// MadeRenditions returns those renditions of an item that are stored or being made.
	MadeRenditions(ctx context.Context, itemID uuid.UUID, keys []media.RenditionKey) (map[media.RenditionKey]State, error)
	// ItemForDelivery is that of media.Store.
	ItemForDelivery(ctx context.Context, id uuid.UUID) (media.Item, media.Owner, error)
}

// EagerDeps are the dependencies of an Eager.
type EagerDeps struct {
	Store EagerStore
	// Settings returns the settings as the database has them now, not from a cache.
	Settings Settings
	// Wait waits, or returns the error of ctx.
	Wait func(ctx context.Context, duration time.Duration) error
	// Registry takes the metrics; nil = they are not exported.
	Registry prometheus.Registerer
}

// Eager makes the renditions of eager presets in advance, a few items at a time. All processes share the queue. It never
// ends another rendition to make room.
type Eager struct {
	cfg     EagerConfig
	maker   *Maker
	deps    EagerDeps
	metrics eagerMetrics
	// claimWait is the constant, except in tests.
	claimWait time.Duration

	mu      sync.Mutex
	after   uuid.UUID // the account after which the next look at changes begins
	next    time.Time // when the next item may begin
	counted time.Time // when the queue was counted
	warned  time.Time // when the last warning was logged
}

const (
	// eagerInterval is the pause of a process that found nothing to do.
	eagerInterval = 2 * time.Second
	// eagerJobs is how many items a process works on at once. The image workers leave half of them to others anyway.
	eagerJobs = 2
	// eagerPage is how many items of a pass are queued at once, and eagerPages how many times before some are done: where items
	// are no images.
	eagerPage  = 100
	eagerPages = 10
	// eagerClear is how many items leave the queue of an account at once.
	eagerClear = 50
	// eagerChanges is how many changes of presets are read at once, and eagerPages how many times.
	eagerChanges = 100
	// fullPause is how long an account is left alone whose storage cap had no room.
	fullPause = 10 * time.Minute
	// makingPause is when an item is looked at again of which a request makes a rendition.
	makingPause = 5 * time.Second
	// An item that cannot be processed is tried again after eagerBackoff, and then after pauses that double up to maxEagerBackoff.
	eagerBackoff    = 5 * time.Second
	maxEagerBackoff = 10 * time.Minute
	// maxEagerAttempts is after how many attempts an item is given up whose file is lost or on which image workers fail. Those that fail
	// since a store or the workers are not available are repeated until they succeed.
	maxEagerAttempts = 3
	// maxEagerCount bounds what is counted for the metric, and countInterval is how often that is.
	maxEagerCount = 10_000
	countInterval = 30 * time.Second
	// maxEagerRead is the size in bytes up to which a file is read before an image worker is waited for: a slow object store keeps no worker from
	// requests. A larger one would take too much memory, and is read by the worker.
	maxEagerRead = 16 << 20
	// claimWait is how long an image worker is kept while pictures are claimed, by 8 statements at most.
	claimWait = 2 * time.Second
	// warnInterval is how often a failed check is logged.
	warnInterval = time.Minute
	// skipShare is the part of the pace that an item takes of which all pictures are there.
	skipShare = 10
)

// NewEager returns an Eager that uses maker and deps. One whose renderer handles no images does nothing.
func NewEager(cfg EagerConfig, maker *Maker, deps EagerDeps) (*Eager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	metrics, err := newEagerMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Eager{cfg: cfg, maker: maker, deps: deps, metrics: metrics, claimWait: claimWait}, nil
}

// Run makes renditions in advance until ctx ends. What it has begun is given back then, for another process. It does nothing if the rate is 0, or
// without images.
func (e *Eager) Run(ctx context.Context) error {
	if e.cfg.EagerRate == 0 || e.maker.Renderer == nil || !e.maker.Renderer.Handles("image/jpeg", 1) {
		return nil
	}
	for {
		more, err := e.Step(ctx)
		if err != nil && ctx.Err() == nil {
			e.warn(ctx, err)
		}
		if more && err == nil && ctx.Err() == nil {
			continue
		}
		if e.deps.Wait(ctx, eagerInterval) != nil {
			return nil
		}
	}
}

// warn logs that a check failed, once in warnInterval.
func (e *Eager) warn(ctx context.Context, err error) {
	e.mu.Lock()
	due := time.Since(e.warned) >= warnInterval
	if due {
		e.warned = time.Now()
	}
	e.mu.Unlock()
	if due {
		e.maker.Log.WarnContext(ctx, "making pictures in advance was interrupted; the next check continues", "error", err)
	}
}

// Step looks at the presets that have changed, goes on with the passes over items, and makes the pictures of the next items. It returns
// false if there was nothing to do.
func (e *Eager) Step(ctx context.Context) (more bool, err error) {
	if e.maker.held() {
		return false, nil
	}
	work, err := e.deps.Store.EagerWork(ctx, e.maker.Encoder)
	if err != nil {
		return false, err
	}
	if work.Changed {
		if err := e.look(ctx, work.Alone); err != nil && ctx.Err() == nil {
			e.warn(ctx, err)
		}
	}
	for page := 0; (work.Changed || work.Passes) && page < eagerPages; page++ {
		filled, err := e.deps.Store.FillEager(ctx, e.maker.Encoder, eagerPage)
		if err != nil {
			return false, err
		}
		if !filled {
			break
		}
		more, work.Queued = true, true
	}
	e.count(ctx, work.Queued)
	if !work.Queued {
		return more, nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	for range eagerJobs {
		id, err := e.maker.NewID()
		if err != nil {
			return more, err
		}
		task, claimed, err := e.claimNext(ctx, id)
		if err != nil || !claimed {
			return more, err
		}
		more = true
		running.Go(func() { e.do(ctx, task) })
	}
	return more, nil
}

// claimNext claims an item. It does not end with ctx, as in Maker.claim: the item is given back then.
func (e *Eager) claimNext(ctx context.Context, id uuid.UUID) (EagerTask, bool, error) {
	if err := ctx.Err(); err != nil {
		return EagerTask{}, false, err
	}
	claiming, cancel := ending(ctx)
	defer cancel()
	return e.deps.Store.ClaimEager(claiming, id, e.maker.Encoder, e.maker.cfg.Timeout+leaseMargin)
}

// look records what is made in advance of the accounts whose presets have changed: of a bounded number of them. The next look continues
// there, so that accounts whose presets cannot be read hide no others. A process that is alone takes over what any encoder has seen.
func (e *Eager) look(ctx context.Context, alone bool) error {
	encoder := EagerEncoder{Own: e.maker.Encoder, Newest: e.maker.Encoder}
	if alone {
		encoder.Newest = math.MaxInt32
	}
	e.mu.Lock()
	after := e.after
	e.mu.Unlock()
	var failed error
	for range eagerPages {
		changes, err := e.deps.Store.EagerChanges(ctx, encoder, after, eagerChanges)
		if err != nil {
			return errors.Join(failed, err)
		}
		unread, err := e.see(ctx, encoder, changes)
		if failed = errors.Join(failed, unread); err != nil {
			return errors.Join(failed, err)
		}
		if len(changes) < eagerChanges {
			after = uuid.Nil
			break
		}
		after = changes[len(changes)-1].AccountID
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.after = after
	return failed
}

// see is look for a page of changes. unread are the errors of accounts whose presets cannot be read.
func (e *Eager) see(ctx context.Context, encoder EagerEncoder, changes []EagerChange) (unread, err error) {
	for _, change := range changes {
		layers, err := e.deps.Settings.Get(ctx, change.AccountID)
		if err != nil { // other accounts are not kept waiting
			unread = errors.Join(unread, fmt.Errorf("read the presets of account %s: %w", change.AccountID, err))
			continue
		}
		digest := digestOf(eagerPictures(layers), encoder.Own)
		seen, err := e.deps.Store.SeeEager(ctx, change, digest, encoder)
		if err != nil {
			return unread, err
		}
		if !seen || digest != nil {
			continue
		}
		if _, err := (purge.Batches{Size: eagerClear}).Each(ctx, func(ctx context.Context, size int) (int, error) {
			return e.deps.Store.ClearEager(ctx, change.AccountID, size)
		}); err != nil {
			return unread, err
		}
	}
	return unread, nil
}

// count sets the metric of the queue.
func (e *Eager) count(ctx context.Context, queued bool) {
	if !queued {
		e.metrics.queue.Set(0)
		return
	}
	e.mu.Lock()
	due := time.Since(e.counted) >= countInterval
	if due {
		e.counted = time.Now()
	}
	e.mu.Unlock()
	if !due {
		return
	}
	if n, err := e.deps.Store.EagerQueue(ctx, maxEagerCount); err == nil {
		e.metrics.queue.Set(float64(n))
	}
}

// pace waits until the next item may begin. The one after it may a share of the interval later.
func (e *Eager) pace(ctx context.Context, share int) error {
	e.mu.Lock()
	now := time.Now()
	if e.next.Before(now) {
		e.next = now
	}
	pause := e.next.Sub(now)
	e.next = e.next.Add(time.Second / time.Duration(e.cfg.EagerRate*share))
	e.mu.Unlock()
	if pause == 0 {
		return ctx.Err()
	}
	return e.deps.Wait(ctx, pause)
}

// eagerPicture is a picture that a preset makes of each image in advance.
type eagerPicture struct {
	preset  settings.Preset
	density int
	// formats are those that are tried, the first one that the size of the picture allows.
	formats []settings.Format
}

// eagerPictures returns what the presets in effect make in advance: each density in the format of the preset. Of those that
// FormatAuto negotiates, it is the one that current browsers get; others are made for the clients that ask for them.
func eagerPictures(layers settings.Layers) []eagerPicture {
	var pictures []eagerPicture
	for _, preset := range layers.Presets() {
		if !preset.Eager {
			continue
		}
		formats := media.NegotiatedFormats(preset.Preset)
		if len(formats) > 1 {
			formats = formats[:len(formats)-1] // the last one is for clients that accept nothing else
		}
		for _, density := range preset.Densities {
			pictures = append(pictures, eagerPicture{preset.Preset, density, formats})
		}
	}
	return pictures
}

// request returns the request for the picture of an item, in the first of its formats that the workers have and that its size allows, and the
// formats after it.
func (p eagerPicture) request(item media.Item, encodes func(settings.Format) bool) (request Request, rest []settings.Format, ok bool) {
	for i, format := range p.formats {
		if !encodes(format) {
			continue
		}
		recipe := media.RecipeOf(p.preset, p.density, format, item.Focus)
		if !item.Facts.HasSize() || recipe.Offered(item.Facts.Width, item.Facts.Height) {
			return Request{Preset: p.preset.Name, Recipe: recipe}, p.formats[i+1:], true
		}
	}
	return Request{}, nil, false
}

// digestOf returns a digest of the recipes of pictures, by a version of the encoder; nil if there is none.
func digestOf(pictures []eagerPicture, encoder int) []byte {
	if len(pictures) == 0 {
		return nil
	}
	var lines []string
	for _, picture := range pictures {
		for _, format := range picture.formats {
			id := media.RecipeOf(picture.preset, picture.density, format, nil).ID(encoder)
			lines = append(lines, fmt.Sprintf("%s %s %s\n", picture.preset.Name, picture.preset.Focus, id))
		}
	}
	slices.Sort(lines)
	sum := sha256.New()
	for _, line := range lines {
		_, _ = sum.Write([]byte(line))
	}
	return sum.Sum(nil)
}
