package operator_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
)

// An immutable Secret that a finalizer kept was once deleted and created about twice a second, for
// ever, and the status said that all was well.
func TestSecret_ImmutableIsReplacedWhenItsFinalizersAreGone(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.readyAccount("demo")
	secret := b.secret("demo", "default")
	old := secret.Data["apiKey"]
	release := b.keep(secret)
	must(t, b.Patch(b.ctx, secret, client.RawPatch(types.MergePatchType, []byte(`{"immutable":true}`))))
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	b.saysWhoKeeps(object, v1alpha1.ConditionKeysReady, v1alpha1.ReasonConflict, secret.Name)
	b.settle()
	if !b.opens(old) || b.keyRows() != 2 {
		t.Errorf("the delivered key must work while the Secret is kept; there are %d rows", b.keyRows())
	}
	release()
	b.ready(object)
	if fresh := b.secret("demo", "default").Data["apiKey"]; string(fresh) == string(old) || !b.opens(fresh) || !b.opens(old) {
		t.Error("the key was not rotated with overlap")
	}
}

// The deletion of a Secret revokes its key. A finalizer postpones that, which the status says.
func TestSecret_RevocationWaitsForFinalizers(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.readyAccount("demo")
	secret := b.secret("demo", "default")
	old := secret.Data["apiKey"]
	release := b.keep(secret)
	must(t, b.Delete(b.ctx, secret))
	b.saysWhoKeeps(object, v1alpha1.ConditionKeysReady, v1alpha1.ReasonConflict, "is revoked then")
	b.settle()
	if !b.opens(old) {
		t.Error("the key ended before another one could be delivered")
	}
	release()
	wait.UntilNone(b.t, func() string {
		if err := b.Get(b.ctx, client.ObjectKeyFromObject(secret), secret); apierrors.IsNotFound(err) || string(secret.Data["apiKey"]) == string(old) {
			return "there is no new Secret"
		}
		return ""
	})
	b.ready(object)
	if b.opens(old) || !b.opens(b.secret("demo", "default").Data["apiKey"]) {
		t.Error("the key was not revoked")
	}
}
