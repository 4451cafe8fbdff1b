package operator_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/operator"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
)

// sql runs a statement that returns a number.
func (b *harness) sql(statement string, args ...any) int64 {
	b.t.Helper()
	var n int64
	must(b.t, testenv.Connections(b.t, b.databaseURL).QueryRow(b.ctx, statement, args...).Scan(&n))
	return n
}

// ageKeys makes every time in the records of keys an interval earlier, as if it had passed.
func (b *harness) ageKeys(by time.Duration) {
	b.t.Helper()
	b.sql(`WITH aged AS (UPDATE api_key SET created_at = created_at - $1 * interval '1 second', delivered_at = delivered_at - $1 * interval '1 second',
		expires_at = expires_at - $1 * interval '1 second' RETURNING 1) SELECT count(*) FROM aged`, int64(by.Seconds()))
}

// keyRows returns the number of records of keys, valid or not.
func (b *harness) keyRows() int64 { return b.sql(`SELECT count(*) FROM api_key`) }

// apiKey returns the key in the Secret of an app.
func (b *harness) apiKey(account, app string) string {
	b.t.Helper()
	return string(b.secret(account, app).Data["apiKey"])
}

// touch changes what does not matter for keys and waits until the operator has handled it.
func (b *harness) touch(object *v1alpha1.MediaAccount, text string) {
	b.t.Helper()
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.DisplayName = text })
	wait.UntilNone(b.t, func() string {
		must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		if object.Status.ObservedGeneration != object.Generation {
			return "the generation has not been observed: " + describe(object.Status.Conditions)
		}
		return ""
	})
}

// quiet makes the timers of the operator irrelevant for a test.
func quiet(o *options) { o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour }

func idle(o *options) { o.idle = true }

// denySecrets installs an admission policy that denies the Secrets of the test's namespace, and
// returns when it is in effect. The returned function removes it.
func (b *harness) denySecrets() (allow func()) {
	b.t.Helper()
	policy := func(kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": "deny-secrets-" + b.namespace}, "spec": spec,
		}}
	}
	denied := policy("ValidatingAdmissionPolicy", map[string]any{
		"matchConstraints": map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": b.namespace}},
			"resourceRules":     []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"secrets"}, "operations": []any{"CREATE", "UPDATE"}}},
		},
		"validations": []any{map[string]any{"expression": "false", "message": "Secrets are frozen by the audit"}},
	})
	binding := policy("ValidatingAdmissionPolicyBinding", map[string]any{"policyName": denied.GetName(), "validationActions": []any{"Deny"}})
	must(b.t, b.Create(b.ctx, denied))
	must(b.t, b.Create(b.ctx, binding))
	remove := sync.OnceFunc(func() {
		ctx := context.WithoutCancel(b.ctx)
		must(b.t, b.Delete(ctx, binding))
		must(b.t, b.Delete(ctx, denied))
	})
	b.t.Cleanup(remove)
	wait.UntilNone(b.t, func() string {
		if b.mayCreateSecret() == nil {
			return "the policy is not in effect"
		}
		return ""
	})
	return func() {
		remove()
		wait.UntilNone(b.t, func() string {
			if err := b.mayCreateSecret(); err != nil {
				return err.Error()
			}
			return ""
		})
	}
}

// mayCreateSecret tries it without creating one.
func (b *harness) mayCreateSecret() error {
	return b.Create(b.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "probe"}}, client.DryRunAll)
}

// A Secret that could not be written ended the only delivered key: every retry inserted another
// key and ended the ones before.
func TestKeys_UnwritableSecretEndsNoKey(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.readyAccount("demo")
	old := b.secret("demo", "default").Data["apiKey"]
	allow := b.denySecrets()
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	b.shows(object, v1alpha1.ConditionKeysReady, metav1.ConditionFalse, v1alpha1.ReasonKubernetesDenied)
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonKubernetesDenied)
	message := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionKeysReady).Message
	for _, part := range []string{"Secret demo.default.media", "an admission policy", "Secrets are frozen by the audit"} {
		if !strings.Contains(message, part) {
			t.Errorf("the condition's message %q does not contain %q", message, part)
		}
	}
	if len(object.Status.Keys) != 1 || object.Status.Keys[0].Generation != 1 {
		t.Errorf("the status shows another key than the delivered one: %+v", object.Status.Keys)
	}
	for hour := range 48 {
		b.ageKeys(time.Hour)
		b.touch(object, fmt.Sprintf("hour %d", hour))
		if rows := b.keyRows(); rows > 2 {
			t.Fatalf("hour %d: there are %d rows", hour, rows)
		}
		if n := b.sql(`SELECT count(*) FROM api_key WHERE delivered_at IS NOT NULL AND expires_at IS NULL`); n != 1 || !b.opens(old) {
			t.Fatalf("hour %d: the delivered key ended", hour)
		}
	}
	allow()
	b.touch(object, "allowed again")
	b.ready(object)
	if n := b.sql(`SELECT key_sequence FROM app`); n != 2 || b.keyRows() != 2 {
		t.Errorf("the newest key has sequence number %d, want one rotation; there are %d rows", n, b.keyRows())
	}
	fresh := b.secret("demo", "default").Data["apiKey"]
	if string(fresh) == string(old) || !b.opens(fresh) || !b.opens(old) {
		t.Error("after the rotation both keys must work")
	}
}

// An operator that starts again while Secrets cannot be written has lost the plain text of the
// pending key.
func TestKeys_UnwritableSecretSurvivesRestarts(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle)
	stop := b.run(b.config)
	object := b.readyAccount("demo")
	old := b.secret("demo", "default").Data["apiKey"]
	allow := b.denySecrets()
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	b.shows(object, v1alpha1.ConditionKeysReady, metav1.ConditionFalse, v1alpha1.ReasonKubernetesDenied)
	for restart := range 5 {
		before := b.sql(`SELECT key_sequence FROM app`)
		stop()
		stop = b.run(b.config)
		wait.UntilNone(b.t, func() string {
			if b.sql(`SELECT key_sequence FROM app`) == before {
				return "the operator has not tried again"
			}
			return ""
		})
		if rows := b.keyRows(); rows != 2 || !b.opens(old) {
			t.Fatalf("restart %d: there are %d rows, or the delivered key ended", restart, rows)
		}
	}
	allow()
	b.touch(object, "allowed again")
	b.ready(object)
	if fresh := b.secret("demo", "default").Data["apiKey"]; !b.opens(fresh) || !b.opens(old) || b.keyRows() != 2 {
		t.Errorf("after the rotation both keys must work; there are %d rows", b.keyRows())
	}
}

func TestKeys_QuotaIsNamed(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "few"}}
	quota.Spec.Hard = corev1.ResourceList{"count/secrets": resource.MustParse("1")}
	must(t, b.Create(b.ctx, quota))
	wait.UntilNone(b.t, func() string {
		must(t, b.Get(b.ctx, client.ObjectKeyFromObject(quota), quota))
		if quota.Status.Hard == nil {
			return "the quota is not in effect"
		}
		return ""
	})
	object := b.account("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	b.shows(object, v1alpha1.ConditionKeysReady, metav1.ConditionFalse, v1alpha1.ReasonKubernetesDenied)
	if message := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionKeysReady).Message; !strings.Contains(message, "Secret demo.web.media") || !strings.Contains(message, "exceeded quota: few") || strings.Contains(message, "used") {
		t.Errorf("the message is %q", message)
	}
	if !b.opens(b.secret("demo", "default").Data["apiKey"]) || object.Status.Binding == nil {
		t.Error("the app that has a Secret does not work")
	}
	change(b, quota, func(q *corev1.ResourceQuota) { q.Spec.Hard["count/secrets"] = resource.MustParse("2") })
	wait.UntilNone(b.t, func() string {
		if err := b.mayCreateSecret(); err != nil {
			return err.Error()
		}
		return ""
	})
	b.touch(object, "raised")
	b.ready(object)
}

// An immutable Secret holds the only copy of the delivered key: it is not deleted unless the next
// one can be created.
func TestSecret_ImmutableIsKeptWhileItCannotBeReplaced(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.readyAccount("demo")
	secret := b.secret("demo", "default")
	change(b, secret, func(s *corev1.Secret) { yes := true; s.Immutable = &yes })
	allow := b.denySecrets()
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	b.shows(object, v1alpha1.ConditionKeysReady, metav1.ConditionFalse, v1alpha1.ReasonKubernetesDenied)
	if kept := b.secret("demo", "default"); kept.UID != secret.UID || !b.opens(kept.Data["apiKey"]) {
		t.Error("the only Secret of the key was deleted")
	}
	allow()
	b.touch(object, "allowed again")
	b.ready(object)
	if b.apiKey("demo", "default") == string(secret.Data["apiKey"]) || !b.opens(secret.Data["apiKey"]) {
		t.Error("the key was not rotated with overlap")
	}
}

// haltingStore stops an operator at a point, as a crash would: the call at the point never
// returns.
type haltingStore struct {
	account.Store
	beforeDeliver, afterAdd, afterDeliver, afterMark bool
	halted                                           chan struct{}
	once                                             sync.Once
}

func (h *haltingStore) halt(ctx context.Context, here bool) {
	if here {
		h.once.Do(func() { close(h.halted) })
		<-ctx.Done()
	}
}

func (h *haltingStore) AddKey(ctx context.Context, key account.Key, seen *account.SeenKeys) (account.Key, error) {
	added, err := h.Store.AddKey(ctx, key, seen)
	h.halt(ctx, h.afterAdd)
	return added, err
}

func (h *haltingStore) DeliverKey(ctx context.Context, key account.Key) error {
	h.halt(ctx, h.beforeDeliver)
	err := h.Store.DeliverKey(ctx, key)
	h.halt(ctx, h.afterDeliver)
	return err
}

func (h *haltingStore) DeliverFirstKeys(ctx context.Context, keys []account.Key, objectUID string) ([]uuid.UUID, error) {
	h.halt(ctx, h.beforeDeliver)
	delivered, err := h.Store.DeliverFirstKeys(ctx, keys, objectUID)
	h.halt(ctx, h.afterDeliver)
	return delivered, err
}

func (h *haltingStore) MarkKeyReplacesSecret(ctx context.Context, key account.Key) error {
	err := h.Store.MarkKeyReplacesSecret(ctx, key)
	h.halt(ctx, h.afterMark)
	return err
}

func TestKeys_CrashAtAnyPointLeavesOneWorkingKey(t *testing.T) {
	t.Parallel()
	points := map[string]haltingStore{
		"after the key's row":       {afterAdd: true},
		"after the Secret":          {beforeDeliver: true},
		"after the delivery":        {afterDeliver: true},
		"before a Secret's removal": {afterMark: true},
	}
	for name := range points {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, quiet, idle)
			stop := b.run(b.config)
			object := b.readyAccount("demo")
			stop()
			old := b.secret("demo", "default").Data["apiKey"]
			if points[name].afterMark {
				change(b, b.secret("demo", "default"), func(s *corev1.Secret) { yes := true; s.Immutable = &yes })
			}
			store := &haltingStore{Store: b.database.Accounts, halted: make(chan struct{}), afterAdd: points[name].afterAdd, beforeDeliver: points[name].beforeDeliver,
				afterDeliver: points[name].afterDeliver, afterMark: points[name].afterMark}
			stop = b.run(b.config, func(deps *operator.Deps) { deps.Accounts = store })
			change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
			wait.Receive(t, "the operator is at the point", store.halted)
			stop()
			if !b.opens(old) {
				t.Error("the working key ended")
			}
			if held := b.secret("demo", "default").Data["apiKey"]; !b.opens(held) {
				t.Error("the Secret holds a key that does not work")
			}
			if points[name].afterMark { // the crash is between the removal and the creation
				must(t, b.Delete(b.ctx, b.secret("demo", "default")))
			}
			b.run(b.config)
			b.ready(object)
			held := b.secret("demo", "default").Data["apiKey"]
			if string(held) == string(old) || !b.opens(held) || !b.opens(old) {
				t.Error("after the restart the new key and, for its overlap, the old one must work")
			}
			if rows := b.keyRows(); rows != 2 || b.sql(`SELECT count(*) FROM api_key WHERE expires_at IS NULL`) != 1 {
				t.Errorf("there are %d rows", rows)
			}
		})
	}
}

func TestKeys_CrashAtTheFirstDeliveryKeepsTheKeysOfTheSecrets(t *testing.T) {
	t.Parallel()
	for name, point := range map[string]struct{ before, after bool }{"before": {before: true}, "after": {after: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, quiet, idle)
			store := &haltingStore{Store: b.database.Accounts, halted: make(chan struct{}), beforeDeliver: point.before, afterDeliver: point.after}
			stop := b.run(b.config, func(deps *operator.Deps) { deps.Accounts = store })
			object := b.account("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
			wait.Receive(t, "the operator is at the point", store.halted)
			stop()
			keys := map[string]string{}
			for _, app := range []string{"default", "web"} {
				keys[app] = string(b.secret("demo", app).Data["apiKey"])
			}
			b.run(b.config)
			b.ready(object)
			for app, key := range keys {
				if got := b.apiKey("demo", app); got != key || !b.opens([]byte(key)) {
					t.Errorf("the Secret of app %s has another key, or one that does not work", app)
				}
			}
			if rows, pending := b.keyRows(), b.sql(`SELECT count(*) FROM api_key WHERE delivered_at IS NULL`); rows != 2 || pending != 0 {
				t.Errorf("there are %d rows, and %d of them are pending", rows, pending)
			}
		})
	}
}

// Events of the same reason were merged into "x2", which named one app only.
func TestEvents_NameTheSecretOfEveryApp(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	object := b.readyAccount("demo")
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "shop"}, {Name: "web"}} })
	b.ready(object)
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	b.ready(object)
	for _, reason := range []string{"KeyIssued", "KeyRotated"} {
		for _, app := range []string{"shop", "web"} {
			name := v1alpha1.SecretName("demo", app)
			wait.UntilNone(b.t, func() string {
				found := 0
				for _, event := range b.events() {
					if event.Reason == reason && event.Related != nil && event.Related.Name == name && strings.Contains(event.Note, name) {
						if event.Series != nil {
							t.Fatalf("event %s of %s is a series", reason, name)
						}
						found++
					}
				}
				if found != 1 {
					return fmt.Sprintf("there are %d events %s of %s", found, reason, name)
				}
				return ""
			})
		}
	}
}

// newestKey returns the newest valid key of an account with one app.
func (b *harness) newestKey(object *v1alpha1.MediaAccount) account.Key {
	b.t.Helper()
	keys, err := b.registry.Keys(b.ctx, b.accountID(object))
	must(b.t, err)
	for _, app := range keys.Apps {
		return app.Valid[0]
	}
	b.t.Fatal("there is no app")
	return account.Key{ID: uuid.Nil}
}
