package operator_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/operator"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

// runningProcess is an operator as its main runs it.
type runningProcess struct {
	t     *testing.T
	port  int // of the probes
	ended chan error
	stop  context.CancelFunc

	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer: it takes the log.
func (p *runningProcess) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(line)
}

// text returns the log.
func (p *runningProcess) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// logged returns how many lines of the log have all texts.
func (p *runningProcess) logged(texts ...string) (lines int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.log.String()) {
		has := true
		for _, text := range texts {
			has = has && strings.Contains(line, text)
		}
		if has {
			lines++
		}
	}
	return lines
}

// logs waits until a line of the log has all texts.
func (p *runningProcess) logs(texts ...string) {
	p.t.Helper()
	wait.UntilNone(p.t, func() string {
		p.stillRuns()
		if p.logged(texts...) == 0 {
			return fmt.Sprintf("no line of the log has %q:\n%s", texts, p.text())
		}
		return ""
	})
}

// stillRuns fails the test if the operator has ended.
func (p *runningProcess) stillRuns() {
	p.t.Helper()
	select {
	case err := <-p.ended:
		p.t.Fatalf("the operator ended with %v", err)
	default:
	}
}

// answers waits until a probe answers with a status.
func (p *runningProcess) answers(path string, status int) {
	p.t.Helper()
	wait.UntilNone(p.t, func() string {
		p.stillRuns()
		if got, body := probe(p.t, p.port, path); got != status {
			return fmt.Sprintf("%s answers %d %s", path, got, body)
		}
		return ""
	})
}

// end ends the operator as SIGTERM does.
func (p *runningProcess) end() {
	p.t.Helper()
	p.stillRuns()
	p.stop()
	must(p.t, wait.Receive(p.t, "the operator has ended", p.ended))
}

// process runs an operator as its main does.
func (b *harness) process(change ...func(*operator.Deps)) *runningProcess {
	b.t.Helper()
	p := &runningProcess{t: b.t, port: testenv.FreePort(b.t), ended: make(chan error, 1)}
	cfg := b.config
	cfg.HealthListen = fmt.Sprintf("127.0.0.1:%d", p.port)
	kube := b.access()
	deps := operator.Deps{
		Accounts: b.database.Accounts, Settings: b.database.Settings, Pictures: b.database.Pictures, Buckets: b.buckets, Runtimes: b.database.Installations, Changes: b.database, Installation: b.database.Installations, Markers: b.store, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(p, nil)),
	}
	for _, change := range change {
		change(&deps)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	var running sync.WaitGroup
	running.Go(func() { p.ended <- operator.Run(ctx, kube, cfg, deps, prometheus.NewRegistry()) })
	b.t.Cleanup(func() { cancel(); running.Wait() })
	return p
}

// lease returns the holder of the lease, and how often it changed.
func (b *harness) lease() (holder string, transitions int32) {
	b.t.Helper()
	clients, err := kubernetes.NewForConfig(b.plane.Access())
	must(b.t, err)
	lease, err := clients.CoordinationV1().Leases(b.namespace).Get(b.ctx, "mediastack-operator", metav1.GetOptions{})
	if err != nil {
		lease = &coordinationv1.Lease{}
	}
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.LeaseTransitions != nil {
		transitions = *lease.Spec.LeaseTransitions
	}
	return holder, transitions
}

// suspends suspends an account, and waits until the runtime denies its requests.
func (b *harness) suspends(object *v1alpha1.MediaAccount) {
	b.t.Helper()
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Suspended = true })
	wait.UntilNone(b.t, func() string {
		if b.sql(`SELECT count(*) FROM account WHERE id = $1 AND suspended`, object.Status.AccountID) == 0 {
			return "the account is not suspended"
		}
		return ""
	})
}

// An operator that started while the API server was away ended after 11 s, and the kubelet started it
// again up to 5 minutes later.
func TestRun_WaitsForTheAPIServerAtTheStart(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle, func(o *options) { o.plane = kubetest.New })
	b.access() // the token is issued by the API server
	b.plane.KillAPIServer()
	p := b.process()
	p.logs("waiting for the Kubernetes API server", "127.0.0.1")
	notReady(t, b, p.port, "the operator waits for the Kubernetes API server")
	p.answers("/healthz", http.StatusOK)
	b.plane.StartAPIServer()
	p.answers("/readyz", http.StatusOK)
	p.logs("the Kubernetes API server answers")
	b.ready(b.account("demo"))
	p.end()
}

// A leader that cannot renew its lease leads no more. It once ended, and the API server was back up to 5
// minutes before it was started again; and the informers of the other replica waited for up to a minute.
func TestRun_ContinuesAfterAnAbsenceOfTheAPIServer(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle, func(o *options) { o.plane = kubetest.New })
	grantIn(t, b.plane, b.namespace, "rbac/leader_election_role.yaml", "rbac/leader_election_role_binding.yaml")
	b.config.LeaderElect, b.config.LeaderElectionNamespace = true, b.namespace
	leader := b.process()
	leader.logs("reconciles run")
	objects := []*v1alpha1.MediaAccount{b.account("first"), b.account("second"), b.account("third")}
	for _, object := range objects {
		b.ready(object)
	}

	// The lease still names the process: it leads again without waiting until the lease expires.
	holder, transitions := b.lease()
	b.isAway(leader, "the lease was lost", leader)
	b.plane.StartAPIServer()
	b.suspends(objects[0])
	if now, changes := b.lease(); now != holder || changes != transitions {
		t.Errorf("the lease is held by %q after %d changes; before the absence by %q after %d", now, changes, holder, transitions)
	}
	leader.answers("/readyz", http.StatusOK)
	if starts := leader.logged("the operator starts again in this process"); starts != 1 {
		t.Errorf("the operator started again %d times:\n%s", starts, leader.text())
	}

	// The informers of a replica that does not lead try again at once, too.
	standby := b.process(b.ownConnections())
	standby.logs("this replica waits for its election")
	b.isAway(leader, "the lease was lost", leader, standby)
	b.plane.StartAPIServer()
	standby.logs("the operator starts again in this process", "is back after an absence")
	b.suspends(objects[1])
	standby.answers("/readyz", http.StatusOK)
	leader.end()
	b.suspends(objects[2])
	standby.end()
}

// isAway kills the API server, and waits until the leader leads no more. No replica ends.
func (b *harness) isAway(leader *runningProcess, reason string, all ...*runningProcess) {
	b.t.Helper()
	before := leader.logged("the operator starts again in this process", reason)
	b.plane.KillAPIServer()
	wait.Until(b.t, "the leader has lost its lease", func() bool {
		leader.stillRuns()
		return leader.logged("the operator starts again in this process", reason) > before
	})
	leader.logs("waiting for the Kubernetes API server")
	for _, p := range all {
		p.answers("/readyz", http.StatusInternalServerError)
		p.answers("/healthz", http.StatusOK)
	}
}
