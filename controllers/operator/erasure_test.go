package operator_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

// isBulkDelete reports whether a request to S3 removes several versions.
func isBulkDelete(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("delete")
}

var deletedKey = regexp.MustCompile(`<Key>([^<]*)</Key>`)

// denyDelete answers a bulk delete as a store does that keeps every version.
func denyDelete(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(w, `<DeleteResult>`)
	for _, key := range deletedKey.FindAllSubmatch(body, -1) {
		fmt.Fprintf(w, `<Error><Key>%s</Key><Code>AccessDenied</Code><Message>held</Message></Error>`, key[1])
	}
	fmt.Fprint(w, `</DeleteResult>`)
}

// withS3Proxy makes the harness use S3 through a proxy that answers some requests itself.
func withS3Proxy(answer func(w http.ResponseWriter, r *http.Request) bool) func(*options) {
	return func(o *options) {
		o.s3 = func(t testing.TB) testenv.S3Access { return testenv.S3Proxy(t, testenv.S3(t), answer) }
	}
}

// put stores n objects in a bucket.
func (b *harness) put(bucket string, n int) {
	b.t.Helper()
	for i := range n {
		must(b.t, b.store.Put(b.ctx, bucket, fmt.Sprintf("media/%d/original", i), "image/jpeg", strings.NewReader("bytes"), 5))
	}
}

func erasedAtOnce(a *v1alpha1.MediaAccount) {
	deleting(a)
	a.Spec.DeleteAfter = &metav1.Duration{}
}

// readyMessage returns the message of the condition Ready.
func (b *harness) readyMessage(object *v1alpha1.MediaAccount) string {
	b.t.Helper()
	must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
	for _, condition := range object.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition.Message
		}
	}
	return ""
}

// An account was once released although its store had kept objects.
func TestDeletion_BlockedStaysTerminatingAndCounts(t *testing.T) {
	t.Parallel()
	var denying atomic.Bool
	denying.Store(true)
	b := newHarness(t, withS3Proxy(func(w http.ResponseWriter, r *http.Request) bool {
		denied := denying.Load() && isBulkDelete(r)
		if denied {
			denyDelete(w, r)
		}
		return denied
	}))
	object := b.readyAccount("demo", erasedAtOnce)
	bucket, id := object.Status.Bucket, b.accountID(object)
	b.put(bucket, 3)
	must(t, b.Delete(b.ctx, object))
	b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDeletionBlocked)
	if got := b.readyMessage(object); !strings.HasPrefix(got, "the object store denies the removal of 3 versions in bucket "+bucket+": AccessDenied for media/") {
		t.Errorf("the message is %q", got)
	}
	if found, err := b.registry.FindOfObject(b.ctx, b.namespace, "demo", string(object.UID)); err != nil || found.ID != id {
		t.Errorf("the account is gone: %v", err)
	}
	denying.Store(false)
	b.gone(object)
	b.hasNoBucket(bucket)
}

// 20 large deletions once held up every other account, since they had the same workers.
func TestDeletion_HoldsUpNoOtherAccount(t *testing.T) {
	t.Parallel()
	const deletions = 20
	release, waiting := make(chan struct{}), make(chan struct{}, 10*deletions)
	b := newHarness(t, withS3Proxy(func(_ http.ResponseWriter, r *http.Request) bool {
		if isBulkDelete(r) {
			waiting <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	}), func(o *options) { o.config.Concurrency = 4 })
	other, retained := b.account("other"), b.account("retained")
	b.ready(other)
	b.ready(retained)
	large := make([]*v1alpha1.MediaAccount, deletions)
	keys := make([][]byte, deletions)
	for i := range large {
		large[i] = b.account(fmt.Sprintf("large-%d", i), erasedAtOnce)
	}
	for i, object := range large {
		b.ready(object)
		b.put(object.Status.Bucket, 2)
		keys[i] = b.secret(object.Name, "default").Data["apiKey"]
	}
	for _, object := range large {
		must(t, b.Delete(b.ctx, object))
	}
	for range 2 { // both workers of deletions are busy
		wait.Receive(t, "a worker deletes", waiting)
	}
	change(b, other, func(a *v1alpha1.MediaAccount) { a.Spec.DisplayName = "Changed" })
	b.ready(other)
	if found, err := b.registry.Find(b.ctx, b.namespace, "other"); err != nil || found.DisplayName != "Changed" {
		t.Errorf("the change has no effect: %+v, %v", found, err)
	}
	must(t, b.Delete(b.ctx, retained))
	b.gone(retained)
	for i, object := range large {
		wait.UntilNone(b.t, func() string {
			if b.opens(keys[i]) {
				return "the key of a deleted account opens it"
			}
			return ""
		})
		// It still exists, and says what it waits for.
		b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting)
	}
	close(release)
	for _, object := range large {
		bucket := object.Status.Bucket
		b.gone(object)
		b.hasNoBucket(bucket)
	}
}

func TestDeletion_ContinuesWithTheNextOperator(t *testing.T) {
	t.Parallel()
	var denying atomic.Bool
	denying.Store(true)
	b := newHarness(t, withS3Proxy(func(w http.ResponseWriter, r *http.Request) bool {
		denied := denying.Load() && isBulkDelete(r)
		if denied {
			denyDelete(w, r)
		}
		return denied
	}), func(o *options) { o.idle = true })
	stop := b.run(b.config)
	object := b.readyAccount("demo", erasedAtOnce)
	bucket := object.Status.Bucket
	b.put(bucket, 3)
	must(t, b.Delete(b.ctx, object))
	b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDeletionBlocked)
	stop()
	denying.Store(false)
	b.run(b.config)
	b.gone(object)
	b.hasNoBucket(bucket)
}

// Until the time of the deletion, applying the object again undoes it.
func TestDeletion_AppliedAgainWithinDeleteAfterIsUndone(t *testing.T) {
	t.Parallel()
	var databaseURL string
	b := newHarness(t, func(o *options) {
		o.databaseURL = func(t testing.TB) string { databaseURL = testenv.Postgres(t); return databaseURL }
	})
	object := b.readyAccount("demo", deleting)
	id, bucket := b.accountID(object), object.Status.Bucket
	b.put(bucket, 2)
	b.seedItems(databaseURL, object, 2)
	b.exec(`UPDATE item SET sealed_at = now()`)
	b.exec(`UPDATE app_total SET private_items = 2 WHERE slot = 0`)
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	kept := &v1alpha1.RetainedMediaAccount{}
	wait.UntilNone(b.t, func() string {
		if err := b.Get(b.ctx, client.ObjectKey{Name: id.String()}, kept); err != nil {
			return err.Error()
		}
		if kept.Status.PurgeAt == nil {
			return "status.purgeAt is not set"
		}
		return ""
	})
	if left := time.Until(kept.Status.PurgeAt.Time); left < 23*time.Hour || left > 25*time.Hour || kept.Spec.Reclaim != v1alpha1.ReclaimPurge {
		t.Errorf("the media is deleted in %s with reclaim %s", left, kept.Spec.Reclaim)
	}
	again := b.readyAccount("demo", deleting)
	usage, err := b.registry.Usage(b.ctx, id)
	must(t, err)
	if again.Status.AccountID != id.String() || again.Status.Bucket != bucket || usage.SealedItems != 2 {
		t.Errorf("the account is %s in %s with %d items, and was %s in %s", again.Status.AccountID, again.Status.Bucket, usage.SealedItems, id, bucket)
	}
	if _, err := b.store.Stat(b.ctx, bucket, "media/0/original"); err != nil {
		t.Error(err)
	}
	b.gone(kept)
}

// annotate sets the annotation abandon.
func (b *harness) annotate(object *v1alpha1.MediaAccount, value string) {
	b.t.Helper()
	change(b, object, func(a *v1alpha1.MediaAccount) {
		a.Annotations = map[string]string{v1alpha1.AnnotationAbandon: value}
	})
}

func TestAbandon_ReleasesAnObjectWhoseStoreIsGone(t *testing.T) {
	t.Parallel()
	server := testenv.S3Server(t)
	b := newHarness(t, func(o *options) { o.s3 = func(testing.TB) testenv.S3Access { return server.Server.Access } })
	object := b.readyAccount("demo", erasedAtOnce)
	id := b.accountID(object)
	server.Stop()
	must(t, b.Delete(b.ctx, object))
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonObjectStoreUnavailable)
	b.annotate(object, "another")
	wait.UntilNone(b.t, func() string {
		if got := b.readyMessage(object); !strings.Contains(got, "its value is not the account id "+id.String()) {
			return got
		}
		return ""
	})
	b.annotate(object, id.String())
	b.gone(object)
	kept, err := b.registry.Retained(b.ctx, id)
	if err != nil || kept.EraseAfter != nil || kept.ErasingAt != nil {
		t.Errorf("the account is %+v, %v", kept, err)
	}
	wait.UntilNone(b.t, func() string {
		object := &v1alpha1.RetainedMediaAccount{}
		if err := b.Get(b.ctx, client.ObjectKey{Name: id.String()}, object); err != nil {
			return err.Error()
		}
		if object.Spec.Reclaim != v1alpha1.ReclaimRetain {
			return "reclaim is " + string(object.Spec.Reclaim)
		}
		return ""
	})
}

func TestAbandon_ReleasesAnObjectWhoseDatabaseIsGone(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	b := newHarness(t, func(o *options) {
		o.databaseURL = func(t testing.TB) string { return testenv.Database(t, server) }
	})
	object, stays := b.account("demo", erasedAtOnce), b.account("stays", erasedAtOnce)
	b.ready(object)
	b.ready(stays)
	id, bucket := object.Status.AccountID, object.Status.Bucket
	server.Stop()
	must(t, b.Delete(b.ctx, object))
	must(t, b.Delete(b.ctx, stays))
	b.annotate(stays, id)
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDatabaseUnavailable)
	b.annotate(object, id)
	b.gone(object)
	kept := &v1alpha1.RetainedMediaAccount{}
	must(t, b.Get(b.ctx, client.ObjectKey{Name: id}, kept))
	if kept.Spec.Bucket != bucket || kept.Spec.AccountNamespace != b.namespace || kept.Spec.AccountName != "demo" || kept.Spec.Reclaim != v1alpha1.ReclaimRetain {
		t.Errorf("the RetainedMediaAccount is %+v", kept.Spec)
	}
	if err := b.Get(b.ctx, client.ObjectKeyFromObject(stays), stays); err != nil {
		t.Errorf("an object with the id of another account: %v", err)
	}
	server.Start()
	b.gone(stays)
}

// protectNamespace installs the admission policy for the test's namespace only: other tests use
// the same API server.
func (b *harness) protectNamespace() {
	b.t.Helper()
	namespace := map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": b.namespace}}
	for _, object := range kubetest.Manifests(b.t, "admission") {
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			object.SetName(object.GetName() + "-" + b.namespace)
			must(b.t, unstructured.SetNestedMap(object.Object, namespace, "spec", "matchResources", "namespaceSelector"))
		}
		kubetest.Apply(b.t, object)
	}
}

func protected(a *v1alpha1.MediaAccount) { a.Spec.DeletionProtection = true }

func TestDeletionProtection_RejectsTheDeletion(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.protectNamespace()
	object := b.readyAccount("demo", erasedAtOnce, protected)
	says := fmt.Sprintf("MediaAccount %s/demo is protected: set spec.deletionProtection to false to delete it", b.namespace)
	wait.UntilNone(b.t, func() string { // a policy takes effect some time after it was created
		if err := b.Delete(b.ctx, object, client.DryRunAll); err == nil || !strings.Contains(err.Error(), says) {
			return fmt.Sprintf("the deletion gives %v", err)
		}
		return ""
	})
	if err := b.Delete(b.ctx, object); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the deletion gives %v", err)
	}
	if err := b.DeleteAllOf(b.ctx, object, client.InNamespace(b.namespace)); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the deletion of all gives %v", err)
	}
	must(t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
	if !object.DeletionTimestamp.IsZero() {
		t.Error("the object is being deleted")
	}
	// The namespace stays, with the same message, until the protection is removed.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	must(t, b.Delete(b.ctx, namespace))
	wait.UntilNone(b.t, func() string {
		must(t, b.Get(b.ctx, client.ObjectKeyFromObject(namespace), namespace))
		for _, condition := range namespace.Status.Conditions {
			if strings.Contains(condition.Message, says) {
				return ""
			}
		}
		return fmt.Sprintf("the namespace has %+v", namespace.Status.Conditions)
	})
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.DeletionProtection = false })
	b.gone(object)
}

func TestDeletionProtection_RetainsWithoutThePolicy(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", erasedAtOnce, protected)
	bucket, id := object.Status.Bucket, b.accountID(object)
	b.put(bucket, 1)
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	if kept, err := b.registry.Retained(b.ctx, id); err != nil || kept.EraseAfter != nil {
		t.Errorf("the account is %+v, %v", kept, err)
	}
	if _, err := b.store.Stat(b.ctx, bucket, "media/0/original"); err != nil {
		t.Error(err)
	}
}
