package mediaaccount

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/fault"
)

var (
	databaseDown = status.Fail(status.Database, fault.New(fault.Unavailable, "the database can't be reached"))
	storeDown    = status.Fail(status.ObjectStore, fault.New(fault.Unavailable, "the object store can't be reached"))
	taken        = status.Fail(status.ObjectStore, fault.New(fault.Conflict, "bucket b is owned by another account"))
	broken       = status.Fail(status.Database, errors.New("column does not exist"))
	forbidden    = status.FailKubernetes(errors.New("secrets is forbidden"), "write Secret x")
	done         = part{done: true, message: "fine"}
)

func allDone(change ...func(*observed)) observed {
	seen := observed{account: done, bucket: done, apps: done, keys: done}
	for _, change := range change {
		change(&seen)
	}
	return seen
}

func TestConditionsTellWhatWasSeen(t *testing.T) {
	t.Parallel()
	type table map[string]string // condition -> "status reason"
	cases := map[string]struct {
		seen    observed
		want    table
		handled bool
	}{
		"an account that is done is Ready": {
			seen: allDone(), handled: true,
			want: table{"Ready": "True Succeeded", "Reconciling": "False Succeeded", "Stalled": "False Succeeded",
				"BucketReady": "True Succeeded", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"a suspended account is Ready, as its spec wants it": {
			seen: allDone(func(o *observed) { o.suspended = true }), handled: true,
			want: table{"Ready": "True Suspended", "Reconciling": "False Succeeded", "Stalled": "False Succeeded",
				"BucketReady": "True Succeeded", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"nothing seen yet is Progressing": {
			seen: observed{},
			want: table{"Ready": "False Progressing", "Reconciling": "True Progressing", "Stalled": "False Progressing",
				"BucketReady": "Unknown Progressing", "AppsReady": "Unknown Progressing", "KeysReady": "Unknown Progressing"},
		},
		"an unreachable database leaves every part unknown": {
			seen: observed{account: part{failure: databaseDown}},
			want: table{"Ready": "False DatabaseUnavailable", "Reconciling": "True DatabaseUnavailable", "Stalled": "False DatabaseUnavailable",
				"BucketReady": "Unknown DatabaseUnavailable", "AppsReady": "Unknown DatabaseUnavailable", "KeysReady": "Unknown DatabaseUnavailable"},
		},
		"an unreachable object store leaves the bucket unknown and the rest as it is": {
			seen: allDone(func(o *observed) { o.bucket = part{failure: storeDown} }),
			want: table{"Ready": "False ObjectStoreUnavailable", "Reconciling": "True ObjectStoreUnavailable", "Stalled": "False ObjectStoreUnavailable",
				"BucketReady": "Unknown ObjectStoreUnavailable", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"a bucket of another account stalls": {
			seen: allDone(func(o *observed) { o.bucket = part{failure: taken} }), handled: true,
			want: table{"Ready": "False Conflict", "Reconciling": "False Conflict", "Stalled": "True Conflict",
				"BucketReady": "False Conflict", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"a stall outranks a failure that passes, and both show": {
			seen: allDone(func(o *observed) { o.bucket, o.keys = part{failure: taken}, part{failure: forbidden} }),
			want: table{"Ready": "False Conflict", "Reconciling": "True Conflict", "Stalled": "True Conflict",
				"BucketReady": "False Conflict", "AppsReady": "True Succeeded", "KeysReady": "Unknown KubernetesUnavailable"},
		},
		"an account that stalls has been handled": {
			seen: observed{account: part{failure: taken}}, handled: true,
			want: table{"Ready": "False Conflict", "Reconciling": "False Conflict", "Stalled": "True Conflict",
				"BucketReady": "Unknown Conflict", "AppsReady": "Unknown Conflict", "KeysReady": "Unknown Conflict"},
		},
		"an unforeseen error shows nothing of itself": {
			seen: allDone(func(o *observed) { o.apps = part{failure: broken} }),
			want: table{"Ready": "False InternalError", "Reconciling": "True InternalError", "Stalled": "False InternalError",
				"BucketReady": "True Succeeded", "AppsReady": "Unknown InternalError", "KeysReady": "True Succeeded"},
		},
		"a usage that can't be measured keeps nobody from being Ready": {
			seen: allDone(func(o *observed) { o.usage = databaseDown }),
			want: table{"Ready": "True Succeeded", "Reconciling": "True Succeeded", "Stalled": "False Succeeded",
				"BucketReady": "True Succeeded", "AppsReady": "True Succeeded", "KeysReady": "True Succeeded"},
		},
		"a deletion shows its progress": {
			seen: observed{removal: &removal{progress: "Deleting the media: 4,500 items left"}},
			want: table{"Ready": "False Deleting", "Reconciling": "True Deleting", "Stalled": "False Deleting",
				"BucketReady": "False Deleting", "AppsReady": "False Deleting", "KeysReady": "False Deleting"},
		},
		"a deletion that waits for a store says so": {
			seen: observed{removal: &removal{failure: storeDown}},
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
			if c.seen.handled() != c.handled {
				t.Errorf("handled is %t, want %t", !c.handled, c.handled)
			}
		})
	}
}

func TestNoConditionShowsACause(t *testing.T) {
	t.Parallel()
	secret := "password=hunter2"
	for _, failure := range []*status.Failure{
		status.Fail(status.Database, errors.New(secret)),
		status.Fail(status.Database, fault.Wrap(errors.New(secret), fault.Unavailable, "the database can't be reached")),
		status.FailKubernetes(errors.New(secret), "write Secret %s", "x"),
	} {
		for _, condition := range conditions(observed{account: part{failure: failure}}) {
			if strings.Contains(condition.Message, secret) {
				t.Errorf("%s shows %q", condition.Type, condition.Message)
			}
		}
	}
}

func TestProgressIsWrittenForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 4500: "4,500", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) is %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.5Ki", 1<<20 - 1: "1Mi", 10 << 30: "10Gi", 1<<62 + 1: "4Ei"} {
		if got := humanBytes(n); got != want {
			t.Errorf("humanBytes(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestAnUnchangedUsageKeepsItsTime(t *testing.T) {
	t.Parallel()
	first := usageStatus(nil, accountUsage(5), at(1))
	if again := usageStatus(first, accountUsage(5), at(2)); *again != *first {
		t.Errorf("the same figures gave %+v after %+v", again, first)
	}
	if more := usageStatus(first, accountUsage(6), at(2)); more.MeasuredAt != at(2) {
		t.Errorf("other figures kept the time of the first: %+v", more)
	}
}
