// Package upload receives files, and makes items of package media of them. A file arrives in one request, as a Single, or in any number
// of requests at any replica, as a Resumable. Its bytes are reserved under the cap of the account before they are sent to the object
// store, and what uploads hold of the process is bounded, fairly between accounts. REST, TUS, MCP, the files page and package fetch call
// Service.
//
// Single and Resumable move their bytes with a transfer. What a crash leaves behind, package media purges.
package upload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// Config bounds uploads. The tags are flag and environment names.
type Config struct {
	MaxUploads              int           `env:"SERVICE_MAX_UPLOADS" default:"128" help:"Upload slots: uploads that a process receives at once. Each buffers up to 1.25 MiB, and more from SERVICE_UPLOAD_MEMORY."`
	UploadMemory            int64         `env:"SERVICE_UPLOAD_MEMORY" default:"268435456" help:"Bytes of memory for uploads over 1 MiB, at least 10 MiB. Each uses up to 10 MiB; others wait. Once an eighth is in use, no upload receives a part while it sends one."`
	UploadPerAccountPercent int           `name:"upload-per-account-percent" env:"SERVICE_UPLOAD_PER_ACCOUNT_PERCENT" default:"75" help:"Percent of upload slots and memory that one account may hold."`
	UploadQueue             int           `env:"SERVICE_UPLOAD_QUEUE" default:"256" help:"Uploads that may wait for a slot; more are rejected with 429. One account may have half of them, and always one."`
	UploadQueueTimeout      time.Duration `name:"upload-queue-timeout" env:"SERVICE_UPLOAD_QUEUE_TIMEOUT" default:"60s" help:"How long an upload waits for a slot, or for memory."`
	UploadMinTransferRate   int64         `name:"upload-min-transfer-rate" env:"SERVICE_UPLOAD_MIN_TRANSFER_RATE" default:"65536" help:"Minimum transfer rate of an upload, and of an archive of the files page, in bytes per second, while others wait for its slot or memory; 0 = none."`
	UploadLease             time.Duration `env:"SERVICE_UPLOAD_LEASE" default:"15m" help:"How long an upload may make no progress before the purge considers it dead."`
	ResumableTTL            time.Duration `env:"SERVICE_RESUMABLE_TTL" default:"24h" help:"How long a resumable upload may make no progress before it expires, at least 1m."`
}

// readAhead returns how many bytes the buffers of all uploads may have when one of them receives a part while it
// sends another. More uploads than that keep the processors and the object store busy without it.
func (c Config) readAhead() int64 { return c.UploadMemory / 8 }

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
	}
	return nil
}

// Settings returns the settings of an account.
type Settings interface {
	Get(ctx context.Context, accountID uuid.UUID) (settings.Layers, error)
}

// Deriver makes derivatives of files that arrive. internal/imaging.Pool implements it. It is safe for concurrent use.
type Deriver interface {
	// CheckAdmission returns Busy if the account already holds its maximum of image slots. It
	// reserves nothing. It rejects a flooding account before its body is read, without
	// affecting other accounts.
	CheckAdmission(account uuid.UUID) error
	// Reserve acquires an image slot for a file that turned out to be an image. Busy when the
	// account holds its maximum, and when all slots are held and it holds one of them.
	Reserve(account uuid.UUID) (media.ImageSlot, error)
	// ReserveWait is Reserve for a file that is stored already: it waits for a slot. Busy when
	// ctx ends first.
	ReserveWait(ctx context.Context, account uuid.UUID) (media.ImageSlot, error)
	// ReserveRender acquires a slot of the queue of requests, for derivatives that a client waits for. Busy as Reserve.
	ReserveRender(account uuid.UUID) (media.ImageSlot, error)
	media.Deriver
}

// Deps are the dependencies of a Service.
type Deps struct {
	Store   Store
	Objects media.ObjectStore
	// Items carries out the removals that uploads queue, and counts the items that they seal.
	Items *media.Service
	// Deriver makes derivatives; nil = none are made.
	Deriver  Deriver
	Settings Settings
	// DerivativesPending is called after an item was made whose derivatives are to be made later; nil = not.
	DerivativesPending func()
	// CheckPending is called after an item was made whose file is to be checked before it is sealed; nil = not.
	CheckPending func()
	// Locks are those that the requests of resumable uploads hold, and LockTimeout is how long End waits for one.
	Locks       Locks
	LockTimeout time.Duration
	Now         func() time.Time
	Log         *slog.Logger
	// Registry takes the metrics; nil = none are registered.
	Registry prometheus.Registerer
}

// Service implements the use cases of uploads. It is safe for concurrent use.
type Service struct {
	cfg     Config
	deps    Deps
	limits  limits
	metrics metrics
	writers *writers
	newHash func() hash.Hash // of files
	// buffered is how many bytes the buffers of all uploads have.
	buffered atomic.Int64
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
	return &Service{cfg: cfg, deps: deps, limits: limits, metrics: metrics, writers: newWriters(deps.Store, deps.Now), newHash: sha256.New}, nil
}

// endBatch is how many uploads of dead processes one transaction ends.
const endBatch = 100

// EndUploadsOfDeadProcesses ends the uploads of processes that were declared dead, so that the bytes
// that they reserved are free again. The purge removes their objects.
func (s *Service) EndUploadsOfDeadProcesses(ctx context.Context) error {
	for {
		ended, err := s.deps.Store.EndUploadsOfDeadProcesses(ctx, endBatch, media.UploadKeys, s.deps.Now().Add(media.RemovalGrace))
		if ended > 0 {
			s.deps.Log.WarnContext(ctx, "uploads of a process that died were ended", "uploads", ended)
		}
		if err != nil || ended < endBatch {
			return err
		}
	}
}

// abandonStored queues the removal of what an upload has stored, and ends its use of the writer. If that fails, Settle tries it again.
func (s *Service) abandonStored(ctx context.Context, of abandoned) (*media.Removal, error) {
	removal, err := s.deps.Store.AbandonStored(ctx, of.itemID, of.scope, of.writer.Writer, of.uncertain, of.keys, s.deps.Now().Add(media.RemovalGrace))
	if err != nil {
		s.writers.fail(of)
		return nil, err
	}
	s.writers.end(of.writer)
	return removal, nil
}

// SetLease records until when the process has its lease, by the clock of the process. lapsed is set if it had none before: small uploads
// are recorded first until then.
func (s *Service) SetLease(until time.Time, lapsed bool) { s.writers.setLease(until, lapsed) }

// Settle removes the writers of this process that are not used anymore, and abandons the uploads that could not be abandoned. last is set
// at the end of the process, when no upload runs.
func (s *Service) Settle(ctx context.Context, last bool) error {
	failures := s.abandonFailed(ctx, last)
	settled := s.writers.removable(last)
	if len(settled) == 0 {
		return failures
	}
	numbers := make([]int64, len(settled))
	for i, writer := range settled {
		numbers[i] = writer.Number
	}
	if err := s.deps.Store.RemoveWriters(ctx, numbers); err != nil {
		s.writers.keep(settled)
		return err
	}
	return failures
}

// abandonTime is the most that a heartbeat spends on uploads that could not be abandoned before.
const abandonTime = time.Second

// abandonFailed abandons the uploads that could not be abandoned. Those of a writer that is locked wait for the next call, behind all others.
func (s *Service) abandonFailed(ctx context.Context, last bool) (failure error) {
	until := time.Now().Add(abandonTime)
	locked := map[*ownWriter]bool{}
	failed := s.writers.takeFailed()
	for i, of := range failed {
		if !last && time.Now().After(until) || ctx.Err() != nil {
			s.writers.putBack(failed[i:])
			break
		}
		if locked[of.writer] {
			s.writers.fail(of)
			continue
		}
		// The object may be stored still: the purge removes it.
		if _, err := s.abandonStored(ctx, of); err != nil {
			failure, locked[of.writer] = err, true
		}
	}
	return failure
}
