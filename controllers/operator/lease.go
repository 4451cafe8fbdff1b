package operator

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// leaseTimeout bounds one request for the lease: half of the 10 s after which a leader that cannot renew
// it ends, so that one request that hangs does not end it.
const leaseTimeout = 5 * time.Second

// lease makes the locks of the managers of one process, which have one identity. A manager that follows
// one that lost the lease acquires it at once, unless another process did: the lease still names this
// process. With an identity of its own it would have to wait until the lease expires, 15 s after the API
// server is back.
type lease struct {
	namespace    string
	core         *corev1client.CoreV1Client
	coordination *coordinationv1client.CoordinationV1Client
	config       resourcelock.ResourceLockConfig
}

// newLease returns the lease of a process. Its events are sent until ctx ends.
func newLease(ctx context.Context, kube *rest.Config, namespace string) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	kube = rest.AddUserAgent(kube, "leader-election")
	kube.Timeout = leaseTimeout
	l := &lease{namespace: namespace}
	if l.core, err = corev1client.NewForConfig(kube); err != nil {
		return nil, fmt.Errorf("create the client of the lease: %w", err)
	}
	if l.coordination, err = coordinationv1client.NewForConfig(kube); err != nil {
		return nil, fmt.Errorf("create the client of the lease: %w", err)
	}
	identity := host + "_" + uuid.NewString()
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: l.core.Events(namespace)})
	l.config = resourcelock.ResourceLockConfig{
		Identity: identity, EventRecorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: identity}),
	}
	return l, nil
}

// lock returns the lock of one manager.
func (l *lease) lock() (resourcelock.Interface, error) {
	return resourcelock.New(resourcelock.LeasesResourceLock, l.namespace, leaseName, l.core, l.coordination, l.config)
}

// leaseNamespace returns the namespace of the lease.
func (c *Config) leaseNamespace() string { return cmp.Or(c.LeaderElectionNamespace, c.Namespace) }
