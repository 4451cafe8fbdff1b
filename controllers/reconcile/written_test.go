package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"mediastack.dev/api/v1alpha1"
)

func TestWritten_TellsOwnStatusFromForeign(t *testing.T) {
	t.Parallel()
	w := NewWritten()
	foreign := w.ForeignStatus(func(o client.Object) any { return &o.(*v1alpha1.MediaAccount).Status })
	version := func(resource, bucket string) *v1alpha1.MediaAccount {
		object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{UID: "uid", ResourceVersion: resource}}
		object.Status.Bucket = bucket
		return object
	}
	update := func(before, after *v1alpha1.MediaAccount) bool {
		return foreign.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	if update(version("9", ""), version("10", "forged")) {
		t.Error("the status of an object that was never reconciled is corrected")
	}
	w.writing("uid", &version("", "mine").Status)
	if update(version("9", ""), version("10", "mine")) {
		t.Error("the event of a write that has not returned yet is foreign")
	}
	if w.isBehind(version("9", "")) {
		t.Error("the cache is behind a write that has not returned")
	}
	w.wrote(version("10", "mine"))
	if !w.isBehind(version("9", "")) || w.isBehind(version("10", "mine")) || w.isBehind(version("11", "forged")) {
		t.Error("the cache is compared wrongly with the last write")
	}
	if !update(version("10", "mine"), version("11", "forged")) {
		t.Error("a foreign status is not seen")
	}
	if update(version("11", "forged"), version("11", "forged")) {
		t.Error("a resync is foreign")
	}
	if w.Forget("uid"); len(w.last) != 0 {
		t.Error("something is left of an object that is gone")
	}
}
