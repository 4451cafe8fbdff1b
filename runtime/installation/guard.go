package installation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Config configures a Guard. The tags are flag and environment names.
type Config struct {
	CheckInterval     time.Duration `name:"installation-check-interval" env:"SERVICE_INSTALLATION_CHECK_INTERVAL" default:"15s" help:"Interval between two checks whether the database is the one that owns the buckets, from 1s to 5m."`
	HeartbeatInterval time.Duration `name:"installation-heartbeat-interval" env:"SERVICE_INSTALLATION_HEARTBEAT_INTERVAL" default:"1m" help:"Interval between two heartbeats of the database, written into the markers of three buckets, from 1s to 1h."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case c.CheckInterval < time.Second || c.CheckInterval > 5*time.Minute:
		return fmt.Errorf("SERVICE_INSTALLATION_CHECK_INTERVAL must be from 1s to 5m, not %s", c.CheckInterval)
	case c.HeartbeatInterval < time.Second || c.HeartbeatInterval > time.Hour:
		return fmt.Errorf("SERVICE_INSTALLATION_HEARTBEAT_INTERVAL must be from 1s to 1h, not %s", c.HeartbeatInterval)
	}
	return nil
}

// errNotChecked is the decision before the first check.
var errNotChecked = fault.WithReason(fault.New(fault.Unavailable, "the identity of the database has not been checked yet"), fault.Starting)

// Deps are the dependencies of a Guard.
type Deps struct {
	Store   Store
	Markers Markers
	Log     *slog.Logger
}

// Guard keeps the decision whether this database may write to the object store. It is safe for
// concurrent use.
type Guard struct {
	cfg  Config
	deps Deps

	mu       sync.Mutex
	decision error // nil = this database may write to the object store
	state    State
	verified bool // the markers were read since this process started
	examined bool // the markers were read, or there were none to read, since this process started
	warned   string
}

// NewGuard returns a Guard. It allows nothing before its first check.
func NewGuard(cfg Config, deps Deps) *Guard {
	return &Guard{cfg: cfg, deps: deps, decision: errNotChecked}
}

// uncheckedInterval is the interval between two checks until the first one succeeds.
const uncheckedInterval = time.Second

// Run checks at once and then in intervals, and beats when a heartbeat is due, until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	for {
		interval := g.cfg.CheckInterval
		if err := g.Check(ctx); errors.Is(err, errNotChecked) || errors.Is(g.BucketsWritable(), errNotExamined) {
			interval = uncheckedInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// Writable returns nil if this database may write to the object store, as the last check found it,
// and otherwise an Unavailable fault with reason Held, OtherInstallation or Schema. It causes no
// request: call it for every write.
func (g *Guard) Writable() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.decision
}

// errNotExamined is the decision about buckets before the markers were read.
var errNotExamined = fault.New(fault.Unavailable, "the object store has not shown yet that its buckets belong to this database")

// BucketsWritable is Writable for a write to the object store: it also returns an Unavailable fault
// until the markers were read once. While the object store is away, the database alone decides about
// other changes.
func (g *Guard) BucketsWritable() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.decision == nil && !g.examined {
		return errNotExamined
	}
	return g.decision
}

// State returns the row as the last check read it; zero before the first one.
func (g *Guard) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}

// Check reads the row, and the markers if a heartbeat is due, and returns the new decision. A store
// that cannot be reached proves nothing: the decision stays.
func (g *Guard) Check(ctx context.Context) error {
	state, err := g.readRow(ctx)
	if err == nil {
		err = g.beatIfDue(ctx, state)
		if err != nil && !isDecision(err) && ctx.Err() == nil {
			g.warnOnce(ctx, err)
			err = nil // the row is in order
		}
	}
	return g.decide(ctx, err)
}

// warnOnce logs that no heartbeat was written, unless the last check had the same error.
func (g *Guard) warnOnce(ctx context.Context, err error) {
	g.mu.Lock()
	repeated := g.warned == fault.From(err).Public
	g.warned = fault.From(err).Public
	g.mu.Unlock()
	if !repeated {
		g.deps.Log.WarnContext(ctx, "no heartbeat was written", "error", err)
	}
}

// beatIfDue beats if a heartbeat is due. A process that starts reads the markers in any case:
// another process may have beaten for a database of which this one is a copy.
func (g *Guard) beatIfDue(ctx context.Context, state State) error {
	g.mu.Lock()
	verified := g.verified
	g.mu.Unlock()
	if g.isDue(state) {
		if err := g.beat(ctx, g.isDue); !errors.Is(err, errBeaten) {
			return err
		}
		return nil
	}
	if !verified {
		_, err := g.verify(ctx)
		return err
	}
	return nil
}

// isDue reports whether a heartbeat is due. An age below zero is due: a clock that was set back
// must not end the heartbeats.
func (g *Guard) isDue(state State) bool {
	return state.HeartbeatAge >= g.cfg.HeartbeatInterval || state.HeartbeatAge < 0
}

// beatAttempts bounds how often Beat tries again after another process has beaten.
const beatAttempts = 5

// Beat verifies the markers and writes a heartbeat now. It returns nil only if the markers prove
// that this database owns the buckets, or if there are none: call it before anything is removed.
func (g *Guard) Beat(ctx context.Context) error {
	_, err := g.readRow(ctx)
	for attempt := 0; err == nil && attempt < beatAttempts; attempt++ {
		if err = g.beat(ctx, func(State) bool { return true }); err == nil {
			break
		}
		if errors.Is(err, errBeaten) && attempt < beatAttempts-1 {
			err = nil
		}
	}
	if err == nil || isDecision(err) {
		return g.decide(ctx, err)
	}
	return err
}

// isDecision reports whether an error is a decision, and not a store that does not respond.
func isDecision(err error) bool {
	switch fault.ReasonOf(err) { //nolint:exhaustive // all others are failures of a store
	case fault.Held, fault.OtherInstallation, fault.Schema:
		return true
	}
	return false
}

// decide keeps err as the decision if it is one, logs a change, and returns the decision.
func (g *Guard) decide(ctx context.Context, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	previous := g.decision
	switch {
	case err != nil && !isDecision(err):
		if ctx.Err() == nil {
			g.deps.Log.WarnContext(ctx, "the installation cannot be checked", "error", err)
		}
		return previous
	case err == nil && isDecision(previous):
		g.deps.Log.InfoContext(ctx, "this database may write to the object store again")
	case err != nil && err.Error() != previousText(previous):
		g.deps.Log.ErrorContext(ctx, fault.From(err).Public, "error", err)
	}
	g.decision = err
	return err
}

func previousText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// readRow reads the row and compares the server with the recorded one.
func (g *Guard) readRow(ctx context.Context) (State, error) {
	if err := g.deps.Store.CheckSchema(ctx); err != nil {
		return State{}, err
	}
	state, err := g.deps.Store.Installation(ctx)
	if err != nil {
		return State{}, err
	}
	g.mu.Lock()
	g.state = state
	g.mu.Unlock()
	switch {
	case state.HoldReason != "":
		return state, held(state.HoldReason)
	case !state.Server.Matches(state.CurrentServer):
		return state, g.hold(ctx, otherServer(state))
	case state.Server == Server{}:
		return state, g.deps.Store.RecordServer(ctx, state.CurrentServer)
	}
	return state, nil
}

// resumeHint is the end of the messages of a hold.
const resumeHint = "nothing is written to the object store until you run mediastack-runtime resume-after-restore"

// otherServer says that the server is not the recorded one.
func otherServer(s State) string {
	return fmt.Sprintf("the database is a copy, or was restored from a dump or moved: it records the server %q, and is on the server %q", s.Server, s.CurrentServer)
}

// held returns the fault of a hold.
func held(reason string) error {
	return fault.WithReason(fault.New(fault.Unavailable, "%s; %s", reason, resumeHint), fault.Held)
}

// hold records the reason, and returns its fault.
func (g *Guard) hold(ctx context.Context, reason string) error {
	err := held(reason)
	if failed := g.deps.Store.Hold(ctx, reason); failed != nil {
		return fault.WithReason(fault.Wrap(failed, fault.Unavailable, "%s", fault.From(err).Public), fault.Held)
	}
	return err
}

// witnesses is the number of markers that carry the heartbeat: one that is removed with its
// account leaves others.
const witnesses = 3

// maxWitnessReads bounds how many buckets without a marker a heartbeat passes over.
const maxWitnessReads = 60

// witnessed is a marker with its bucket.
type witnessed struct {
	bucket  string
	marker  Marker
	erasing bool // it is read only
}

// errBeaten is returned by beat if another process has written a heartbeat at the same time.
var errBeaten = fault.New(fault.Unavailable, "another process wrote a heartbeat at the same time")

// beat verifies the markers, increases the heartbeat of the row, then writes it into the markers.
// A process that ends in between leaves markers behind the row, which proves nothing wrong.
// It ends after the verification if isDue does not hold any more.
func (g *Guard) beat(ctx context.Context, isDue func(State) bool) error {
	read, err := g.verify(ctx)
	if err != nil || !isDue(read.state) {
		return err
	}
	next := read.state
	next.Heartbeat, next.Token = next.Heartbeat+1, uuid.New()
	advanced, err := g.deps.Store.AdvanceHeartbeat(ctx, read.state, next.Token)
	if err != nil {
		return err
	}
	if !advanced {
		return errBeaten
	}
	for _, w := range read.markers {
		if w.erasing {
			continue
		}
		err := g.deps.Markers.WriteWitness(ctx, w.bucket, w.marker, next.Witness())
		if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
			// The operator rewrote it, or removed it with its account, or a copy of this database beat.
			if _, err := g.verify(ctx); err != nil {
				return err
			}
			return errBeaten
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verification is what verify read.
type verification struct {
	state   State
	markers []witnessed
}

// verify compares the markers with the row. The markers are read first: a process increases
// the row before it writes a marker, so a row that is behind has lost something.
func (g *Guard) verify(ctx context.Context) (verification, error) {
	markers, err := g.readMarkers(ctx)
	if err == nil || errors.Is(err, errNoMarker) {
		g.mu.Lock()
		g.examined, g.warned = true, ""
		g.mu.Unlock()
	}
	if err != nil {
		return verification{}, err
	}
	state, err := g.deps.Store.Installation(ctx)
	if err != nil {
		return verification{}, err
	}
	if state.HoldReason != "" {
		return verification{}, held(state.HoldReason)
	}
	for _, w := range markers {
		if w.marker.InstallationID != state.ID {
			return verification{}, mismatch(w.bucket, w.marker.InstallationID, state.ID)
		}
		if reason := behind(state, w); reason != "" {
			return verification{}, g.hold(ctx, reason)
		}
	}
	g.mu.Lock()
	g.verified = true
	g.mu.Unlock()
	return verification{state: state, markers: markers}, nil
}

// mismatch returns the fault of a bucket that belongs to another installation.
func mismatch(bucket string, marker, row uuid.UUID) error {
	return fault.WithReason(fault.New(fault.Unavailable, "bucket %s belongs to installation %s, and the database is that of installation %s: nothing is written to the object store until the configuration names the database of the same installation", bucket, marker, row), fault.OtherInstallation)
}

// behind says how the row is behind a marker; empty if it is not.
func behind(row State, w witnessed) string {
	m := w.marker
	switch {
	case m.Epoch > row.Epoch:
		return fmt.Sprintf("the database was restored: it has epoch %d, and the marker of bucket %s has epoch %d", row.Epoch, w.bucket, m.Epoch)
	case m.Heartbeat > row.Heartbeat:
		return fmt.Sprintf("the database was restored: its heartbeat is %d, and the marker of bucket %s has heartbeat %d", row.Heartbeat, w.bucket, m.Heartbeat)
	case m.Heartbeat == row.Heartbeat && m.Heartbeat > 0 && m.Token != row.Token:
		return fmt.Sprintf("two databases write to this object store: heartbeat %d has token %s in the database, and token %s in the marker of bucket %s", row.Heartbeat, row.Token, m.Token, w.bucket)
	}
	return ""
}

// errNoMarker is wrapped by the error for buckets that have no marker.
var errNoMarker = errors.New("no marker was found")

// readMarkers reads the markers of the first owned buckets. It passes over buckets without a
// marker of their account: their accounts may have been erased after a backup. It is Unavailable
// if there are buckets of accounts that are not being erased, and none has a marker.
func (g *Guard) readMarkers(ctx context.Context) ([]witnessed, error) {
	var found []witnessed
	var after uuid.UUID
	expected := 0 // buckets that must have a marker
	for read := 0; read < maxWitnessReads; {
		buckets, err := g.deps.Store.WitnessBuckets(ctx, after, witnesses)
		if err != nil {
			return nil, err
		}
		for _, bucket := range buckets {
			marker, err := g.deps.Markers.Marker(ctx, bucket.Name)
			missing := fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict)
			if err != nil && !missing {
				return nil, err
			}
			if !missing && marker.AccountID == bucket.AccountID.String() {
				if found = append(found, witnessed{bucket.Name, marker, bucket.Erasing}); len(found) == witnesses {
					return found, nil
				}
			}
			if after = bucket.AccountID; !bucket.Erasing {
				expected++
			}
		}
		read += len(buckets)
		if len(buckets) < witnesses {
			if expected > 0 && len(found) == 0 {
				return nil, fault.Wrap(errNoMarker, fault.Unavailable, "no bucket of %d has the marker of its account, so that nothing proves that this database owns them", expected)
			}
			return found, nil
		}
	}
	if expected > 0 && len(found) == 0 {
		return nil, fault.Wrap(errNoMarker, fault.Unavailable, "none of %d buckets has the marker of its account, so that nothing proves that this database owns them", maxWitnessReads)
	}
	return found, nil
}
