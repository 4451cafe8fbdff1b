package operator_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/operator"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/settings"
)

func pinQuality(n int32) func(*v1alpha1.MediaSettings) {
	return func(s *v1alpha1.MediaSettings) { s.Spec.WebPOutputQuality = &n }
}

func TestSettings_ArePinnedAndReported(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	account := b.account("demo")
	pins := b.settings("site", "demo", pinQuality(60))
	b.ready(account)
	b.ready(pins)
	service := settings.NewService(b.database.Settings)
	width, quality := 200, 90
	_, err := service.Update(b.ctx, b.accountID(account), byTenant, settings.Layer{WebPOutputQuality: &quality})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "pinned by MediaSettings "+b.namespace+"/site") {
		t.Errorf("a change of a pinned field gives %v", err)
	}
	// A change by the tenant causes no event; the timer picks it up.
	_, err = service.Update(b.ctx, b.accountID(account), byTenant, settings.Layer{ThumbnailWidth: &width})
	must(t, err)
	wait.UntilNone(b.t, func() string {
		must(t, b.Get(b.ctx, client.ObjectKeyFromObject(pins), pins))
		got := pins.Status.Effective
		if got == nil || got.UseWebP || got.WebPOutputQuality != 60 || got.ThumbnailWidth != 200 || got.ThumbnailHeight != 320 {
			return "the tenant's value does not show"
		}
		return ""
	})
	if !slices.Equal(pins.Status.Pinned, []string{"webpOutputQuality"}) || !slices.Equal(pins.Status.Tenant, []string{"thumbnailWidth"}) {
		t.Errorf("pinned %v, tenant %v", pins.Status.Pinned, pins.Status.Tenant)
	}

	change(b, pins, func(s *v1alpha1.MediaSettings) { s.Spec.WebPOutputQuality = nil })
	b.ready(pins)
	if len(pins.Status.Pinned) != 0 || pins.Status.Effective.WebPOutputQuality != 80 {
		t.Errorf("the pin was not removed: %+v", pins.Status)
	}
	must(t, b.Delete(b.ctx, pins))
	b.gone(pins)
}

func TestSettings_WaitForTheAccount(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.config.UsageInterval = time.Hour })
	pins := b.settings("site", "demo", pinQuality(60))
	b.shows(pins, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAccountNotReady)
	b.shows(pins, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonAccountNotReady)
	account := b.readyAccount("demo")
	b.ready(pins)
	must(t, b.Delete(b.ctx, account))
	b.gone(account)
	b.shows(pins, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAccountNotReady)
	must(t, b.Delete(b.ctx, pins))
	b.gone(pins)
}

// heldProvision holds the first write of new accounts until release is closed. It closes finalized when the
// settings of one have their finalizer, after which they look for the account.
type heldProvision struct {
	release, finalized chan struct{}
	once               sync.Once
}

func holdProvision(b *harness, change ...func(*operator.Deps)) *heldProvision {
	held := &heldProvision{release: make(chan struct{}), finalized: make(chan struct{})}
	b.transport = func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/mediaaccounts/") {
				select {
				case <-held.release:
				case <-request.Context().Done():
				}
			}
			if request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/mediasettings/") {
				defer held.once.Do(func() { close(held.finalized) })
			}
			return next.RoundTrip(request)
		})
	}
	b.run(b.config, change...)
	return held
}

// A MediaSettings of a new account once said that the account is not provisioned, and a moment later that
// it is.
func TestSettings_OfANewAccountWriteTheirStatusOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t, idle, func(o *options) { o.config.UsageInterval = time.Hour })
	b.account("demo")
	pins := b.settings("site", "demo", pinQuality(60))
	created := pins.CreationTimestamp.Time
	held := holdProvision(b, func(deps *operator.Deps) {
		deps.Now = func() time.Time { return created } // the time to wait is never over
	})
	wait.Receive(t, "the settings have their finalizer", held.finalized)
	close(held.release)
	b.ready(pins)
	written := map[string]bool{}
	wait.UntilNone(b.t, func() string { // the recorder has a watch of its own
		for _, version := range b.recorder.Versions("MediaSettings", "site") {
			if status := version.Object["status"].(map[string]any); status["conditions"] != nil { // others have defaults only
				written[fmt.Sprint(status)] = true
			}
		}
		if len(written) == 0 {
			return "the recorder has no status of the MediaSettings"
		}
		return ""
	})
	if len(written) != 1 {
		t.Errorf("the status was written %d times: %v", len(written), written)
	}
}

func TestSettings_SayThatANewAccountTakesLong(t *testing.T) {
	t.Parallel()
	b := newHarness(t, idle, func(o *options) { o.config.UsageInterval = time.Hour })
	held := holdProvision(b)
	b.account("demo")
	pins := b.settings("site", "demo", pinQuality(60))
	wait.Receive(t, "the settings have their finalizer", held.finalized)
	b.shows(pins, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAccountNotReady)
	close(held.release)
	b.ready(pins)
}

func TestSettings_OldestIsActiveAndTheNextFollows(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.config.UsageInterval = time.Hour })
	account := b.readyAccount("demo")
	// Times of creation have seconds; within one the name decides.
	first := b.settings("a-first", "demo", pinQuality(50))
	second := b.settings("b-second", "demo", pinQuality(60))
	third := b.settings("c-third", "demo", pinQuality(70))
	other := b.settings("other", "elsewhere", pinQuality(1))
	b.ready(first)
	for _, loser := range []*v1alpha1.MediaSettings{second, third} {
		b.shows(loser, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict)
		if message := meta.FindStatusCondition(loser.Status.Conditions, v1alpha1.ConditionStalled).Message; !strings.Contains(message, "a-first") {
			t.Errorf("the message does not name the active object: %s", message)
		}
		if loser.Status.Effective != nil {
			t.Error("settings that are not active have effective values")
		}
	}
	b.holds(account, 50, "a-first")
	must(t, b.Delete(b.ctx, first))
	b.gone(first)
	b.ready(second)
	b.holds(account, 60, "b-second")
	wait.UntilNone(b.t, func() string {
		must(t, b.Get(b.ctx, client.ObjectKeyFromObject(third), third))
		if message := meta.FindStatusCondition(third.Status.Conditions, v1alpha1.ConditionStalled).Message; !strings.Contains(message, "b-second") {
			return "the third still names the first: " + message
		}
		return ""
	})
	must(t, b.Delete(b.ctx, second))
	must(t, b.Delete(b.ctx, third))
	b.gone(second)
	b.gone(third)
	b.holds(account, 80, "")
	b.shows(other, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAccountNotReady)
}

// holds waits until the account's quality is n, pinned by the named settings.
func (b *harness) holds(account *v1alpha1.MediaAccount, n int, by string) {
	b.t.Helper()
	if by != "" {
		by = b.namespace + "/" + by
	}
	wait.UntilNone(b.t, func() string {
		layers, err := settings.NewService(b.database.Settings).Get(b.ctx, b.accountID(account))
		must(b.t, err)
		if layers.Effective().WebPOutputQuality != n || layers.PinnedBy != by {
			return fmt.Sprintf("the database holds quality %d, pinned by %q", layers.Effective().WebPOutputQuality, layers.PinnedBy)
		}
		return ""
	})
}
