package operator_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
)

const foreignFinalizer = "x.example.org/keep"

// keep adds a finalizer of another controller, and returns a function that removes it.
func (b *harness) keep(object client.Object) (release func()) {
	b.t.Helper()
	change(b, object, func(object client.Object) { controllerutil.AddFinalizer(object, foreignFinalizer) })
	return func() {
		b.t.Helper()
		must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		must(b.t, b.Patch(b.ctx, object, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`))))
	}
}

// saysWhoKeeps waits until a condition of the object is False and names the foreign finalizer.
func (b *harness) saysWhoKeeps(object client.Object, kind, reason string, more string) {
	b.t.Helper()
	wait.UntilNone(b.t, func() string {
		must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		if text := message(object, kind); !strings.Contains(text, foreignFinalizer) || !strings.Contains(text, more) {
			return kind + " says: " + text
		}
		return lacks(conditionsOf(object), kind, metav1.ConditionFalse, reason)
	})
}

// A finalizer of another controller once hid a deletion (Ready stayed True), and postponed the purge
// for ever.
func TestDeletion_GoesOnWhileOthersKeepTheObject(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", deleting, func(a *v1alpha1.MediaAccount) { a.Spec.DeleteAfter = &metav1.Duration{Duration: time.Hour} })
	pins := b.settings("site", "demo")
	b.ready(pins)
	releasePins := b.keep(pins)
	must(t, b.Delete(b.ctx, pins))
	b.saysWhoKeeps(pins, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "")
	releasePins()
	b.gone(pins)

	bucket, id := object.Status.Bucket, b.accountID(object)
	release := b.keep(object)
	must(t, b.Delete(b.ctx, object))
	b.saysWhoKeeps(object, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "")
	b.shows(object, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonDeleting)
	if controllerutil.ContainsFinalizer(object, v1alpha1.Finalizer) {
		t.Error("the status was written, but the operator's finalizer was not removed")
	}
	retained := b.retained(id)
	b.exec("UPDATE account SET erase_after = now() WHERE id = $1", id) // the hour is over
	b.gone(retained)                                                   // its media was purged
	b.hasNoBucket(bucket)
	b.saysWhoKeeps(object, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "")
	if n := len(b.eventsOf("AccountRetained")); n != 1 {
		t.Errorf("there are %d events, want 1", n)
	}
	release()
	b.gone(object)
}

func TestDeletion_AtOnceEndsWhileOthersKeepTheObject(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.readyAccount("demo", deleting)
	release := b.keep(object)
	must(t, b.Delete(b.ctx, object))
	b.saysWhoKeeps(object, v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "")
	b.hasNoBucket(object.Status.Bucket)
	release()
	b.gone(object)
}
