package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

// Config bounds the checks. The tags are flag and environment names.
type Config struct {
	Slots   int           `name:"gate-scans" env:"SERVICE_GATE_SCANS" default:"4" help:"How many files a replica has scanned at once, and how many of an account all replicas have. Of several, the last free one is for an account of which no file is scanned."`
	Timeout time.Duration `name:"gate-timeout" env:"SERVICE_GATE_TIMEOUT" default:"5m" help:"How long one scan may take, with the transfer of the file. The file is scanned again afterwards."`
	Percent int           `name:"quarantine-percent" env:"SERVICE_QUARANTINE_PERCENT" default:"10" help:"Percent of its storage cap that an account may have in quarantine, beside the cap, from 0 to 100. The latest files are kept, at most 1000 of an account."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case c.Slots < 1:
		return fmt.Errorf("SERVICE_GATE_SCANS must be 1 or more, not %d", c.Slots)
	case c.Percent < 0 || c.Percent > 100:
		return fmt.Errorf("SERVICE_QUARANTINE_PERCENT must be from 0 to 100, not %d", c.Percent)
	case c.Timeout < time.Second:
		return fmt.Errorf("SERVICE_GATE_TIMEOUT must be 1s or more, not %s", c.Timeout)
	}
	return nil
}

const (
	// A scan with which the scanner fails is repeated after minBackoff, and then after pauses that double up to maxBackoff.
	minBackoff = time.Second
	maxBackoff = time.Minute
	// interruptedPause is after how long a file is scanned again that may have made the scanner crash or hang. It doubles with each other time:
	// such a scan ends those of other files, too.
	interruptedPause = 5 * time.Second
	// awayPause is after how long a scanner, an object store or a database is asked again that was not available.
	awayPause = 15 * time.Second
	// recordMargin is how long a task may take beside its scan.
	recordMargin = 15 * time.Second
	// pingTimeout bounds the question whether the scanner is there.
	pingTimeout = 10 * time.Second
	// restingPause is when an account is looked at again that is suspended or closed.
	restingPause = time.Minute
	// maxFailures is after how many attempts a file is unscannable with which the scanner fails, and maxInterruptions for one that interrupts
	// it. Such a file may be scanned beside one that does, so it has more of them.
	maxFailures      = 5
	maxInterruptions = 8
	// maxQuarantined is how many files an account may have in quarantine.
	maxQuarantined = 1000
	// noticePause is for how long the owners of an account get no other e-mail.
	noticePause = 10 * time.Minute
)

// Deps are the dependencies of a Service.
type Deps struct {
	Store   Store
	Objects interface {
		Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
	}
	// Scanners are those of the installation, by their names.
	Scanners map[string]Scanner
	// Ready returns an error while nothing may be changed.
	Ready func() error
	// Sealed is called when an item was sealed; nil = not.
	Sealed func()
	// Emails is set if the installation sends e-mails.
	Emails bool
	// NoticeQueued is called after an e-mail was queued; nil = it is found later.
	NoticeQueued func()
	Now          func() time.Time
	Log          *slog.Logger
	Registry     prometheus.Registerer // nil = no metrics are exported
}

// Service is the worker of ScanWork. It is safe for concurrent use.
type Service struct {
	cfg     Config
	deps    Deps
	metrics metrics
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
	return &Service{cfg: cfg, deps: deps, metrics: metrics}, nil
}

// Policy returns how the tasks run. They are tried until the draft is purged: without a result nothing is sealed. The last free slot is for an
// account of which no file is scanned, so that large files of one account do not hold those of others up.
func (s *Service) Policy() work.Policy {
	return work.Policy{Slots: s.cfg.Slots, PerAccount: s.cfg.Slots, Spare: 1, Timeout: s.cfg.Timeout + recordMargin, Leased: true, MinBackoff: minBackoff, MaxBackoff: maxBackoff, Ready: s.deps.Ready}
}

// errNoScanner is the error of a check for which the installation has no scanner.
var errNoScanner = errors.New("the installation has no such scanner (SERVICE_CLAMD_ADDRESS, SERVICE_GATE_URLS)")

// errResting is the error of a check in an account that is suspended or closed.
var errResting = errors.New("the account is suspended or closed")

// Work implements work.Worker: it checks the file of an item. Only failures of which the file may be the cause are counted.
func (s *Service) Work(ctx context.Context, task work.Task) error {
	switch err := s.check(ctx, task); {
	case err == nil:
		return nil
	case errors.Is(err, errResting):
		return work.SnoozeAccount(restingPause)
	case errors.Is(err, ErrFile):
		return err
	case errors.Is(err, ErrInterrupted):
		return work.Retry(pause(interruptedPause<<min(task.Attempt-1, maxInterruptions)), 0, err)
	default:
		return work.RetryUncounted(pause(awayPause), err)
	}
}

// pause returns a duration with a random part of up to a quarter, so that what failed together is not tried again together.
func pause(d time.Duration) time.Duration { return d + rand.N(d/4) }

// check has the file of an item scanned, and records what follows.
func (s *Service) check(ctx context.Context, task work.Task) error {
	found, err := s.deps.Store.Waiting(ctx, task.AccountID, task.Key)
	switch {
	case errors.Is(err, ErrNotWaiting):
		return nil
	case err != nil:
		return err
	case found.Resting:
		return errResting
	case !found.Gate.On(): // it was removed
		return s.pass(ctx, found, outcomeOff)
	}
	result, err := s.scan(ctx, found, task.Attempt)
	switch {
	case err == nil:
		return s.decide(ctx, found, result)
	case ctx.Err() != nil, errors.Is(err, errUnreadable):
		return err
	}
	s.metrics.failed.WithLabelValues(found.Gate.Scanner).Inc()
	// Who uploads chooses the file, so one that may be the cause does not pass, nor one that was it in an attempt before.
	if found.Gate.AllowUnchecked && task.Attempt == 1 && !errors.Is(err, ErrFile) && !errors.Is(err, ErrInterrupted) {
		s.deps.Log.WarnContext(ctx, "a file passes unchecked: the scanner is not available, and the account allows that", "item", task.Key, "account", task.AccountID, "scanner", found.Gate.Scanner, "error", err)
		return s.pass(ctx, found, outcomeUnchecked)
	}
	return fmt.Errorf("scanner %s: %w", found.Gate.Scanner, err)
}

// errUnreadable is the error of a file that could not be read. It says nothing of the scanner.
var errUnreadable = errors.New("the file could not be read")

// scan has the file scanned.
func (s *Service) scan(ctx context.Context, found Waiting, attempt int) (Result, error) {
	original, ok := found.Item.Objects.Find(media.Original)
	if !ok {
		return Result{}, fmt.Errorf("%w: it has no original", errUnreadable)
	}
	if original.Bytes > found.Gate.MaxScanBytes {
		return Result{Unscannable, fmt.Sprintf("it is larger than maxScanBytes, %d bytes", found.Gate.MaxScanBytes)}, nil
	}
	scanner := s.deps.Scanners[found.Gate.Scanner]
	if scanner == nil {
		return Result{}, errNoScanner
	}
	if attempt > 1 { // so that the absence of a scanner does not count as a failure of the file, also behind a proxy that accepts connections
		if err := ping(ctx, scanner); err != nil {
			return Result{}, err
		}
	}
	scanning, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	file := io.NopCloser(strings.NewReader(""))
	if original.Bytes > 0 {
		var err error
		if file, err = s.deps.Objects.Open(scanning, found.Bucket, original.Key, 0, original.Bytes); err != nil {
			return Result{}, fmt.Errorf("%w: %w", errUnreadable, err)
		}
	}
	defer func() { _ = file.Close() }()
	source := &recorded{Reader: file}
	began := s.deps.Now()
	result, err := scanner.Scan(scanning, source, original.Bytes)
	cancel() // a client may still read of a file that was answered before its end
	read, readErr := source.stop()
	switch {
	case readErr != nil: // whatever the scanner says of a part of the file
		return Result{}, fmt.Errorf("%w: %w", errUnreadable, readErr)
	case errors.Is(err, ErrFile) && attempt >= maxFailures, errors.Is(err, ErrInterrupted) && attempt >= maxInterruptions && ctx.Err() == nil:
		return Result{Unscannable, err.Error()}, nil
	case err != nil:
		return Result{}, err
	case result.Outcome == Clean && read != original.Bytes:
		return Result{}, fmt.Errorf("%w: %d of %d bytes were scanned", ErrFile, read, original.Bytes)
	}
	s.metrics.duration.WithLabelValues(found.Gate.Scanner).Observe(s.deps.Now().Sub(began).Seconds())
	return result, nil
}

// ping returns an error while a scanner is not available.
func ping(ctx context.Context, scanner Scanner) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return scanner.Ping(ctx)
}

// recorded keeps the error of a file, and counts its bytes, until it is stopped.
type recorded struct {
	io.Reader
	mu      sync.Mutex
	read    int64
	err     error
	stopped bool
}

// Read reads the next bytes.
func (r *recorded) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return 0, io.ErrClosedPipe
	}
	n, err := r.Reader.Read(p)
	r.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) && r.err == nil {
		r.err = err
	}
	return n, err
}

// stop ends the reads, and returns how many bytes were read and why no more could be. What has failed since the file was not wanted anymore
// is no error.
func (r *recorded) stop() (read int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	if errors.Is(r.err, context.Canceled) {
		return r.read, nil
	}
	return r.read, r.err
}

// decide records what follows from a result.
func (s *Service) decide(ctx context.Context, found Waiting, result Result) error {
	notice := Notice{Send: s.deps.Emails, Pause: noticePause}
	log := s.deps.Log.With("item", found.Item.ID, "account", found.Item.AccountID, "scanner", found.Gate.Scanner, "finding", result.Name)
	switch result.Outcome {
	case Clean:
		return s.pass(ctx, found, string(Clean))
	case Infected:
		changed, err := s.deps.Store.Quarantine(ctx, found.Item.AccountID, found.Item.ID, result.Name, QuarantineBounds{maxQuarantined, s.cfg.Percent}, notice)
		return s.rejected(ctx, log, string(Infected), changed, err)
	case Unscannable:
		if found.Gate.AllowUnscannable {
			log.InfoContext(ctx, "a file passes that cannot be scanned: the account allows that")
			return s.pass(ctx, found, string(Unscannable))
		}
		changed, err := s.deps.Store.Deny(ctx, found.Item.AccountID, found.Item.ID, notice)
		return s.rejected(ctx, log, string(Unscannable), changed, err)
	}
	return fmt.Errorf("%w: it answers with the result %.40q", ErrFile, result.Outcome)
}

// rejected counts and logs a file that may not be sealed.
func (s *Service) rejected(ctx context.Context, log *slog.Logger, outcome string, changed bool, err error) error {
	if err != nil || !changed {
		return err
	}
	s.metrics.scans.WithLabelValues(outcome).Inc()
	log.WarnContext(ctx, "a file was rejected", "result", outcome)
	if s.deps.NoticeQueued != nil {
		s.deps.NoticeQueued()
	}
	return nil
}

// pass lets the item be sealed.
func (s *Service) pass(ctx context.Context, found Waiting, outcome string) error {
	sealed, err := s.deps.Store.Pass(ctx, found.Item.AccountID, found.Item.ID, s.deps.Now())
	if err != nil {
		return err
	}
	s.metrics.scans.WithLabelValues(outcome).Inc()
	if sealed && s.deps.Sealed != nil {
		s.deps.Sealed()
	}
	return nil
}
