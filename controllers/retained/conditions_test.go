package retained

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/erasure"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

var closedAt = time.Date(2026, 11, 22, 8, 30, 0, 123456000, time.UTC)

// atRest returns an account that was closed at closedAt, and its object at rest.
func atRest() (account.Retained, *v1alpha1.RetainedMediaAccount) {
	row := account.Retained{
		Account:        account.Account{ID: uuid.New(), Namespace: "team", Name: "demo", NamespaceUID: "ns1", Bucket: "photos", ClosedAt: &closedAt},
		InstallationID: uuid.New(), Items: 3, Bytes: 21,
	}
	object := &v1alpha1.RetainedMediaAccount{ObjectMeta: metav1.ObjectMeta{Name: row.ID.String(), Generation: 1}, Spec: identity(row)}
	object.Spec.Reclaim = v1alpha1.ReclaimRetain
	object.Status.ObservedGeneration = 1
	setStatus(&object.Status, row)
	object.Status.Conditions = summarize(*object, row).Conditions()
	for i := range object.Status.Conditions {
		object.Status.Conditions[i].ObservedGeneration = 1
	}
	return row, object
}

func TestDiffers_IsQuietAtRestAndSeesEveryChange(t *testing.T) {
	t.Parallel()
	if row, object := atRest(); differs(row, object) {
		t.Error("an object at rest differs")
	}
	later := closedAt.Add(time.Microsecond)
	for name, change := range map[string]func(*account.Retained, *v1alpha1.RetainedMediaAccount){
		"another closing":        func(a *account.Retained, _ *v1alpha1.RetainedMediaAccount) { a.ClosedAt = &later },
		"another bucket":         func(_ *account.Retained, o *v1alpha1.RetainedMediaAccount) { o.Spec.Bucket = "videos" },
		"a planned deletion":     func(a *account.Retained, _ *v1alpha1.RetainedMediaAccount) { a.EraseAfter = &later },
		"a deletion that is due": func(a *account.Retained, _ *v1alpha1.RetainedMediaAccount) { a.Due = true },
		"Purge":                  func(_ *account.Retained, o *v1alpha1.RetainedMediaAccount) { o.Spec.Reclaim = v1alpha1.ReclaimPurge },
		"fewer bytes":            func(a *account.Retained, _ *v1alpha1.RetainedMediaAccount) { a.Bytes-- },
		"fewer items":            func(a *account.Retained, _ *v1alpha1.RetainedMediaAccount) { a.Items-- },
		"a forged condition": func(_ *account.Retained, o *v1alpha1.RetainedMediaAccount) {
			o.Status.Conditions[0].Status = metav1.ConditionFalse
		},
		"a missing condition": func(_ *account.Retained, o *v1alpha1.RetainedMediaAccount) {
			o.Status.Conditions = o.Status.Conditions[1:]
		},
		"a foreign condition": func(_ *account.Retained, o *v1alpha1.RetainedMediaAccount) {
			o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: "Fake"})
		},
		"a new generation": func(_ *account.Retained, o *v1alpha1.RetainedMediaAccount) { o.Generation++ },
	} {
		row, object := atRest()
		change(&row, object)
		if !differs(row, object) {
			t.Errorf("%s is not seen", name)
		}
	}
	// What an admin sets does not make it another object.
	row, object := atRest()
	object.Spec.ClaimRef, object.Spec.ReserveName = &v1alpha1.ClaimReference{Namespace: "b", Name: "c"}, new(false)
	if !describes(object, row) {
		t.Error("an object with a claim is taken for another account's")
	}
}

func TestErasure_SaysWhatHappens(t *testing.T) {
	t.Parallel()
	denied := reconcile.NewError(reconcile.ObjectStore, fault.New(fault.Conflict, "denied"))
	for name, c := range map[string]struct {
		reclaim     v1alpha1.ReclaimPolicy
		progress    erasure.Progress
		reason      string
		mentions    string
		stalled     bool
		reconciling bool
	}{
		"in progress": {v1alpha1.ReclaimPurge, erasure.Progress{Message: "3 left"}, v1alpha1.ReasonPurging, "3 left", false, true},
		"too late":    {v1alpha1.ReclaimRetain, erasure.Progress{Message: "3 left"}, v1alpha1.ReasonConflict, "cannot be undone", true, false},
		"denied":      {v1alpha1.ReclaimPurge, erasure.Progress{Message: "denied: 3 left", Blocked: denied}, v1alpha1.ReasonConflict, "3 left", true, false},
	} {
		row, object := atRest()
		row.ErasingAt, object.Spec.Reclaim = &closedAt, c.reclaim
		got := summarizeErasure(object, row, c.progress)
		if got.Ready || got.Stalled != c.stalled || got.Reconciling != c.reconciling || got.Reason != c.reason || !strings.Contains(got.Message, c.mentions) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
