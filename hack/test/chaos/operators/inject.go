package operators

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/hack/test/chaos/faults"
)

const (
	// requestWait bounds the wait for the request at which an operator is killed: one that is not
	// the leader sends few.
	requestWait = 2 * time.Second
	// maxFrozen bounds how long an operator is stopped while another one takes the lease.
	maxFrozen = 6 * time.Second
)

// server is a process that can be killed and started again with its data.
type server struct {
	kill    func()
	restart func(context.Context) error
}

// newSchedule returns the faults of this scenario.
func newSchedule(e *environment, m *model, seed uint64) *faults.Schedule {
	a, b := e.operators[0], e.operators[1]
	list := []faults.Fault{
		{Name: "kill both operators", Weight: 6, Kills: 2, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
			a.current().Kill()
			b.current().Kill()
			return true, e.dropLease(ctx, draw)
		}},
		{Name: "delete the lease", Weight: 4, Run: func(ctx context.Context, _ *rand.Rand) (bool, error) { return true, e.deleteLease(ctx) }},
		{Name: "steal the lease", Weight: 4, Run: func(ctx context.Context, _ *rand.Rand) (bool, error) { return true, e.stealLease(ctx) }},
		{Name: "freeze an operator without its lease", Weight: 4, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
			return true, e.freeze(ctx, e.operators[draw.IntN(2)])
		}},
	}
	for _, o := range e.operators {
		list = append(list, e.killAtRequest(o, "S3", o.s3), e.killAtRequest(o, "PostgreSQL", o.db), e.killAtRequest(o, "the API server", o.kube))
	}
	for _, target := range []struct {
		name   string
		server server
	}{
		{"PostgreSQL", server{func() { e.db.Kill() }, e.db.Restart}},
		{"S3", server{func() { e.s3.Kill() }, e.s3.Restart}},
		{"the API server", server{func() { e.kube.APIServer.Kill() }, e.kube.RestartAPIServer}},
	} {
		list = append(list, faults.Fault{Name: "kill " + target.name, Weight: 3, Kills: 1, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
			down := faults.Duration(draw, 0, 2*time.Second)
			target.server.kill()
			faults.Sleep(ctx, down)
			return true, target.server.restart(context.WithoutCancel(ctx))
		}})
	}
	for _, target := range []struct {
		name  string
		proxy func(*operator) *faults.Proxy
	}{
		{"PostgreSQL", func(o *operator) *faults.Proxy { return o.db }},
		{"S3", func(o *operator) *faults.Proxy { return o.s3 }},
		{"the API server", func(o *operator) *faults.Proxy { return o.kube }},
	} {
		for _, outage := range []struct {
			name string
			mode faults.Mode
		}{{"disconnect", faults.Cut}, {"stall", faults.Stall}, {"mute", faults.Mute}} {
			list = append(list,
				faults.Fault{Name: outage.name + " " + target.name, Weight: 1, Run: faults.Outage(outage.mode, 3*time.Second, target.proxy(a), target.proxy(b))},
				faults.Fault{Name: outage.name + " " + target.name + " for one operator", Weight: 1, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
					return faults.Outage(outage.mode, 3*time.Second, target.proxy(e.operators[draw.IntN(2)]))(ctx, draw)
				}},
			)
		}
	}
	return faults.New(seed, list, 1200*time.Millisecond, m.recordFault)
}

// killAtRequest kills an operator when it sends the n-th request from now on. The request reaches
// the server, and its answer nobody.
func (e *environment) killAtRequest(o *operator, where string, proxy *faults.Proxy) faults.Fault {
	return faults.Fault{Name: "kill " + o.name + " at a request to " + where, Weight: 12, Kills: 1, Run: func(ctx context.Context, draw *rand.Rand) (bool, error) {
		request := proxy.Await(1 + draw.IntN(60))
		waiting, cancel := context.WithTimeout(ctx, requestWait)
		select {
		case <-request.Passing:
		case <-waiting.Done():
			proxy.Forget(request)
		}
		cancel()
		o.current().Kill()
		close(request.Pass)
		return true, e.dropLease(ctx, draw)
	}}
}

// dropLease mostly ends the lease of a dead leader, which otherwise lasts for seconds in which
// nothing would be killed at work.
func (e *environment) dropLease(ctx context.Context, draw *rand.Rand) error {
	if draw.IntN(10) == 0 {
		return nil
	}
	return e.deleteLease(ctx)
}

func (e *environment) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: leaseName}}
}

func (e *environment) deleteLease(ctx context.Context) error {
	return client.IgnoreNotFound(persist(ctx, func(ctx context.Context) error { return e.admin.Delete(ctx, e.lease()) }))
}

// stealLease writes another holder into the lease, as a replica of another cluster's restored etcd
// would.
func (e *environment) stealLease(ctx context.Context) error {
	lease := e.lease()
	if err := persist(ctx, func(ctx context.Context) error { return e.admin.Get(ctx, client.ObjectKeyFromObject(lease), lease) }); err != nil {
		return client.IgnoreNotFound(err)
	}
	base := lease.DeepCopy()
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.AcquireTime, lease.Spec.RenewTime = new("thief"), new(int32(2)), &now, &now
	return client.IgnoreNotFound(persist(ctx, func(ctx context.Context) error { return e.admin.Patch(ctx, lease, client.MergeFrom(base)) }))
}

// freeze stops an operator, deletes the lease, and lets it go on when another one leads: for a
// moment it does not know that it does not lead any more.
func (e *environment) freeze(ctx context.Context, o *operator) error {
	process := o.current()
	if process.Signal(syscall.SIGSTOP) != nil {
		return nil // it has just ended
	}
	defer func() { _ = process.Signal(syscall.SIGCONT) }()
	if err := e.deleteLease(ctx); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, maxFrozen)
	defer cancel()
	for waiting.Err() == nil {
		if err := e.admin.Get(waiting, client.ObjectKeyFromObject(e.lease()), e.lease()); err == nil {
			break
		}
		faults.Sleep(waiting, 100*time.Millisecond)
	}
	faults.Sleep(ctx, 500*time.Millisecond) // the new leader begins to work
	return nil
}
