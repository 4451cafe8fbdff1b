package mediawebhook

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/webhook"
)

func TestConditions_FollowFromObserved(t *testing.T) {
	t.Parallel()
	type table map[string]string
	all := func(ready, reconciling, stalled, delivering string) table {
		return table{"Ready": ready, "Reconciling": reconciling, "Stalled": stalled, "Delivering": delivering}
	}
	ready := func(delivering string) table {
		return all("True Succeeded", "False Succeeded", "False Succeeded", delivering)
	}
	waits := func(reason string) table {
		return all("False "+reason, "True "+reason, "False "+reason, "Unknown "+reason)
	}
	stalled := func(reason string) table {
		return all("False "+reason, "False "+reason, "True "+reason, "Unknown "+reason)
	}
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	state := func(state webhook.State) *webhook.State { state.Journal = true; return &state }
	down := reconcile.NewError(reconcile.Database, fault.New(fault.Unavailable, "the database can't be reached"))
	for name, c := range map[string]struct {
		seen    observed
		want    table
		handled bool
	}{
		"a stored webhook is Ready":                     {observed{state: state(webhook.State{})}, ready("True Succeeded"), true},
		"one that is accepted":                          {observed{state: state(webhook.State{LastSuccess: at})}, ready("True Succeeded"), true},
		"a receiver that fails":                         {observed{state: state(webhook.State{FailingSince: at, LastStatus: 503})}, ready("False Failing"), true},
		"a receiver that ended it":                      {observed{state: state(webhook.State{FailingSince: at, Ended: true}), suspended: true}, ready("False Ended"), true},
		"a suspended one":                               {observed{state: state(webhook.State{FailingSince: at}), suspended: true}, ready("False Suspended"), true},
		"missed events":                                 {observed{state: state(webhook.State{Missed: at, LastSuccess: at.Add(-1)})}, ready("False Missed"), true},
		"missed events of before":                       {observed{state: state(webhook.State{Missed: at, LastSuccess: at.Add(1)})}, ready("True Succeeded"), true},
		"a missing account":                             {observed{pendingReason: "MediaAccount demo not found"}, waits("AccountNotReady"), false},
		"a missing Secret":                              {observed{waiting: problem{v1alpha1.ReasonSecretNotFound, "no"}}, waits("SecretNotFound"), false},
		"no runtime":                                    {observed{waiting: problem{v1alpha1.ReasonWaitingForRuntime, "no"}}, waits("WaitingForRuntime"), false},
		"no journal":                                    {observed{state: &webhook.State{}, waiting: problem{v1alpha1.ReasonWaitingForJournal, "no"}}, all("False WaitingForJournal", "True WaitingForJournal", "False WaitingForJournal", "True Succeeded"), false},
		"too many":                                      {observed{problem: problem{v1alpha1.ReasonLimitExceeded, "no"}}, stalled("LimitExceeded"), true},
		"a value that cannot be used":                   {observed{failure: invalid("the entry is wrong")}, stalled("Invalid"), true},
		"an unreachable database":                       {observed{failure: down}, waits("DatabaseUnavailable"), false},
		"an internal error":                             {observed{failure: reconcile.NewError(reconcile.Database, errors.New("whsec_hunter2"))}, waits("InternalError"), false},
		"a log that cannot be read":                     {observed{state: state(webhook.State{}), failure: down}, all("False DatabaseUnavailable", "True DatabaseUnavailable", "False DatabaseUnavailable", "True Succeeded"), false},
		"an object that is new":                         {observed{}, waits("Progressing"), false},
		"a deletion":                                    {observed{deleting: true}, all("False Deleting", "True Deleting", "False Deleting", "False Deleting"), false},
		"a deletion that the finalizer of others keeps": {observed{deleting: true, keptBy: "example.org/a"}, all("False Deleting", "True Deleting", "False Deleting", "False Deleting"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := table{}
			for _, condition := range conditions(c.seen) {
				got[condition.Type] = string(condition.Status) + " " + condition.Reason
				if condition.Message == "" || strings.Contains(condition.Message, "hunter2") {
					t.Errorf("%s has the message %q", condition.Type, condition.Message)
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

func TestSetStatus_KeepsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	before := v1alpha1.MediaWebhookStatus{Host: "a", SecretName: "b", Pending: new(int64(4)), Tested: "t", Log: &v1alpha1.WebhookLog{Request: "l"}}
	object := &v1alpha1.MediaWebhook{Status: *before.DeepCopy()}
	setStatus(object, observed{failure: invalid("no")})
	if diff := cmp.Diff(before, object.Status); diff != "" {
		t.Errorf("after a failure: %s", diff)
	}
	setStatus(object, observed{host: "c", secretName: "d", state: &webhook.State{Pending: 5, LastError: strings.Repeat("é", 400)}})
	if object.Status.Host != "c" || object.Status.SecretName != "d" || *object.Status.Pending != 5 || object.Status.Tested != "" || object.Status.Log != nil || len(object.Status.LastError) > maxErrorText {
		t.Errorf("the status is %+v", object.Status)
	}
	setStatus(object, observed{removed: true, pendingReason: "no account"})
	if diff := cmp.Diff(v1alpha1.MediaWebhookStatus{}, object.Status); diff != "" {
		t.Errorf("after the removal: %s", diff)
	}
}

func TestOlderThan_CountsByTimeThenByName(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
	one := func(name string, seconds int) v1alpha1.MediaWebhook {
		return v1alpha1.MediaWebhook{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))}}
	}
	deleting := one("a-deleting", -9)
	deleting.DeletionTimestamp = &now
	all := []v1alpha1.MediaWebhook{one("d", 0), one("c", 0), one("e", 0), one("z", -1), one("b", 1), deleting}
	if got := olderThan(&all[0], all); got != 2 {
		t.Errorf("%d are older, want c and z", got)
	}
}
