package operator_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
)

// database keeps the URL of the harness's database for statements of the test.
func database(url *string) func(*options) {
	return func(o *options) {
		o.databaseURL = func(t testing.TB) string { *url = testenv.Postgres(t); return *url }
	}
}

// exec runs a statement on the test's database.
func (b *harness) exec(url, sql string, args ...any) {
	b.t.Helper()
	conn, err := pgx.Connect(b.ctx, url)
	must(b.t, err)
	defer func() { _ = conn.Close(b.ctx) }()
	_, err = conn.Exec(b.ctx, sql, args...)
	must(b.t, err)
}

// retained waits until the account has a RetainedMediaAccount at rest.
func (b *harness) retained(id uuid.UUID) *v1alpha1.RetainedMediaAccount {
	b.t.Helper()
	object := &v1alpha1.RetainedMediaAccount{ObjectMeta: metav1.ObjectMeta{Name: id.String()}}
	b.eventually(func() string {
		if err := b.Get(b.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err.Error()
		}
		return lacks(object.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRetained)
	})
	return object
}

// sealItems gives every app of every account in the database n sealed items of 7 bytes.
func (b *harness) sealItems(url string, n int) {
	b.t.Helper()
	b.exec(url, `WITH made AS (
			INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at)
			SELECT gen_random_uuid(), app.account_id, app.id, 'photo.jpg', 'public', '', '', '[]', 7, now(), now()
			FROM app, generate_series(1, $1) RETURNING account_id, app_id, bytes
		), total AS (
			UPDATE app_total SET public_items = app_total.public_items + $1, bytes = app_total.bytes + 7 * $1 WHERE slot = 0
		)
		UPDATE account_usage SET bytes = account_usage.bytes + (SELECT coalesce(sum(made.bytes), 0) FROM made WHERE made.account_id = account_usage.account_id)`, n)
}

func TestRetained_AccountIsListedAndRestored(t *testing.T) {
	t.Parallel()
	var url string
	b := newHarness(t, database(&url))
	object := b.account("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	b.ready(object)
	b.sealItems(url, 3)
	id, bucket, namespaceUID := b.accountID(object), object.Status.Bucket, b.namespaceUID()
	must(t, b.Delete(b.ctx, object))
	b.gone(object)

	kept := b.retained(id)
	if got := kept.Spec; got.AccountID != id.String() || got.AccountNamespace != b.namespace || got.AccountName != "demo" || got.NamespaceUID != namespaceUID ||
		got.Bucket != bucket || got.Reclaim != v1alpha1.ReclaimRetain {
		t.Errorf("spec is %+v", got)
	}
	if kept.Status.Items != 6 || kept.Status.Bytes != 42 || kept.Status.PurgeAt != nil {
		t.Errorf("status is %+v", kept.Status)
	}

	// A prune deletes the object, and nothing else.
	uid := kept.UID
	must(t, b.Delete(b.ctx, kept))
	b.eventually(func() string {
		if kept = b.retained(id); kept.UID == uid {
			return "the object was not created again"
		}
		return ""
	})
	if kept.Status.Items != 6 {
		t.Errorf("status is %+v", kept.Status)
	}

	again := b.account("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	b.ready(again)
	b.gone(kept)
	if b.accountID(again) != id || again.Status.Bucket != bucket || again.Status.Usage.SealedItems != 6 || again.Status.Usage.SealedBytes != 42 {
		t.Errorf("restored %+v", again.Status)
	}
}

func (b *harness) namespaceUID() string {
	b.t.Helper()
	namespace := &corev1.Namespace{}
	must(b.t, b.Get(b.ctx, client.ObjectKey{Name: b.namespace}, namespace))
	return string(namespace.UID)
}

// removeByForce deletes an object as an admin does who removes its finalizers.
func (b *harness) removeByForce(object client.Object) {
	b.t.Helper()
	b.eventually(func() string {
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
	b.eventually(func() string {
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
	b := newHarness(t, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	object := b.account("demo")
	b.ready(object)
	id, key := b.accountID(object), b.secret("demo", "default").Data["apiKey"]
	// Without the operator nobody sees the finalizer go.
	stop()
	must(t, b.Delete(b.ctx, object))
	b.removeByForce(object)
	b.gone(object)
	if !b.opens(key) {
		t.Fatal("the account is closed before anybody looked")
	}
	b.run(b.config)
	kept := b.retained(id)
	if b.opens(key) {
		t.Error("the key outlives the MediaAccount")
	}
	b.clusterEvent(kept.Name, "MediaAccountMissing", b.namespace+"/demo")
}
