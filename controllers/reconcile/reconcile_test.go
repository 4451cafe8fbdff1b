package reconcile

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/fault"
)

func TestStepError_StallsOrRetriesByKind(t *testing.T) {
	t.Parallel()
	cases := map[fault.Kind]struct {
		stalls bool
		reason string
	}{
		fault.Conflict:    {true, v1alpha1.ReasonConflict},
		fault.Invalid:     {true, v1alpha1.ReasonInvalid},
		fault.Unavailable: {false, v1alpha1.ReasonDatabaseUnavailable},
		fault.Internal:    {false, v1alpha1.ReasonInternalError},
		fault.NotFound:    {false, v1alpha1.ReasonInternalError},
	}
	for kind, want := range cases {
		failure := NewError(Database, fault.New(kind, "public text"))
		if failure.Stalls() != want.stalls || failure.Retries() == want.stalls || failure.Reason() != want.reason {
			t.Errorf("%s: stalls %t, retries %t, reason %s", kind, failure.Stalls(), failure.Retries(), failure.Reason())
		}
	}
	var none *StepError
	if none.Stalls() || none.Retries() || NewError(Database, nil) != nil || NewAPIError(nil, "read") != nil {
		t.Error("a nil error must give a nil StepError")
	}
	if got := NewAPIError(errors.New("EOF"), "read Secret %s", "x").Message(); got != "Kubernetes API request failed: read Secret x (no response)" {
		t.Errorf("the message is %q", got)
	}
}

func TestRecordReadyEvent_RecordsEachChangeOnce(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	object := &v1alpha1.MediaAccount{}
	conditions := Summary.Conditions
	working := conditions(Reconciling(v1alpha1.ReasonProgressing, "on its way"))
	down := conditions(Summary{Reconciling: true, Reason: v1alpha1.ReasonDatabaseUnavailable, Message: "down"})
	ready := conditions(Ready(v1alpha1.ReasonSucceeded, "ready"))
	for _, change := range [][2][]metav1.Condition{{nil, working}, {working, down}, {down, down}, {down, ready}, {ready, ready}} {
		recordReadyEvent(recorder, object, change[0], change[1])
	}
	want := []string{"Warning DatabaseUnavailable down", "Normal Succeeded ready"}
	for _, text := range want {
		select {
		case got := <-recorder.Events:
			if got != text {
				t.Errorf("event %q, want %q", got, text)
			}
		default:
			t.Errorf("missing event %q", text)
		}
	}
	if len(recorder.Events) > 0 {
		t.Errorf("unexpected event: %s", <-recorder.Events)
	}
}

func TestSetConditions_KeepsTheTransitionTimeOfAnEqualStatus(t *testing.T) {
	t.Parallel()
	began := metav1.NewTime(time.Unix(1, 0))
	conditions := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded", LastTransitionTime: began}}
	setConditions(&conditions, 7, []metav1.Condition{Condition("Ready", true, "Suspended", "asleep")})
	if got := conditions[0]; got.LastTransitionTime != began || got.Reason != "Suspended" || got.ObservedGeneration != 7 {
		t.Errorf("condition %+v", got)
	}
	setConditions(&conditions, 8, []metav1.Condition{Condition("Ready", false, "Conflict", "in the way")})
	if got := conditions[0]; got.LastTransitionTime == began {
		t.Errorf("the transition time did not change: %+v", got)
	}
}

func TestJitter_StaysWithinTenPercent(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if got := Jitter(time.Minute); got < 54*time.Second || got > 66*time.Second {
			t.Fatalf("a minute became %s", got)
		}
	}
}
