package operator_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// forge replaces the conditions in a status with as many foreign ones as it may have.
func (b *harness) forge(object client.Object, conditions int, more string) {
	b.t.Helper()
	var fakes []string
	for i := range conditions {
		fakes = append(fakes, fmt.Sprintf(`{"type":"Fake%d","status":"True","reason":"Fake","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`, i))
	}
	patch := fmt.Sprintf(`{"status":{"conditions":[%s]%s}}`, strings.Join(fakes, ","), more)
	must(b.t, b.Status().Patch(b.ctx, object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// A status with as many foreign conditions as it may have could once never be written again: a
// forged account id stayed, and the deletion waited for its status for ever.
func TestStatus_ForeignConditionsAreRemoved(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.contradicts = true })
	victim, forger, kept := b.account("victim"), b.account("forger", deleting), b.account("kept")
	b.ready(victim)
	b.ready(forger)
	b.ready(kept)
	pins := b.settings("site", "victim")
	b.ready(pins)
	must(t, b.Delete(b.ctx, kept))
	b.gone(kept)
	retained := b.retained(b.accountID(kept))
	honest := forger.Status.DeepCopy()
	forged := fmt.Sprintf(`,"accountID":%q,"bucket":%q,"binding":{"name":"theirs"},"keys":null,"endpoints":null`, victim.Status.AccountID, victim.Status.Bucket)
	corrected := func(object client.Object, reason string) {
		t.Helper()
		b.shows(object, v1alpha1.ConditionReady, metav1.ConditionTrue, reason)
		for _, condition := range conditionsOf(object) {
			if condition.Reason == "Fake" {
				t.Errorf("%s still has the condition %s", object.GetName(), condition.Type)
			}
		}
	}
	b.forge(forger, 16, forged)
	b.forge(pins, 16, "")
	b.forge(retained, 8, "")
	corrected(forger, v1alpha1.ReasonSucceeded)
	corrected(pins, v1alpha1.ReasonSucceeded)
	corrected(retained, v1alpha1.ReasonRetained)
	if got := forger.Status; got.AccountID != honest.AccountID || got.Bucket != honest.Bucket || !reflect.DeepEqual(got.Binding, honest.Binding) ||
		!reflect.DeepEqual(got.Endpoints, honest.Endpoints) || len(got.Keys) != 1 {
		t.Errorf("the status is still forged: %+v", got)
	}
	b.forge(forger, 16, forged)
	must(t, b.Delete(b.ctx, forger))
	b.gone(forger)
	b.hasNoBucket(honest.Bucket)
}

// A deletion once waited for its own status, which an admission policy may deny.
func TestDeletion_DoesNotDependOnItsStatus(t *testing.T) {
	t.Parallel()
	var deny atomic.Bool
	b := newHarness(t, func(o *options) { o.idle = true })
	b.transport = func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(request *http.Request) (*http.Response, error) {
			if deny.Load() && request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/mediaaccounts/demo/status") {
				return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
					Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))}, nil
			}
			return next.RoundTrip(request)
		})
	}
	b.run(b.config)
	object := b.readyAccount("demo", deleting)
	deny.Store(true)
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	b.hasNoBucket(object.Status.Bucket)
}
