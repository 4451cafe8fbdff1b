package operator_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/objectstatus"
	"mediastack.dev/hack/testenv/wait"
)

// removeByForce deletes an object as an admin does who removes its finalizers.
func (b *harness) removeByForce(object client.Object) {
	b.t.Helper()
	wait.UntilNone(b.t, func() string {
		must(b.t, client.IgnoreNotFound(b.Get(b.ctx, client.ObjectKeyFromObject(object), object)))
		object.SetFinalizers(nil)
		if err := b.Update(b.ctx, object); err != nil && !apierrors.IsNotFound(err) {
			return err.Error()
		}
		return ""
	})
}

// clusterEvent waits for an event of a cluster-scoped object.
func (b *harness) clusterEvent(name, reason, mentions string) {
	b.t.Helper()
	clients, err := kubernetes.NewForConfig(b.plane.Access())
	must(b.t, err)
	wait.UntilNone(b.t, func() string {
		list, err := clients.EventsV1().Events(metav1.NamespaceDefault).List(b.ctx, metav1.ListOptions{FieldSelector: "regarding.name=" + name})
		must(b.t, err)
		for _, event := range list.Items {
			if event.Reason == reason && strings.Contains(event.Note, mentions) {
				return ""
			}
		}
		return "there is no event " + reason
	})
}

func TestOrphan_IsRetainedWithAnEvent(t *testing.T) {
	t.Parallel()
	b := newHarness(t, idle)
	stop := b.run(b.config)
	object := b.readyAccount("demo")
	id, key := b.accountID(object), b.secret("demo", "default").Data["apiKey"]
	// Without the operator nobody sees the finalizer go.
	stop()
	must(t, b.Delete(b.ctx, object))
	b.removeByForce(object)
	b.gone(object)
	if !b.opens(key) {
		t.Fatal("the account is closed before the operator looked")
	}
	b.run(b.config)
	kept := b.retained(id)
	if b.opens(key) {
		t.Error("the key outlives the MediaAccount")
	}
	b.clusterEvent(kept.Name, "MediaAccountMissing", b.namespace+"/demo")
}

// lateWatch is a transport whose watches of MediaAccounts deliver nothing while it holds them, as
// over a connection that hangs. It counts the reads of single MediaAccounts.
type lateWatch struct {
	held    atomic.Bool
	release chan struct{}
	reads   atomic.Int64
}

func (l *lateWatch) around(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		_, single, _ := strings.Cut(request.URL.Path, "/mediaaccounts/")
		switch {
		case err != nil:
		case single != "" && request.Method == http.MethodGet:
			l.reads.Add(1)
		case strings.HasSuffix(request.URL.Path, "/mediaaccounts") && request.URL.Query().Get("watch") != "":
			response.Body = lateBody{ReadCloser: response.Body, watch: l, ended: request.Context().Done()}
		}
		return response, err
	})
}

type lateBody struct {
	io.ReadCloser
	watch *lateWatch
	ended <-chan struct{}
}

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.watch.held.Load() {
		select {
		case <-b.watch.release:
		case <-b.ended:
		}
	}
	return n, err
}

// The cache only says at which accounts to look: a watch that hangs must not close the account of
// a MediaAccount that exists.
func TestOrphan_LateCacheClosesNoAccount(t *testing.T) {
	t.Parallel()
	b := newHarness(t, idle)
	stop := b.run(b.config)
	object := b.readyAccount("demo")
	id := b.accountID(object)
	stop()
	must(t, b.Delete(b.ctx, object))
	b.removeByForce(object)
	b.gone(object)

	watch := &lateWatch{release: make(chan struct{})}
	b.transport = watch.around
	slow := b.config
	slow.OrphanDelay = 15 * time.Second // Git applies the object again meanwhile
	b.run(slow)
	b.looksAgain(watch, 1)
	watch.held.Store(true)
	again := b.account("demo")
	b.looksAgain(watch, 20) // one look each second
	if row := b.row("demo"); row.ID != id || row.ObjectUID != string(object.UID) {
		t.Fatalf("the account is %+v, want that of the former object until the watch delivers", row)
	}
	close(watch.release)
	b.ready(again)
	if b.accountID(again) != id {
		t.Errorf("the account is %s, want %s", b.accountID(again), id)
	}
}

// looksAgain waits until the operator has read MediaAccounts n times more.
func (b *harness) looksAgain(watch *lateWatch, n int64) {
	b.t.Helper()
	before := watch.reads.Load()
	wait.UntilNone(b.t, func() string {
		if now := watch.reads.Load(); now < before+n {
			return fmt.Sprintf("the operator has read %d MediaAccounts, want %d", now, before+n)
		}
		return ""
	})
}

// An operator sees the MediaAccounts of its namespaces only: it must not take all other accounts
// for orphans.
func TestOrphan_AccountOutsideTheWatchedNamespacesIsNone(t *testing.T) {
	t.Parallel()
	b := newHarness(t, idle)
	elsewhere := b.anotherNamespace()
	both, one := b.config, b.config
	both.Namespaces, one.Namespaces = []string{b.namespace, elsewhere}, []string{b.namespace}
	stop := b.run(both)
	here, there := b.account("demo"), b.account("demo", inNamespace(elsewhere))
	b.ready(here)
	b.ready(there)
	stop()
	for _, object := range []*v1alpha1.MediaAccount{here, there} {
		must(t, b.Delete(b.ctx, object))
		b.removeByForce(object)
		b.gone(object)
	}
	stop = b.run(one)
	b.retained(b.accountID(here)) // both looks have taken place
	if found, err := b.registry.Find(b.ctx, elsewhere, "demo"); err != nil || found.ID != b.accountID(there) {
		t.Errorf("the account outside of the watched namespaces is %+v, %v", found, err)
	}
	stop()
	b.run(both)
	b.retained(b.accountID(there))
}

// anotherNamespace creates a namespace, the objects of which are recorded as those of the test's.
func (b *harness) anotherNamespace() string {
	b.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(b.t, b.Create(b.ctx, namespace))
	objectstatus.Record(b.t, b.plane.Access(), namespace.Name)
	return namespace.Name
}

func inNamespace(name string) func(*v1alpha1.MediaAccount) {
	return func(a *v1alpha1.MediaAccount) { a.Namespace = name }
}
