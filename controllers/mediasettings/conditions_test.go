package mediasettings

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/settings"
)

func TestConditions_FollowFromObserved(t *testing.T) {
	t.Parallel()
	type table map[string]string
	down := reconcile.NewError(reconcile.Database, fault.New(fault.Unavailable, "the database can't be reached"))
	cases := map[string]struct {
		seen    observed
		want    table
		handled bool
	}{
		"applied settings are Ready": {
			seen: observed{layers: &settings.Layers{}}, handled: true,
			want: table{"Ready": "True Succeeded", "Reconciling": "False Succeeded", "Stalled": "False Succeeded"},
		},
		"settings that are not active are Stalled": {
			seen: observed{active: "older"}, handled: true,
			want: table{"Ready": "False Conflict", "Reconciling": "False Conflict", "Stalled": "True Conflict"},
		},
		"settings without an account are Reconciling": {
			seen: observed{pendingReason: "MediaAccount demo not found in this namespace"},
			want: table{"Ready": "False AccountNotReady", "Reconciling": "True AccountNotReady", "Stalled": "False AccountNotReady"},
		},
		"an unreachable database is retried": {
			seen: observed{failure: down},
			want: table{"Ready": "False DatabaseUnavailable", "Reconciling": "True DatabaseUnavailable", "Stalled": "False DatabaseUnavailable"},
		},
		"an internal error does not show its cause": {
			seen: observed{failure: reconcile.NewError(reconcile.Database, errors.New("secret"))},
			want: table{"Ready": "False InternalError", "Reconciling": "True InternalError", "Stalled": "False InternalError"},
		},
		"a deletion is Reconciling": {
			seen: observed{deleting: true, pendingReason: "MediaAccount demo is being deleted"},
			want: table{"Ready": "False Deleting", "Reconciling": "True Deleting", "Stalled": "False Deleting"},
		},
		"an object not reconciled yet is Progressing": {
			seen: observed{},
			want: table{"Ready": "False Progressing", "Reconciling": "True Progressing", "Stalled": "False Progressing"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := table{}
			for _, condition := range conditions(c.seen) {
				got[condition.Type] = string(condition.Status) + " " + condition.Reason
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

func TestSetLayerStatus_ListsFieldsBySource(t *testing.T) {
	t.Parallel()
	quality, width, yes := 60, 200, true
	layers := settings.Layers{
		Pinned: settings.Layer{WebPOutputQuality: &quality, Ceilings: settings.Ceilings{MaxSignatureSeconds: &width}},
		Tenant: settings.Layer{WebPOutputQuality: &width, ThumbnailWidth: &width, UseWebP: &yes},
	}
	var shown v1alpha1.MediaSettingsStatus
	setLayerStatus(&shown, observed{layers: &layers})
	if !slices.Equal(shown.Pinned, []string{"webpOutputQuality", "maxSignatureSeconds"}) || !slices.Equal(shown.Tenant, []string{"useWebP", "thumbnailWidth"}) {
		t.Errorf("pinned %v, tenant %v: a pinned field must not be listed as the tenant's", shown.Pinned, shown.Tenant)
	}
	down := observed{failure: reconcile.NewError(reconcile.Database, fault.New(fault.Unavailable, "down"))}
	if setLayerStatus(&shown, down); shown.Effective == nil {
		t.Error("an outage must not clear the last values")
	}
	if setLayerStatus(&shown, observed{active: "older"}); shown.Effective != nil || shown.Pinned != nil || shown.Tenant != nil {
		t.Errorf("settings that are not active have %+v", shown)
	}
}

func TestActiveOf_ReturnsTheOldest(t *testing.T) {
	t.Parallel()
	made := func(name string, second int64, change ...func(*v1alpha1.MediaSettings)) v1alpha1.MediaSettings {
		s := v1alpha1.MediaSettings{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)}}
		for _, change := range change {
			change(&s)
		}
		return s
	}
	deleting := func(s *v1alpha1.MediaSettings) { now := metav1.NewTime(time.Unix(9, 0)); s.DeletionTimestamp = &now }
	cases := map[string]struct {
		all  []v1alpha1.MediaSettings
		want string
	}{
		"alone":                         {all: []v1alpha1.MediaSettings{made("a", 1)}, want: "a"},
		"by creation":                   {all: []v1alpha1.MediaSettings{made("a", 2), made("b", 1)}, want: "b"},
		"by name in the same time":      {all: []v1alpha1.MediaSettings{made("b", 1), made("a", 1)}, want: "a"},
		"not one that is being deleted": {all: []v1alpha1.MediaSettings{made("a", 1, deleting), made("b", 2)}, want: "b"},
	}
	for name, c := range cases {
		if got := activeOf(c.all); got.Name != c.want {
			t.Errorf("%s: %s is active, want %s", name, got.Name, c.want)
		}
	}
}
