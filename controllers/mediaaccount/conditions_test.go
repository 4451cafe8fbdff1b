package mediaaccount

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
)

var (
	databaseDown = reconcile.NewError(reconcile.Database, fault.New(fault.Unavailable, "the database can't be reached"))
	storeDown    = reconcile.NewError(reconcile.ObjectStore, fault.New(fault.Unavailable, "the object store can't be reached"))
	taken        = reconcile.NewError(reconcile.ObjectStore, fault.New(fault.Conflict, "bucket b is owned by another account"))
	broken       = reconcile.NewError(reconcile.Database, errors.New("column does not exist"))
	noAnswer     = reconcile.NewAPIError(errors.New("EOF"), "write Secret x")
	noRuntime    = reconcile.NewError(reconcile.Runtime, fault.New(fault.Unavailable, "no replica serves"))
	ready        = stepResult{ready: true, message: "fine"}
)

func allReady(change ...func(*observed)) observed {
	seen := observed{account: ready, bucket: ready, apps: ready, keys: ready}
	for _, change := range change {
		change(&seen)
	}
	return seen
}

func TestConditions_FollowFromObserved(t *testing.T) {
	t.Parallel()
	type table map[string]string // condition -> "status reason"
	cases := map[string]struct {
		seen    observed
		want    table
		handled bool
	}{
		"a provisioned account is Ready": {
			seen: allReady(), handled: true,
			want: table{"Ready": "True Succeeded", "Reconciling": "False Succeeded", "Stalled": "False Succeeded",
				"BucketReady": "True Succeeded", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"a suspended account is Ready, since its spec says so": {
			seen: allReady(func(o *observed) { o.suspended = true }), handled: true,
			want: table{"Ready": "True Suspended", "Reconciling": "False Succeeded", "Stalled": "False Succeeded",
				"BucketReady": "True Succeeded", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"an object not reconciled yet is Progressing": {
			seen: observed{},
			want: table{"Ready": "False Progressing", "Reconciling": "True Progressing", "Stalled": "False Progressing",
				"BucketReady": "Unknown Progressing", "AppsReady": "Unknown Progressing", "KeysReady": "Unknown Progressing"},
		},
		"an unreachable database leaves every part unknown": {
			seen: observed{account: stepResult{failure: databaseDown}},
			want: table{"Ready": "False DatabaseUnavailable", "Reconciling": "True DatabaseUnavailable", "Stalled": "False DatabaseUnavailable",
				"BucketReady": "Unknown DatabaseUnavailable", "AppsReady": "Unknown DatabaseUnavailable", "KeysReady": "Unknown DatabaseUnavailable"},
		},
		"an unreachable object store leaves the bucket unknown and the rest as it is": {
			seen: allReady(func(o *observed) { o.bucket = stepResult{failure: storeDown} }),
			want: table{"Ready": "False ObjectStoreUnavailable", "Reconciling": "True ObjectStoreUnavailable", "Stalled": "False ObjectStoreUnavailable",
				"BucketReady": "Unknown ObjectStoreUnavailable", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"a bucket of another account stalls": {
			seen: allReady(func(o *observed) { o.bucket = stepResult{failure: taken} }), handled: true,
			want: table{"Ready": "False Conflict", "Reconciling": "False Conflict", "Stalled": "True Conflict",
				"BucketReady": "False Conflict", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"Stalled wins over a failure that is retried": {
			seen: allReady(func(o *observed) { o.bucket, o.keys = stepResult{failure: taken}, stepResult{failure: noAnswer} }), handled: true,
			want: table{"Ready": "False Conflict", "Reconciling": "False Conflict", "Stalled": "True Conflict",
				"BucketReady": "False Conflict", "AppsReady": "True Succeeded", "KeysReady": "Unknown KubernetesUnavailable"},
		},
		"a generation that stalls is observed": {
			seen: observed{account: stepResult{failure: taken}}, handled: true,
			want: table{"Ready": "False Conflict", "Reconciling": "False Conflict", "Stalled": "True Conflict",
				"BucketReady": "Unknown Conflict", "AppsReady": "Unknown Conflict", "KeysReady": "Unknown Conflict"},
		},
		"an internal error does not show its cause": {
			seen: allReady(func(o *observed) { o.apps = stepResult{failure: broken} }),
			want: table{"Ready": "False InternalError", "Reconciling": "True InternalError", "Stalled": "False InternalError",
				"BucketReady": "True Succeeded", "AppsReady": "Unknown InternalError", "KeysReady": "True Succeeded"},
		},
		"an account that no runtime serves is not Ready": {
			seen: allReady(func(o *observed) { o.runtime = noRuntime }),
			want: table{"Ready": "False RuntimeUnavailable", "Reconciling": "True RuntimeUnavailable", "Stalled": "False RuntimeUnavailable",
				"BucketReady": "True Succeeded", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"a deletion shows its progress": {
			seen: observed{deletion: &deletionProgress{message: "Deleting the media: 4,500 items left"}},
			want: table{"Ready": "False Deleting", "Reconciling": "True Deleting", "Stalled": "False Deleting",
				"BucketReady": "False Deleting", "AppsReady": "False Deleting", "KeysReady": "False Deleting"},
		},
		"a deletion shows that a store is unavailable": {
			seen: observed{deletion: &deletionProgress{failure: storeDown}},
			want: table{"Ready": "False ObjectStoreUnavailable", "Reconciling": "True ObjectStoreUnavailable", "Stalled": "False ObjectStoreUnavailable",
				"BucketReady": "False Deleting", "AppsReady": "False Deleting", "KeysReady": "False Deleting"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := table{}
			for _, condition := range conditions(c.seen) {
				got[condition.Type] = string(condition.Status) + " " + condition.Reason
				if condition.Message == "" {
					t.Errorf("%s has no message", condition.Type)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if c.seen.generationObserved() != c.handled {
				t.Errorf("handled is %t, want %t", !c.handled, c.handled)
			}
		})
	}
}

func TestConditions_ShowNoCause(t *testing.T) {
	t.Parallel()
	secret := "password=hunter2"
	for _, failure := range []*reconcile.StepError{
		reconcile.NewError(reconcile.Database, errors.New(secret)),
		reconcile.NewError(reconcile.Database, fault.Wrap(errors.New(secret), fault.Unavailable, "the database can't be reached")),
		reconcile.NewAPIError(errors.New(secret), "write Secret %s", "x"),
	} {
		for _, condition := range conditions(observed{account: stepResult{failure: failure}}) {
			if strings.Contains(condition.Message, secret) {
				t.Errorf("%s shows %q", condition.Type, condition.Message)
			}
		}
	}
}

func TestFormat_Bytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.5Ki", 1<<20 - 1: "1Mi", 10 << 30: "10Gi", 1<<62 + 1: "4Ei"} {
		if got := humanBytes(n); got != want {
			t.Errorf("humanBytes(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestUsageStatus_KeepsTheTimeOfEqualFigures(t *testing.T) {
	t.Parallel()
	first := usageStatus(nil, accountUsage(5), at(1))
	if again := usageStatus(first, accountUsage(5), at(2)); *again != *first {
		t.Errorf("equal figures gave %+v after %+v", again, first)
	}
	if more := usageStatus(first, accountUsage(6), at(2)); more.MeasuredAt != at(2) {
		t.Errorf("other figures kept the earlier time: %+v", more)
	}
}

// kstatus reads these three conditions: a contradiction between them is shown to users and to
// deployment tools.
func TestConditions_NeverContradictEachOther(t *testing.T) {
	t.Parallel()
	results := []stepResult{{}, ready}
	for _, failure := range failuresOfEveryKind() {
		results = append(results, stepResult{failure: failure})
	}
	runtimes := []*reconcile.StepError{nil, noRuntime}
	count := 0
	for _, account := range results {
		for _, bucket := range results {
			for _, apps := range results {
				for _, keys := range results {
					for _, runtime := range runtimes {
						for _, suspended := range []bool{false, true} {
							count++
							checkRules(t, observed{account: account, bucket: bucket, apps: apps, keys: keys, runtime: runtime, suspended: suspended})
						}
					}
				}
			}
		}
	}
	for _, failure := range append(failuresOfEveryKind(), nil) {
		checkRules(t, observed{deletion: &deletionProgress{message: "Deleting", failure: failure}})
	}
	t.Logf("%d combinations", count)
}

// failuresOfEveryKind has an error of every kind and reason of every source.
func failuresOfEveryKind() []*reconcile.StepError {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("exceeded quota"))
	return []*reconcile.StepError{
		databaseDown, storeDown, taken, broken, noAnswer, reconcile.NewAPIError(denied, "write Secret x"),
		reconcile.NewError(reconcile.Database, fault.WithReason(databaseDown.Err, fault.Credentials)),
		reconcile.NewError(reconcile.ObjectStore, fault.WithReason(storeDown.Err, fault.StoreFull)),
		reconcile.NewError(reconcile.ObjectStore, fault.WithReason(taken.Err, fault.MediaLost)),
	}
}

func checkRules(t *testing.T, seen observed) {
	t.Helper()
	is := map[string]bool{}
	for _, condition := range conditions(seen) {
		is[condition.Type] = condition.Status == metav1.ConditionTrue
		if condition.Reason == "" || condition.Message == "" {
			t.Fatalf("%s has no reason or no message for %+v", condition.Type, seen)
		}
	}
	switch {
	case is["Reconciling"] && is["Stalled"]:
		t.Fatalf("Reconciling and Stalled are both True for %+v", seen)
	case is["Ready"] && is["Reconciling"]:
		t.Fatalf("Ready and Reconciling are both True for %+v", seen)
	case !is["Ready"] && !is["Reconciling"] && !is["Stalled"]:
		t.Fatalf("none of Ready, Reconciling and Stalled is True for %+v", seen)
	case is["Ready"] && (!is["BucketReady"] || !is["AppsReady"] || !is["KeysReady"]):
		t.Fatalf("Ready is True and a part is not for %+v", seen)
	case seen.deletion == nil && seen.generationObserved() == is["Reconciling"]:
		t.Fatalf("the generation is observed: %t, and Reconciling: %t, for %+v", seen.generationObserved(), is["Reconciling"], seen)
	}
}

func TestStorageCondition_NearAndOverTheCap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used, limit int64
		want        string
	}{
		{0, 100, "True Succeeded"}, {89, 100, "True Succeeded"}, {90, 100, "True StorageNearFull"}, {99, 100, "True StorageNearFull"},
		{100, 100, "False StorageFull"}, {150, 100, "False StorageFull"}, {1, 1, "False StorageFull"}, {0, 1, "True Succeeded"},
		{1 << 61, 1 << 62, "True Succeeded"}, {1<<62 - 1<<58, 1 << 62, "True StorageNearFull"}, {1 << 62, 1 << 62, "False StorageFull"},
	} {
		got := storageCondition(c.used, c.limit)
		if status := string(got.Status) + " " + got.Reason; status != c.want || got.Type != "StorageAvailable" || got.Message == "" {
			t.Errorf("%d of %d: %s, want %s", c.used, c.limit, status, c.want)
		}
	}
}
