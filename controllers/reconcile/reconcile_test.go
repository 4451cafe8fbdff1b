package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

func TestStepError_NamesWhatAUserHasToDo(t *testing.T) {
	t.Parallel()
	because := func(reason fault.Reason) error {
		return fault.Explain(fault.New(fault.Unavailable, "public text"), reason, "TheCode")
	}
	denied := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New(text))
	}
	cases := map[string]struct {
		failure *StepError
		reason  string
		says    string
	}{
		"a wrong S3 key":          {NewError(ObjectStore, because(fault.Credentials)), v1alpha1.ReasonObjectStoreCredentials, "TheCode"},
		"an S3 quota":             {NewError(ObjectStore, because(fault.StoreFull)), v1alpha1.ReasonObjectStoreQuota, "quota"},
		"an invalid bucket name":  {NewError(ObjectStore, because(fault.BucketName)), v1alpha1.ReasonInvalid, "spec.storage.bucket.name"},
		"no conditional puts":     {NewError(ObjectStore, because(fault.Unsupported)), v1alpha1.ReasonObjectStoreUnsupported, "public text"},
		"lost media":              {NewError(ObjectStore, because(fault.MediaLost)), v1alpha1.ReasonMediaLost, "public text"},
		"a wrong password":        {NewError(Database, because(fault.Credentials)), v1alpha1.ReasonDatabaseCredentials, "SERVICE_DATABASE_URL"},
		"a missing database":      {NewError(Database, because(fault.DatabaseMissing)), v1alpha1.ReasonDatabaseMissing, "does not exist"},
		"a full disk":             {NewError(Database, because(fault.StoreFull)), v1alpha1.ReasonDatabaseFull, "space"},
		"another schema":          {NewError(Database, because(fault.Schema)), v1alpha1.ReasonDatabaseSchema, "public text"},
		"a retained account":      {NewError(Database, because(fault.Retained)), v1alpha1.ReasonRetained, "public text"},
		"another installation":    {NewError(ObjectStore, because(fault.OtherInstallation)), v1alpha1.ReasonConflict, "public text"},
		"a resource quota":        {NewAPIError(denied("exceeded quota: q, used: secrets=5"), "write Secret x"), v1alpha1.ReasonKubernetesDenied, "write Secret x (by a resource quota)"},
		"an admission policy":     {NewAPIError(denied("ValidatingAdmissionPolicy 'p' denied request"), "write Secret x"), v1alpha1.ReasonKubernetesDenied, "by an admission policy"},
		"an admission webhook":    {NewAPIError(denied("admission webhook w denied the request"), "write Secret x"), v1alpha1.ReasonKubernetesDenied, "by an admission webhook"},
		"a missing permission":    {NewAPIError(denied("User cannot update"), "write Secret x"), v1alpha1.ReasonKubernetesDenied, "by missing permissions"},
		"an immutable field":      {NewAPIError(apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "x", nil), "write Secret x"), v1alpha1.ReasonKubernetesDenied, "by a validation"},
		"a conflict in the store": {NewError(ObjectStore, fault.New(fault.Conflict, "taken")), v1alpha1.ReasonConflict, "taken"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !c.failure.Stalls() || c.failure.Retries() || c.failure.Outage() {
				t.Error("it does not stall the object")
			}
			if got := c.failure.Reason(); got != c.reason {
				t.Errorf("the reason is %s, want %s", got, c.reason)
			}
			if got := c.failure.Message(); !strings.Contains(got, c.says) || strings.Contains(got, "secrets=5") {
				t.Errorf("the message is %q", got)
			}
		})
	}
}

func TestStepError_OneMessageForEveryOutage(t *testing.T) {
	t.Parallel()
	unreachable := NewError(ObjectStore, fault.New(fault.Unavailable, "the object store can't be reached"))
	timeout := NewError(ObjectStore, fault.New(fault.Unavailable, "the object store did not respond in time"))
	if unreachable.Message() != timeout.Message() {
		t.Errorf("the status would change between %q and %q", unreachable.Message(), timeout.Message())
	}
	if !unreachable.Outage() || NewError(Database, errors.New("a bug")).Outage() || NewAPIError(errors.New("EOF"), "read").Outage() {
		t.Error("an error is misclassified")
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
