package operator_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
)

func (b *harness) namespaceUID() string {
	b.t.Helper()
	namespace := &corev1.Namespace{}
	must(b.t, b.Get(b.ctx, client.ObjectKey{Name: b.namespace}, namespace))
	return string(namespace.UID)
}

// moveToAnotherNamespace makes the test use a namespace that it can delete: the operator is not
// in it.
func (b *harness) moveToAnotherNamespace() {
	b.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(b.t, b.Create(b.ctx, namespace))
	b.namespace, b.config.Namespaces = namespace.Name, []string{namespace.Name}
}

// A namespace that was created again may belong to another tenant, whose MediaAccount of the same
// name once read the items of the former one.
func TestRetained_NamesakeNeverInherits(t *testing.T) {
	t.Parallel()
	b := newHarness(t, idle)
	b.moveToAnotherNamespace()
	stop := b.run(b.config)
	object := b.account("demo")
	b.ready(object)
	b.sealItems(2)
	id, key := b.accountID(object), b.secret("demo", "default").Data["apiKey"]
	stop() // nobody sees the MediaAccount go
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	must(t, b.Delete(b.ctx, namespace))
	b.removeByForce(object)
	b.gone(namespace)
	must(t, b.Create(b.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}))
	other := b.account("demo")
	b.run(b.config)
	b.shows(other, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRetained)
	kept := b.retained(id)
	if b.opens(key) {
		t.Error("the former tenant's key outlives the namespace")
	}

	// The tenant names the account, and forges the status: neither helps.
	thief := b.account("thief", func(a *v1alpha1.MediaAccount) { a.Spec.RestoreFrom = kept.Name })
	patch := client.MergeFrom(thief.DeepCopy())
	thief.Status.AccountID, thief.Status.Bucket = kept.Spec.AccountID, kept.Spec.Bucket
	must(t, b.Status().Patch(b.ctx, thief, patch))
	b.shows(thief, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRetained)
	for _, name := range []string{"demo", "thief"} {
		secrets := &corev1.SecretList{}
		must(t, b.List(b.ctx, secrets, client.InNamespace(b.namespace), client.MatchingLabels{v1alpha1.LabelAccount: name}))
		if len(secrets.Items) != 0 {
			t.Errorf("%s has a key", name)
		}
	}

	// An admin releases the name: the other tenant starts with an empty account.
	change(b, kept, func(r *v1alpha1.RetainedMediaAccount) { r.Spec.ReserveName = new(false) })
	b.ready(other)
	if b.accountID(other) == id || other.Status.Bucket == kept.Spec.Bucket || other.Status.Usage.SealedItems != 0 {
		t.Errorf("the other tenant has %+v", other.Status)
	}
	token, _ := account.ParseKeySecret(string(b.secret("demo", "default").Data["apiKey"]))
	if principal, err := b.database.FindPrincipal(b.ctx, token.Hash()); err != nil || principal.Account.ID == id {
		t.Errorf("the other tenant's key opens account %s, %v", principal.Account.ID, err)
	}

	// claimRef hands the former account to the MediaAccount that it names.
	change(b, kept, func(r *v1alpha1.RetainedMediaAccount) {
		r.Spec.ClaimRef = &v1alpha1.ClaimReference{Namespace: b.namespace, Name: "thief"}
	})
	b.ready(thief)
	b.gone(kept)
	if b.accountID(thief) != id || thief.Status.Usage.SealedItems != 2 {
		t.Errorf("the heir has %+v", thief.Status)
	}
}
