package reconcile

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"mediastack.dev/runtime/fault"
)

const testGrace = 2 * time.Minute

// newTestOutages returns Outages with a clock that the test moves.
func newTestOutages() (*Outages, *time.Time) {
	now := time.Unix(1_000_000, 0)
	return NewOutages(testGrace, func() time.Time { return now }, slog.New(slog.DiscardHandler)), &now
}

func away(source Source) *StepError {
	return NewError(source, fault.New(fault.Unavailable, "cannot be reached"))
}

func TestOutages_AdmitOneCallAtATime(t *testing.T) {
	t.Parallel()
	o, now := newTestOutages()
	for range 3 {
		if o.Admit(ObjectStore) != nil {
			t.Fatal("a call is rejected without an outage")
		}
	}
	o.Called(t.Context(), ObjectStore, away(ObjectStore))
	calls := 0
	for range 60 * 100 { // a minute, a hundred attempts a second, each call answers at once
		*now = now.Add(10 * time.Millisecond)
		if rejected := o.Admit(ObjectStore); rejected == nil {
			calls++
			o.Called(t.Context(), ObjectStore, away(ObjectStore))
		} else if rejected.Message() != away(ObjectStore).Message() || !rejected.Outage() {
			t.Fatalf("the rejection is %v", rejected.Err)
		}
	}
	if calls < 60 || calls > 180 {
		t.Errorf("%d calls in a minute, want a few per second", calls)
	}
	*now = now.Add(time.Second)
	if o.Admit(ObjectStore) != nil || o.Admit(ObjectStore) == nil {
		t.Error("not exactly one of two calls at a time is admitted")
	}
	*now = now.Add(probeTimeout)
	if o.Admit(ObjectStore) != nil {
		t.Error("a call that never ended blocks the others for ever")
	}
	if o.Admit(Database) != nil {
		t.Error("an outage of one source rejects calls of another")
	}
	o.Called(t.Context(), ObjectStore, NewError(ObjectStore, fault.New(fault.Conflict, "taken")))
	for range 2 {
		if o.Admit(ObjectStore) != nil {
			t.Error("a source that responded with an error is still out")
		}
	}
}

// Eight calls that waited for a store that hangs were once followed by up to eight at a time.
func TestOutages_CallsOfBeforeTheOutagePermitNoOther(t *testing.T) {
	t.Parallel()
	o, now := newTestOutages()
	began, permitted := *now, 0
	for range 8 { // they end one after the other
		*now = now.Add(probeInterval)
		o.CalledSince(t.Context(), ObjectStore, began, away(ObjectStore))
		*now = now.Add(probeInterval)
		if o.Admit(ObjectStore) == nil {
			permitted++
		}
	}
	if permitted != 1 {
		t.Errorf("%d calls are under way at a time, want one", permitted)
	}
	o.CalledSince(t.Context(), ObjectStore, *now, away(ObjectStore))
	if *now = now.Add(probeInterval); o.Admit(ObjectStore) != nil {
		t.Error("the end of the permitted call permits no other")
	}
}

func TestOutages_RejectionDoesNotExtendTheOutage(t *testing.T) {
	t.Parallel()
	o, now := newTestOutages()
	o.Called(t.Context(), Database, away(Database))
	rejected := o.Admit(Database)
	*now = now.Add(probeInterval)
	o.failed(rejected)
	if o.Admit(Database) != nil {
		t.Error("the report of a call that was not made delays the next one")
	}
}

func TestOutages_ManyObjectsRetrySlowlyAndSomeSoon(t *testing.T) {
	t.Parallel()
	o, now := newTestOutages()
	o.Called(t.Context(), ObjectStore, away(ObjectStore))
	soon := 0
	for range 10_000 {
		delay := o.RetryIn(ObjectStore)
		if delay > 45*time.Second {
			t.Fatalf("an object waits for %s: not all are Ready within a minute", delay)
		}
		if delay < outageRetry/2 {
			soon++
		}
	}
	if soon == 0 || soon > int(outageRetry/probeInterval) {
		t.Errorf("%d of 10,000 objects retry within %s", soon, outageRetry/2)
	}
	*now = now.Add(time.Hour)
	if delay := o.RetryIn(ObjectStore); delay != probeInterval {
		t.Errorf("a single object waits for %s", delay)
	}
}

func TestOutages_StatusStaysForTheGrace(t *testing.T) {
	t.Parallel()
	o, now := newTestOutages()
	keeps := func(uid types.UID, failures ...*StepError) bool {
		for _, failure := range failures {
			o.failed(failure)
		}
		keeps, _ := o.keepsStatus(subject{uid: uid}, failures)
		return keeps
	}
	if keeps("a") {
		t.Error("without an error the status stays")
	}
	if !keeps("a", away(ObjectStore), nil, away(Database)) {
		t.Error("the status does not stay at the beginning of an outage")
	}
	if keeps("b", away(ObjectStore), NewError(ObjectStore, fault.New(fault.Conflict, "taken"))) {
		t.Error("the status stays although another error stalls")
	}
	if keeps("b", away(ObjectStore), NewError(Database, errors.New("a bug"))) {
		t.Error("the status stays although another error is none of an outage")
	}
	*now = now.Add(testGrace - time.Second)
	if !keeps("late", away(ObjectStore)) {
		t.Error("the status changes before the grace is over")
	}
	*now = now.Add(time.Second)
	if keeps("late", away(ObjectStore)) || keeps("later", away(ObjectStore)) {
		t.Error("the grace begins anew for an object that sees the outage late")
	}
}

// A store that fails for one bucket only, and responds for the others, is never out as a whole.
func TestOutages_OneObjectIsNotHiddenByTheOthers(t *testing.T) {
	t.Parallel()
	o, now := newTestOutages()
	keeps := func(failures ...*StepError) bool {
		keeps, _ := o.keepsStatus(subject{uid: "broken"}, failures)
		return keeps
	}
	for range 5 {
		o.failed(away(ObjectStore))
		if !keeps(away(ObjectStore)) {
			t.Fatal("the status changes before the grace is over")
		}
		o.Called(t.Context(), ObjectStore) // another object's success
		*now = now.Add(testGrace / 5)
	}
	if keeps(away(ObjectStore)) {
		t.Error("an object that fails for longer than the grace stays Ready")
	}
	if keeps(); !keeps(away(ObjectStore)) {
		t.Error("a success does not begin the grace anew")
	}
}

func TestOutages_GoneObjectsLeaveNothing(t *testing.T) {
	t.Parallel()
	o, _ := newTestOutages()
	o.keepsStatus(subject{uid: "a"}, []*StepError{away(Database), away(ObjectStore), away(Runtime)})
	o.forget("a")
	if len(o.failing) > 0 {
		t.Errorf("%d entries are left", len(o.failing))
	}
}
