// Package installation is the identity of the installation in the cluster. The Verifier compares
// the cluster, the ConfigMap beside the operator and the row in the database, and opens the gate
// of the reconcilers while they agree. The commands take-over and uninstall are here, too. The
// operator's manager runs the Verifier; docs/decisions/0014 explains the identity.
package installation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// Store has the row of the installation. Package postgres implements it.
type Store interface {
	installation.Store
	// BindInstallation binds the installation to a cluster, unless one is bound.
	BindInstallation(ctx context.Context, clusterUID string) (bool, error)
	// HoldAtEpoch puts the installation on hold, because something shows a later epoch.
	HoldAtEpoch(ctx context.Context, reason string, knownEpoch int64) error
	// BeginLeaderTerm begins the term of a new leader and returns it.
	BeginLeaderTerm(ctx context.Context, clusterUID string, epoch int64) (int64, error)
	// SetFence makes every write require that the installation is bound to the cluster at this
	// epoch, and that the leader term is this one; 0 permits any term.
	SetFence(clusterUID string, epoch, leaderTerm int64)
	// OnFenced sets the function that is called when such a write was rejected.
	OnFenced(rejected func())
}

// Config configures a Verifier.
type Config struct {
	installation.Config
	Namespace string // of the operator
}

// Deps are the parts that a Verifier uses.
type Deps struct {
	Kube    *rest.Config
	Store   Store
	Markers installation.Markers
	Gate    *reconcile.Gate
	// Elected is closed when this replica becomes the leader. Until then the gate stays closed.
	Elected <-chan struct{}
	Log     *slog.Logger
}

const (
	// lookTimeout bounds one comparison.
	lookTimeout = 10 * time.Second
	// firstInterval is the interval between comparisons until one succeeded.
	firstInterval = time.Second
)

// Verifier compares the identities and opens or closes the gate.
type Verifier struct {
	cluster cluster
	guard   *installation.Guard
	deps    Deps
	config  Config

	fenced atomic.Int64  // writes that the database rejected
	again  chan struct{} // asks Start for a comparison at once

	looking  sync.Mutex // one comparison at a time
	mu       sync.Mutex
	verified bool // a comparison succeeded
	problem  error
	away     error // the outage that the last comparison met; nil = none
	state    installation.State
	term     int64 // of this leader; 0 until it was elected
	replaced bool  // another replica leads in a later term
	ended    bool
}

// NewVerifier returns a Verifier. Until its first comparison, the store rejects every write.
func NewVerifier(config Config, deps Deps) (*Verifier, error) {
	c, err := client.New(deps.Kube, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("create the client of the installation: %w", err)
	}
	v := &Verifier{
		cluster: cluster{client: c, namespace: config.Namespace},
		guard:   installation.NewGuard(config.Config, installation.Deps{Store: deps.Store, Markers: deps.Markers, Log: deps.Log}),
		config:  config, deps: deps,
		again: make(chan struct{}, 1), problem: errors.New("no comparison has succeeded yet"),
	}
	deps.Store.SetFence("", 0, 0)
	deps.Store.OnFenced(v.onFenced)
	return v, nil
}

// Guard returns the guard that proves, before anything is removed, that the database was not
// restored.
func (v *Verifier) Guard() *installation.Guard { return v.guard }

// onFenced closes the gate before the rejected write returns, so that its reconcile cannot write
// a status about it.
func (v *Verifier) onFenced() {
	v.fenced.Add(1)
	v.deps.Gate.Close()
	select {
	case v.again <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica compares, and is
// ready or not.
func (*Verifier) NeedLeaderElection() bool { return false }

// Start compares at once, then periodically and when this replica is elected, until the context
// ends. It returns an error when another replica has begun to lead: this one must be elected again.
func (v *Verifier) Start(ctx context.Context) error {
	elected := v.deps.Elected
	for {
		if err := v.Look(ctx); err != nil {
			return err
		}
		timer := time.NewTimer(v.interval())
		select {
		case <-timer.C:
		case <-v.again:
		case <-elected:
			elected = nil
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// interval returns the interval until the next comparison.
func (v *Verifier) interval() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.verified || v.away != nil || v.term == 0 && v.elected() {
		return min(v.config.CheckInterval, firstInterval)
	}
	return v.config.CheckInterval
}

// elected reports whether this replica was elected.
func (v *Verifier) elected() bool {
	select {
	case <-v.deps.Elected:
		return true
	default:
		return false
	}
}

// Replaced reports whether Start ended because another replica has begun to lead.
func (v *Verifier) Replaced() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.replaced
}

// End makes later comparisons do nothing, and returns when none runs: after it, this Verifier changes
// neither the gate nor the fence, which the next one has set.
func (v *Verifier) End() {
	v.looking.Lock()
	defer v.looking.Unlock()
	v.ended = true
	verifiedGauge.Set(0)
}

// Ready is the readiness check: a replica is ready while its last comparison succeeded. During an
// outage of PostgreSQL or of the Kubernetes API it is not, since it reconciles nothing; the gate
// stays as it is, and the liveness check does not fail, since a restart would not end the outage.
func (v *Verifier) Ready(*http.Request) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return errors.Join(v.problem, v.away)
}

// Identity returns the identity that the markers of buckets record, as it was compared last.
func (v *Verifier) Identity(context.Context) (installation.Identity, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.problem != nil {
		return installation.Identity{}, fault.Wrap(v.problem, fault.Unavailable, "the installation is not verified")
	}
	return v.state.Identity, nil
}

// Look compares once, and opens or closes the gate, which is open while this replica leads. A
// database or an API server that cannot be reached changes neither. It returns an error if this
// replica led, and another one does.
func (v *Verifier) Look(ctx context.Context) error {
	v.looking.Lock()
	defer v.looking.Unlock()
	if v.ended {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	fenced := v.fenced.Load()
	state, err := v.compare(ctx)
	if err == nil {
		err = v.guardBuckets(ctx)
	}
	if err == nil {
		err = v.lead(ctx, state)
	}
	if err == nil && v.fenced.Load() != fenced { // rejected meanwhile: what was read is outdated
		return nil
	}
	var mismatch mismatchError
	var replaced replacedError
	switch {
	case err == nil:
		v.fence(state)
		v.set(nil, state)
	case errors.As(err, &replaced):
		v.deps.Gate.Close()
		v.mu.Lock()
		v.replaced = true
		v.mu.Unlock()
		return replaced
	case errors.As(err, &mismatch):
		v.deps.Store.SetFence("", 0, 0)
		v.set(mismatch, state)
	default:
		v.outage(err)
	}
	return nil
}

// lead begins the term of this replica once it was elected. From then on the database rejects the
// writes of the former leader, which may not know yet that it lost its lease.
func (v *Verifier) lead(ctx context.Context, state installation.State) error {
	v.mu.Lock()
	term := v.term
	v.mu.Unlock()
	if term != 0 && state.LeaderTerm != term {
		return replacedError{own: term, current: state.LeaderTerm}
	}
	if term != 0 || !v.elected() {
		return nil
	}
	term, err := v.deps.Store.BeginLeaderTerm(ctx, state.ClusterUID, state.Epoch)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.term = term
	return nil
}

// fence lets the leader write, and no other replica.
func (v *Verifier) fence(state installation.State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.term == 0 {
		v.deps.Store.SetFence("", 0, 0)
		return
	}
	v.deps.Store.SetFence(state.ClusterUID, state.Epoch, v.term)
}

// replacedError says that another replica leads, or that the database was restored to an earlier
// term. The process has to be elected again.
type replacedError struct{ own, current int64 }

func (e replacedError) Error() string {
	return fmt.Sprintf("this replica leads in term %d, and the database is in term %d: another replica was elected meanwhile, or the database was restored", e.own, e.current)
}

// mismatchError is a difference that closes the gate. Its text names both sides and what to do.
type mismatchError struct{ text string }

func (e mismatchError) Error() string { return e.text }

// guardBuckets compares the database with the markers of buckets, and writes its heartbeat into
// them. It is called only for the operator's own database: a heartbeat is a write.
func (v *Verifier) guardBuckets(ctx context.Context) error {
	err := v.guard.Check(ctx)
	switch fault.ReasonOf(err) { //nolint:exhaustive // all others are failures of a store
	case fault.Held, fault.OtherInstallation, fault.Schema:
		return mismatchError{fault.From(err).Public}
	}
	return err
}

// compareTries bounds the repetitions of a comparison that wrote something, or whose write
// conflicted with that of another replica.
const compareTries = 5

// compare returns the row if this cluster may write, a mismatchError if it may not, and another
// error if that is not known.
func (v *Verifier) compare(ctx context.Context) (row installation.State, err error) {
	if err := v.deps.Store.CheckSchema(ctx); err != nil {
		if fault.ReasonOf(err) == fault.Schema {
			return row, mismatchError{fault.From(err).Public}
		}
		return row, err
	}
	clusterUID, err := v.cluster.uid(ctx)
	if err != nil {
		return row, err
	}
	for range compareTries {
		var done bool
		if row, done, err = v.compareOnce(ctx, clusterUID); done {
			return row, err
		}
	}
	return row, err
}

// compareOnce compares both sides and writes what is missing on one of them. It is done when
// they agree, or cannot.
func (v *Verifier) compareOnce(ctx context.Context, clusterUID string) (row installation.State, done bool, err error) {
	record, existing, err := v.cluster.record(ctx)
	if err != nil {
		return row, true, err
	}
	if row, err = v.deps.Store.Installation(ctx); err != nil {
		if fault.ReasonOf(err) == fault.OtherInstallation {
			err = mismatchError{fault.From(err).Public}
		}
		return row, true, err
	}
	switch next, text := decide(clusterUID, record, row); next {
	case stop:
		return row, true, mismatchError{text}
	case hold:
		return row, false, v.deps.Store.HoldAtEpoch(ctx, text, record.Epoch)
	case bindRow:
		_, err := v.deps.Store.BindInstallation(ctx, clusterUID)
		return row, false, err
	case writeRecord:
		return row, false, v.cluster.write(ctx, recordOf(row), existing)
	}
	return row, true, nil
}

// set records the result of a comparison. The log has a line when it changes.
func (v *Verifier) set(problem error, state installation.State) {
	v.mu.Lock()
	before, term := v.problem, v.term
	v.problem, v.state, v.away = problem, state, nil
	v.verified = v.verified || problem == nil
	v.mu.Unlock()
	verifiedGauge.Set(0)
	if problem == nil {
		verifiedGauge.Set(1)
	}
	switch {
	case problem == nil && term == 0:
		if before != nil {
			v.deps.Log.Info("the installation is verified: this replica waits for its election", "installation", state.ID, "cluster", state.ClusterUID, "epoch", state.Epoch)
		}
		return
	case problem == nil:
		if v.deps.Gate.Open() {
			v.deps.Log.Info("the installation is verified: reconciles run", "installation", state.ID, "cluster", state.ClusterUID, "epoch", state.Epoch, "term", term)
		}
		return
	}
	v.deps.Gate.Close()
	if before == nil || before.Error() != problem.Error() {
		v.deps.Log.Error("the operator writes nothing", "reason", problem.Error())
	}
}

// outage records that nothing is known, unless a comparison succeeded or failed before.
func (v *Verifier) outage(err error) {
	v.mu.Lock()
	problem := fmt.Errorf("the installation is not verified yet: %s", publicText(err))
	known := v.verified || errors.As(v.problem, new(mismatchError)) || v.problem.Error() == problem.Error()
	if !known {
		v.problem = problem
	} else if v.verified {
		v.away = fmt.Errorf("the installation cannot be verified at present: %s", publicText(err))
	}
	v.mu.Unlock()
	if !known {
		v.deps.Log.Warn("the operator writes nothing until it has verified its installation", "error", err)
	}
}

// publicText returns the text of an error without the cause of a fault, which may name hosts.
func publicText(err error) string {
	var known *fault.Error
	if errors.As(err, &known) && known.Public != "" {
		return known.Public
	}
	return err.Error()
}
