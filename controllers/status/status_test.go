package status_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/fault"
)

func TestTheKindOfAnErrorSaysWhetherToStallOrToTryAgain(t *testing.T) {
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
		failure := status.Fail(status.Database, fault.New(kind, "said in public"))
		if failure.Stalls() != want.stalls || failure.Retries() == want.stalls || failure.Reason() != want.reason {
			t.Errorf("%s: stalls %t, retries %t, reason %s", kind, failure.Stalls(), failure.Retries(), failure.Reason())
		}
	}
	var none *status.Failure
	if none.Stalls() || none.Retries() || status.Fail(status.Database, nil) != nil || status.FailKubernetes(nil, "read") != nil {
		t.Error("no error is no failure")
	}
	if got := status.FailKubernetes(errors.New("EOF"), "read Secret %s", "x").Message(); got != "the Kubernetes API refused to read Secret x (no answer)" {
		t.Errorf("the message is %q", got)
	}
}

func TestAnEventTellsOfAChangeOnce(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	object := &v1alpha1.MediaAccount{}
	conditions := func(v status.Verdict) []metav1.Condition { return v.Conditions() }
	working := conditions(status.Working(v1alpha1.ReasonProgressing, "on its way"))
	down := conditions(status.Verdict{Working: true, Reason: v1alpha1.ReasonDatabaseUnavailable, Message: "down"})
	ready := conditions(status.Done(v1alpha1.ReasonSucceeded, "ready"))
	for _, change := range [][2][]metav1.Condition{{nil, working}, {working, down}, {down, down}, {down, ready}, {ready, ready}} {
		status.Announce(recorder, object, change[0], change[1])
	}
	want := []string{"Warning DatabaseUnavailable down", "Normal Succeeded ready"}
	for _, text := range want {
		select {
		case got := <-recorder.Events:
			if got != text {
				t.Errorf("event %q, want %q", got, text)
			}
		default:
			t.Errorf("there is no event %q", text)
		}
	}
	if len(recorder.Events) > 0 {
		t.Errorf("one event too many: %s", <-recorder.Events)
	}
}

func TestSetMovesATransitionOnlyWhenTheStatusChanges(t *testing.T) {
	t.Parallel()
	began := metav1.NewTime(time.Unix(1, 0))
	conditions := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded", LastTransitionTime: began}}
	status.Set(&conditions, 7, []metav1.Condition{status.Condition("Ready", true, "Suspended", "asleep")})
	if got := conditions[0]; got.LastTransitionTime != began || got.Reason != "Suspended" || got.ObservedGeneration != 7 {
		t.Errorf("the condition is %+v", got)
	}
	status.Set(&conditions, 8, []metav1.Condition{status.Condition("Ready", false, "Conflict", "in the way")})
	if got := conditions[0]; got.LastTransitionTime == began {
		t.Errorf("the transition has the old time: %+v", got)
	}
}

func TestJitterStaysWithinATenth(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if got := status.Jitter(time.Minute); got < 54*time.Second || got > 66*time.Second {
			t.Fatalf("a minute became %s", got)
		}
	}
}
