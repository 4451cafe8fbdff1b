package rendition

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/work"
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

// PictureWork is the kind of the tasks that make pictures in advance. The key of a task is an item; or the account, for its presets and the
// pass over its sealed items.
const PictureWork work.Kind = "picture"

// EagerAccount is what is made in advance of an account, as a process finds it.
type EagerAccount struct {
	ID      uuid.UUID
	Version int64 // counts the changes of its presets
	Encoder int   // that of the process that has looked at them
	// Before is where the pass over its sealed items is, newest first: items with ids before it are left. Zero = there is no pass.
	Before  uuid.UUID
	Unseen  bool // the presets have changed since a process looked at them, or the encoder is another one
	Newer   bool // a process with a newer encoder, which is alive, has the account: in an update, both run beside each other
	Resting bool // it is suspended or closed
}

// EagerItem is a sealed item that a pass comes to.
type EagerItem struct {
	ID    uuid.UUID
	Image bool
}

// EagerStore keeps what is made in advance of accounts. Sealing and restoring an item, and moving its focus, add its task in the same statement, if
// its account has eager presets; a change of presets adds the task of the account. PostgreSQL implements it.
type EagerStore interface {
	// EnqueueEager adds the tasks that neither has added: those of accounts that another encoder has, and of items that a replica
	// of the version before has queued. It returns how many.
	EnqueueEager(ctx context.Context, encoder int) (int, error)
	// EagerAccount returns what is made in advance of an account, or false if nothing ever was. encoder is the version of the encoder.
	EagerAccount(ctx context.Context, accountID uuid.UUID, encoder int) (EagerAccount, bool, error)
	// SeeEager records what is made in advance, by a digest; nil = nothing. Another digest begins a pass over the sealed items of
	// the account. It does nothing if the presets have changed again, or another process has seen them with another encoder.
	SeeEager(ctx context.Context, account EagerAccount, recipes []byte, encoder int) error
	// EagerPage returns up to page sealed items of an account with ids before the given one, newest first.
	EagerPage(ctx context.Context, accountID, before uuid.UUID, page int) ([]EagerItem, error)
	// PassEager records that a pass has gone over so many items, and goes on before next; zero = it has ended. It returns false, and
	// does nothing, if the account has changed since.
	PassEager(ctx context.Context, account EagerAccount, next uuid.UUID, items int) (bool, error)
	// RetryEager adds the task of an item that a pass could not do, due after the delay. failure is why the attempt has failed; empty if
	// another process makes a picture.
	RetryEager(ctx context.Context, accountID, itemID uuid.UUID, delay time.Duration, failure string) error
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

// Eager makes the renditions of eager presets in advance, a few items at a time. It is the worker of PictureWork. It never ends another
// rendition to make room.
type Eager struct {
	cfg     EagerConfig
	maker   *Maker
	deps    EagerDeps
	metrics eagerMetrics
	slots   chan struct{} // has a value for each item that is worked on
	// claimWait is the constant, except in tests.
	claimWait time.Duration

	mu         sync.Mutex
	next       time.Time // when the next item may begin
	yieldsTill time.Time // no task is claimed before
}

const (
	// eagerJobs is how many items a process works on at once. The image workers leave half of them to others anyway.
	eagerJobs = 2
	// eagerPage is how many items of a pass are read at once.
	eagerPage = 100
	// passTurn is after how long a pass lets other tasks have its place.
	passTurn = 2 * time.Second
	// fullPause is how long an account is left alone whose storage cap had no room, or until its presets change.
	fullPause = 10 * time.Minute
	// restPause is when an account that is suspended or closed is looked at again.
	restPause = time.Minute
	// yieldPause is how long a process claims nothing after it has found that a newer encoder has an account.
	yieldPause = 10 * time.Second
	// makingPause is when an item is looked at again of which a request makes a rendition.
	makingPause = 5 * time.Second
	// An item that cannot be processed is tried again after eagerBackoff, and then after pauses that double up to maxEagerBackoff.
	eagerBackoff    = 5 * time.Second
	maxEagerBackoff = 10 * time.Minute
	// maxEagerAttempts is after how many attempts an item is given up whose file is lost or on which image workers fail. Those that fail
	// since a store or the workers are not available are repeated until they succeed.
	maxEagerAttempts = 3
	// maxEagerRead is the size in bytes up to which a file is read before an image worker is waited for: a slow object store keeps no worker from
	// requests. A larger one would take too much memory, and is read by the worker.
	maxEagerRead = 16 << 20
	// claimWait is how long an image worker is kept while pictures are claimed, by 8 statements at most.
	claimWait = 2 * time.Second
	// skipShare is the part of the pace that an item takes of which all pictures are there.
	skipShare = 10
)

// NewEager returns an Eager that uses maker and deps.
func NewEager(cfg EagerConfig, maker *Maker, deps EagerDeps) (*Eager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	metrics, err := newEagerMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Eager{cfg: cfg, maker: maker, deps: deps, metrics: metrics, slots: make(chan struct{}, eagerJobs), claimWait: claimWait}, nil
}

// Enabled reports whether the process makes pictures in advance: not if the rate is 0, or without images.
func (e *Eager) Enabled() bool {
	return e.cfg.EagerRate > 0 && e.maker.Renderer != nil && e.maker.Renderer.Handles("image/jpeg", 1)
}

// Policy returns how the tasks run. An attempt may wait for the items of another one, and then works on its own.
func (e *Eager) Policy() work.Policy {
	return work.Policy{
		Slots: eagerJobs, Timeout: passTurn + 2*e.maker.cfg.Timeout, MinBackoff: eagerBackoff, MaxBackoff: maxEagerBackoff, Ready: e.ready,
		Enqueue: func(ctx context.Context) (int, error) { return e.deps.Store.EnqueueEager(ctx, e.maker.Encoder) },
	}
}

var (
	errHeld   = errors.New("nothing may be written")
	errYields = errors.New("a process with a newer encoder makes the pictures")
)

// ready returns an error while no task may run.
func (e *Eager) ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.maker.held():
		return errHeld
	case time.Now().Before(e.yieldsTill):
		return errYields
	}
	return nil
}

// Work makes the pictures of an item; or looks at the presets of an account that have changed, and goes on with the pass over its items. An
// item that is sealed, or whose presets change, meanwhile is not missed: it gets a task of its own, or a new pass comes to it.
func (e *Eager) Work(ctx context.Context, task work.Task) error {
	account, found, err := e.deps.Store.EagerAccount(ctx, task.AccountID, e.maker.Encoder)
	if err != nil || !found {
		return err
	}
	if account.Newer {
		e.mu.Lock()
		e.yieldsTill = time.Now().Add(yieldPause)
		e.mu.Unlock()
		return work.Snooze(0)
	}
	layers, err := e.deps.Settings.Get(ctx, account.ID)
	if err != nil {
		return err
	}
	pictures := eagerPictures(layers)
	switch {
	case task.Key == account.ID && account.Unseen:
		if err := e.deps.Store.SeeEager(ctx, account, digestOf(pictures, e.maker.Encoder), e.maker.Encoder); err != nil {
			return err
		}
		return work.Snooze(0) // the next attempt begins the pass
	case account.Resting:
		return work.SnoozeAccount(restPause)
	case task.Key == account.ID:
		err = e.pass(ctx, account, pictures)
	default:
		err = e.do(ctx, eagerItem{account.ID, task.Key, task.Attempt}, pictures)
	}
	switch {
	case errors.Is(err, errNoRoom):
		return work.SnoozeAccount(fullPause)
	case errors.Is(err, errMaking):
		return work.Snooze(makingPause)
	}
	return err
}

// pass makes the pictures of the next sealed items of an account, for passTurn, and records how far it is.
func (e *Eager) pass(ctx context.Context, account EagerAccount, pictures []eagerPicture) error {
	if account.Before == uuid.Nil {
		return nil
	}
	next, items, err := e.walk(ctx, account, pictures)
	recording, cancel := ending(ctx) // at a shutdown, too
	defer cancel()
	recorded, recordErr := e.deps.Store.PassEager(recording, account, next, items)
	if err := cmp.Or(err, recordErr); err != nil {
		return err
	}
	if next != uuid.Nil || !recorded {
		return work.Snooze(0)
	}
	return nil
}

// walk goes over the items of a pass. It returns how many it has done, and the id before which it goes on; zero at the end.
func (e *Eager) walk(ctx context.Context, account EagerAccount, pictures []eagerPicture) (next uuid.UUID, done int, err error) {
	next = account.Before
	for began := time.Now(); ; {
		page, err := e.deps.Store.EagerPage(ctx, account.ID, next, eagerPage)
		if err != nil {
			return next, done, err
		}
		for items := range slices.Chunk(page, eagerJobs) {
			if err := e.together(ctx, account.ID, items, pictures); err != nil {
				return next, done, err
			}
			next, done = items[len(items)-1].ID, done+len(items)
			if time.Since(began) >= passTurn {
				return next, done, nil
			}
		}
		if len(page) < eagerPage {
			return uuid.Nil, done, nil
		}
	}
}

// together makes the pictures of items at once. One that fails gets a task of its own, and the pass goes on without it, unless there is no
// room, or the process shuts down.
func (e *Eager) together(ctx context.Context, accountID uuid.UUID, items []EagerItem, pictures []eagerPicture) error {
	var group errgroup.Group
	for _, item := range items {
		if !item.Image {
			continue
		}
		group.Go(func() error {
			err := e.do(ctx, eagerItem{accountID, item.ID, 1}, pictures)
			switch {
			case err == nil, errors.Is(err, errNoRoom), ctx.Err() != nil:
				return err
			case errors.Is(err, errMaking):
				return e.deps.Store.RetryEager(ctx, accountID, item.ID, makingPause, "")
			}
			return e.deps.Store.RetryEager(ctx, accountID, item.ID, eagerBackoff, err.Error())
		})
	}
	return group.Wait()
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
