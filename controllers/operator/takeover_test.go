package operator_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/installation"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
)

// rebuild makes the cluster one that the database does not know, without any of its objects.
func (b *harness) rebuild(objects ...*v1alpha1.MediaAccount) {
	b.t.Helper()
	for _, object := range objects {
		must(b.t, b.Delete(b.ctx, object))
		b.removeByForce(object)
		b.gone(object)
		must(b.t, client.IgnoreNotFound(b.Delete(b.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: v1alpha1.SecretName(object.Name, "default")}})))
	}
	must(b.t, b.Delete(b.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: installation.ConfigMapName}}))
	b.exec(`UPDATE installation SET cluster_uid = 'the former cluster'`)
}

// After a take-over, the accounts wait for the MediaAccounts that Git has not applied yet, and the
// keys of clients wait for their new Secrets.
func TestTakeOver_OldKeysLiveForTheOverlapAndAccountsForTheGrace(t *testing.T) {
	t.Parallel()
	const overlap, grace = 3 * time.Hour, time.Hour
	port := testenv.FreePort(t)
	b := newHarness(t, quiet, idle, withProbes(&port), func(o *options) { o.config.TakeOverGrace = grace })
	withOverlap := func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Overlap = &metav1.Duration{Duration: overlap} }
	stop := b.run(b.config)
	applied, missing := b.account("applied", withOverlap), b.account("missing", withOverlap)
	b.ready(applied)
	b.ready(missing)
	id, lost := b.accountID(applied), b.accountID(missing)
	oldKey, waitingKey := b.secret("applied", "default").Data["apiKey"], b.secret("missing", "default").Data["apiKey"]
	stop()
	b.rebuild(applied, missing)
	applied = b.account("applied", withOverlap)
	b.run(b.config)
	notReady(t, b, port, "is bound to cluster the former cluster", "mediastack-operator take-over")
	if _, needed := b.takeOver(false); !needed || !b.opens(oldKey) {
		t.Fatal("no take-over is needed, or a key ended before it")
	}
	b.takeOver(true)
	b.ready(applied)
	newKey := b.secret("applied", "default").Data["apiKey"]
	if b.accountID(applied) != id || string(newKey) == string(oldKey) || !b.opens(newKey) || !b.opens(oldKey) {
		t.Fatal("the account is another one, or one of its two keys does not work")
	}

	b.passOrphans("first")
	if !b.opens(waitingKey) {
		t.Fatal("an account was closed during the grace")
	}
	b.ageKeys(overlap - 10*time.Minute)
	if !b.opens(oldKey) {
		t.Error("the old key ended before its overlap")
	}
	b.ageKeys(20 * time.Minute)
	if b.opens(oldKey) || !b.opens(newKey) {
		t.Error("after the overlap only the new key must work")
	}

	b.exec(`UPDATE installation SET taken_over_at = now() - $1 * interval '1 second'`, (grace / 2).Seconds()) // the pass takes less than the other half
	b.passOrphans("second")
	if row := b.row("missing"); row.ID != lost {
		t.Errorf("the account is %+v", row)
	}
	b.exec(`UPDATE installation SET taken_over_at = now() - $1 * interval '1 second'`, grace.Seconds())
	b.retained(lost)
	if b.opens(waitingKey) {
		t.Error("the key of a retained account works")
	}
	if row := b.row("applied"); row.ID != id {
		t.Errorf("the account that was applied is %+v", row)
	}
}

// passOrphans returns when the operator has closed an account that never had a MediaAccount: it has
// looked at every account twice since.
func (b *harness) passOrphans(name string) {
	b.t.Helper()
	made, err := b.registry.Ensure(b.ctx, account.Spec{
		Namespace: b.namespace, Name: name, NamespaceUID: b.namespaceUID(), ObjectUID: uuid.NewString(), MaxStorage: 1000, MaxUploadSize: 1000,
	})
	must(b.t, err)
	b.retained(made.ID)
}
