package reconcile

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Gate stops every reconcile while the operator must write nothing: the database belongs to
// another cluster, was restored, or has another schema. It is closed until Open is called, and
// safe for concurrent use.
type Gate struct {
	mu      sync.Mutex
	open    bool
	changed chan struct{} // closed and replaced at each change
	running int           // calls of Do that are past the gate
	idle    chan struct{} // closed when the last of them ends; nil = nobody waits
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{changed: make(chan struct{})} }

// Open lets reconciles run. It reports whether the gate was closed.
func (g *Gate) Open() bool { return g.set(true) }

// Close stops reconciles, and cancels the context of those that run. It reports whether the
// gate was open.
func (g *Gate) Close() bool { return g.set(false) }

func (g *Gate) set(open bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == open {
		return false
	}
	g.open = open
	close(g.changed)
	g.changed = make(chan struct{})
	return true
}

// IsOpen reports whether reconciles may run.
func (g *Gate) IsOpen() bool {
	open, _ := g.state()
	return open
}

func (g *Gate) state() (open bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.changed
}

// Wait returns when the gate is open, or the context has ended.
func (g *Gate) Wait(ctx context.Context) error {
	_, err := g.wait(ctx)
	return err
}

// wait returns the channel that is closed when the open gate closes.
func (g *Gate) wait(ctx context.Context) (<-chan struct{}, error) {
	for {
		open, changed := g.state()
		if open {
			return changed, ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enter waits until the gate is open, and counts the caller until it calls leave.
func (g *Gate) enter(ctx context.Context) (closes <-chan struct{}, err error) {
	for {
		if _, err := g.wait(ctx); err != nil {
			return nil, err
		}
		g.mu.Lock()
		if g.open {
			g.running++
			closes = g.changed
			g.mu.Unlock()
			return closes, nil
		}
		g.mu.Unlock()
	}
}

func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Idle returns when no call of Do is past the gate. The caller has closed the gate.
func (g *Gate) Idle(ctx context.Context) error {
	g.mu.Lock()
	if g.running == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do waits until the gate is open and calls do with a context that ends when the gate closes.
func (g *Gate) Do(ctx context.Context, do func(ctx context.Context) error) error {
	closes, err := g.enter(ctx)
	if err != nil {
		return err
	}
	defer g.leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-closes:
			cancel(errClosed)
		case <-done:
		}
	}()
	return do(ctx)
}

// errClosed is the cause of the end of a context, and the error of a denied request.
var errClosed = errors.New("the operator writes nothing until it has verified its installation")

// resumeDelay is the pause before a reconcile that the gate interrupted waits for it again.
const resumeDelay = time.Second

// Gated returns r behind the gate. A request of a closed gate waits in its worker, and runs when
// the gate opens. A reconcile that the gate interrupted is repeated then, without an error: the
// log has one line for the gate, and none for each object.
func Gated(gate *Gate, r ctrlreconcile.Reconciler) ctrlreconcile.Reconciler {
	return ctrlreconcile.Func(func(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
		err = gate.Do(ctx, func(ctx context.Context) error {
			result, err = r.Reconcile(ctx, request)
			return err
		})
		if err != nil && (ctx.Err() != nil || !gate.IsOpen()) {
			return ctrl.Result{RequeueAfter: resumeDelay}, nil
		}
		return result, err
	})
}

// Transport denies the requests that write while the gate is closed, so that no part of the
// operator can write by omitting the gate. Leases, and the events of the leader election, are
// not the installation's: they pass.
func (g *Gate) Transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if g.IsOpen() || !writes(request) {
			return next.RoundTrip(request)
		}
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, errClosed
	})
}

// leaderElectionPath matches leases, and core events. A proxy before the API server may add a prefix.
var leaderElectionPath = regexp.MustCompile(`/apis/coordination\.k8s\.io/v1/namespaces/[^/]+/leases(/[^/]+)?$|/api/v1/namespaces/[^/]+/events$`)

// writes reports whether a request changes objects that are not of the leader election. Events
// about MediaAccounts are of the group events.k8s.io.
func writes(request *http.Request) bool {
	if request.Method == http.MethodGet || request.Method == http.MethodHead {
		return false
	}
	return !leaderElectionPath.MatchString(request.URL.Path)
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
