package operator_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
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
	object := b.readyAccount("demo")
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
	if principal, err := b.database.Credentials.FindPrincipal(b.ctx, token.Hash()); err != nil || principal.Account.ID == id {
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

// An account moves to another namespace and name only when a cluster admin permits it.
func TestRestoreFrom_MovesAnAccountToAnotherNamespace(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle)
	other := b.anotherNamespace()
	b.config.Namespaces = []string{b.namespace, other}
	b.run(b.config)
	object := b.readyAccount("demo")
	b.sealItems(2)
	b.sql(`WITH made AS (INSERT INTO settings_tenant (account_id, fields) SELECT id, '{"thumbnailWidth": 123}' FROM account RETURNING 1) SELECT count(*) FROM made`)
	id, bucket, key := b.accountID(object), object.Status.Bucket, b.secret("demo", "default").Data["apiKey"]
	must(t, b.Delete(b.ctx, object))
	kept := b.retained(id)

	heir := b.account("photos", inNamespace(other), func(a *v1alpha1.MediaAccount) { a.Spec.RestoreFrom = kept.Name })
	b.shows(heir, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRetained)
	message := meta.FindStatusCondition(heir.Status.Conditions, v1alpha1.ConditionReady).Message
	_, command, found := strings.Cut(message, "a cluster admin permits it with: ")
	if !found || heir.Status.AccountID != "" || len(b.secretsIn(other)) != 0 {
		t.Fatalf("the message is %q, the status %+v", message, heir.Status)
	}
	b.shell(command)
	b.ready(heir)
	b.gone(kept)
	if b.accountID(heir) != id || heir.Status.Bucket != bucket || heir.Status.Usage.SealedItems != 2 ||
		b.sql(`SELECT count(*) FROM settings_tenant WHERE account_id = $1 AND fields = '{"thumbnailWidth": 123}'`, id) != 1 {
		t.Errorf("the restored account is %+v", heir.Status)
	}
	secrets := b.secretsIn(other)
	if len(secrets) != 1 || !b.opens(secrets[0].Data["apiKey"]) || b.opens(key) {
		t.Errorf("there are %d Secrets, or their key does not work, or the former one does", len(secrets))
	}
	wait.UntilNone(b.t, func() string {
		owner, err := b.store.Owner(b.ctx, bucket)
		must(t, err)
		if owner.Namespace != other || owner.Name != "photos" || owner.AccountID != id.String() {
			return fmt.Sprintf("the marker names %s", owner)
		}
		return ""
	})

	// The former name is free: it gets an account of its own.
	again := b.readyAccount("demo")
	if b.accountID(again) == id || again.Status.Bucket == bucket || again.Status.Usage.SealedItems != 0 {
		t.Errorf("the former name has %+v", again.Status)
	}
}

// Within a namespace its tenants need no admin.
func TestRestoreFrom_RenamesAnAccountInItsNamespace(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.readyAccount("demo")
	id := b.accountID(object)
	must(t, b.Delete(b.ctx, object))
	kept := b.retained(id)
	heir := b.readyAccount("photos", func(a *v1alpha1.MediaAccount) { a.Spec.RestoreFrom = kept.Name })
	if b.accountID(heir) != id {
		t.Errorf("the account is %s, want %s", b.accountID(heir), id)
	}
}

// secretsIn returns the Secrets of accounts in a namespace.
func (b *harness) secretsIn(namespace string) []corev1.Secret {
	b.t.Helper()
	secrets := &corev1.SecretList{}
	must(b.t, b.List(b.ctx, secrets, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelAccount}))
	return secrets.Items
}

// A claimRef that was left on an older account once gave it to a MediaAccount that was deleted and
// applied again, instead of the account that it had.
func TestClaim_IsUsedOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	var kept [2]*v1alpha1.RetainedMediaAccount
	for i := range kept {
		object := b.readyAccount("demo")
		id := b.accountID(object)
		must(t, b.Delete(b.ctx, object))
		b.gone(object)
		kept[i] = b.retained(id)
		change(b, kept[i], func(r *v1alpha1.RetainedMediaAccount) { r.Spec.ReserveName = new(false) })
	}
	// As the command of the guide does for all accounts of a namespace.
	for _, object := range kept {
		change(b, object, func(r *v1alpha1.RetainedMediaAccount) {
			r.Spec.ClaimRef = &v1alpha1.ClaimReference{Namespace: b.namespace}
		})
	}
	for range 2 {
		object := b.readyAccount("demo")
		if got := b.accountID(object).String(); got != kept[1].Name {
			t.Fatalf("the account is %s, want %s, which was closed last", got, kept[1].Name)
		}
		wait.UntilNone(b.t, func() string {
			must(t, b.Get(b.ctx, client.ObjectKeyFromObject(kept[0]), kept[0]))
			if kept[0].Spec.ClaimRef != nil {
				return "the older account still has its claimRef"
			}
			return ""
		})
		must(t, b.Delete(b.ctx, object))
		b.gone(object)
		b.retained(b.accountID(object))
	}

	// A decision of an admin after the closing counts.
	change(b, kept[0], func(r *v1alpha1.RetainedMediaAccount) {
		r.Spec.ClaimRef = &v1alpha1.ClaimReference{Namespace: b.namespace}
	})
	object := b.readyAccount("demo")
	if got := b.accountID(object).String(); got != kept[0].Name {
		t.Errorf("the account is %s, want %s, which an admin granted", got, kept[0].Name)
	}
}
