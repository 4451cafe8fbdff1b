package operator_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
)

// poll tries a key until the returned function is called, which returns the number of tries and
// how many failed.
func (b *harness) poll(key []byte) (stop func() (tries, failures int64)) {
	b.t.Helper()
	token, ok := account.ParseKeySecret(string(key))
	if !ok {
		b.t.Fatal("the key has no valid form")
	}
	var tries, failures atomic.Int64
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			principal, err := b.database.Credentials.FindPrincipal(context.WithoutCancel(ctx), token.Hash())
			tries.Add(1)
			if err != nil || principal.Key.ExpiresAt != nil && !principal.Key.ExpiresAt.After(time.Now()) {
				failures.Add(1)
			}
		}
	}()
	return func() (int64, int64) {
		cancel()
		<-ended
		return tries.Load(), failures.Load()
	}
}

// A rebuilt cluster ended every key in 0.2 s, despite an overlap of 24 h.
func TestKeys_RebuiltClusterKeepsTheKeysOfClients(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle)
	stopOperator := b.run(b.config)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	stopOperator()
	stopped := []func() (int64, int64){}
	old := map[string]string{}
	for _, app := range []string{"default", "web"} {
		old[app] = b.apiKey("demo", app)
		stopped = append(stopped, b.poll([]byte(old[app])))
	}

	// The objects are gone, and Git creates them again with other UIDs.
	for _, app := range []string{"default", "web"} {
		must(t, b.Delete(b.ctx, b.secret("demo", app)))
	}
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Finalizers = nil })
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	b.sql(`WITH taken AS (UPDATE account SET namespace_uid = '', object_uid = '' RETURNING 1) SELECT count(*) FROM taken`)
	again := b.account("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	b.run(b.config)
	b.ready(again)
	for _, app := range []string{"default", "web"} {
		if held := b.apiKey("demo", app); held == old[app] || !b.opens([]byte(held)) {
			t.Errorf("the Secret of app %s holds no new key that works", app)
		}
	}
	for _, stop := range stopped {
		if tries, failures := stop(); failures != 0 || tries == 0 {
			t.Errorf("%d of %d requests with an old key failed", failures, tries)
		}
	}
	if n := b.sql(`SELECT count(*) FROM api_key WHERE expires_at > now() + interval '23 hours'`); n != 2 {
		t.Errorf("%d old keys end after the overlap, want 2", n)
	}
	// From now on the Secret is this object's: its deletion revokes.
	held := b.apiKey("demo", "default")
	must(t, b.Delete(b.ctx, b.secret("demo", "default")))
	wait.UntilNone(b.t, func() string {
		if b.opens([]byte(held)) || b.opens([]byte(old["default"])) {
			return "the keys of the deleted Secret are valid"
		}
		return ""
	})
}

// The Secrets come back from a backup, and the database knows their keys.
func TestKeys_RestoredSecretKeepsItsKey(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle)
	stop := b.run(b.config)
	object := b.readyAccount("demo")
	stop()
	backup := b.secret("demo", "default")
	must(t, b.Delete(b.ctx, backup.DeepCopy()))
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Finalizers = nil })
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	b.sql(`WITH taken AS (UPDATE account SET namespace_uid = '', object_uid = '' RETURNING 1) SELECT count(*) FROM taken`)
	b.restoreSecret(backup)
	again := b.account("demo")
	b.run(b.config)
	b.ready(again)
	if b.apiKey("demo", "default") != string(backup.Data["apiKey"]) || b.keyRows() != 1 {
		t.Error("the key of the restored Secret was replaced")
	}
	if key := b.newestKey(again); key.ObjectUID != string(again.UID) || key.ExpiresAt != nil {
		t.Errorf("the key is not that of the new object: %+v", key)
	}
}

// restoreSecret creates a Secret from a backup, without the references to objects of another
// cluster.
func (b *harness) restoreSecret(backup *corev1.Secret) {
	b.t.Helper()
	must(b.t, b.Create(b.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: backup.Namespace, Name: backup.Name, Labels: backup.Labels}, Data: backup.Data,
	}))
}

// The database is restored to a time before the rotation: the Secret proves the key that clients
// use since.
func TestKeys_RestoredDatabaseAcceptsTheKeyOfTheSecret(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle)
	stop := b.run(b.config)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Overlap = &metav1.Duration{} })
	before := b.secret("demo", "default").Data["apiKey"]
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	b.ready(object)
	leaked := b.secret("demo", "default")
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 3 })
	b.ready(object)
	current := b.secret("demo", "default").Data["apiKey"]
	stop()
	b.sql(`WITH lost AS (DELETE FROM api_key WHERE sequence > 1), back AS (UPDATE app SET key_sequence = 1),
		valid AS (UPDATE api_key SET expires_at = NULL WHERE sequence = 1 RETURNING 1) SELECT count(*) FROM valid`)
	stop = b.run(b.config)
	wait.UntilNone(b.t, func() string {
		if !b.opens(current) {
			return "the key of the Secret is not valid"
		}
		return ""
	})
	b.eventsHoldNoSecret(string(current), "KeyAccepted")
	b.ready(object)
	if b.apiKey("demo", "default") != string(current) || b.opens(before) {
		t.Error("the accepted key was replaced, or the older one did not end")
	}
	if key := b.newestKey(object); key.Sequence != 3 || key.Generation != 3 {
		t.Errorf("the accepted key is %+v", key)
	}
	// A key that was rotated before the restore must not come back, although its proof is valid.
	stop()
	change(b, b.secret("demo", "default"), func(s *corev1.Secret) { s.Data = leaked.Data })
	b.run(b.config)
	wait.UntilNone(b.t, func() string {
		if key := b.apiKey("demo", "default"); key == string(leaked.Data["apiKey"]) || !b.opens([]byte(key)) {
			return "the Secret holds no new key"
		}
		return ""
	})
	if b.opens(leaked.Data["apiKey"]) {
		t.Error("a rotated key is valid again")
	}
}

func TestSecret_ReplayedOrForgedIsNotAccepted(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(b *harness, old *corev1.Secret) map[string][]byte{
		"a rotated key": func(_ *harness, old *corev1.Secret) map[string][]byte { return old.Data },
		"a forged key": func(b *harness, old *corev1.Secret) map[string][]byte {
			forged, err := account.NewKeySecret(0)
			must(b.t, err)
			return map[string][]byte{"apiKey": []byte(forged.Reveal()), "proof": []byte("v1.99." + string(old.Data["proof"][5:]))}
		},
		"the key of another account": func(b *harness, _ *corev1.Secret) map[string][]byte {
			other := b.readyAccount("other")
			change(b, other, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
			b.ready(other)
			data := b.secret("other", "default").Data
			b.sql(`WITH lost AS (DELETE FROM api_key WHERE sequence = 2 AND account_id = $1 RETURNING 1) SELECT count(*) FROM lost`, b.accountID(other))
			return map[string][]byte{"apiKey": data["apiKey"], "proof": data["proof"]}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, quiet)
			object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Overlap = &metav1.Duration{} })
			old := b.secret("demo", "default")
			change(b, object, func(a *v1alpha1.MediaAccount) {
				a.Spec.APIKeys.Generation, a.Spec.APIKeys.Overlap = 2, &metav1.Duration{}
			})
			b.ready(object)
			change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Overlap = &metav1.Duration{Duration: time.Hour} })
			b.ready(object)
			current := b.secret("demo", "default").Data["apiKey"]
			data := replace(b, old)
			change(b, b.secret("demo", "default"), func(s *corev1.Secret) { s.Data = data })
			wait.UntilNone(b.t, func() string {
				key := b.apiKey("demo", "default")
				if key == string(data["apiKey"]) || key == string(current) {
					return "the Secret holds no new key"
				}
				return ""
			})
			b.ready(object)
			if b.opens(data["apiKey"]) {
				t.Error("the key is accepted")
			}
			if !b.opens(current) || !b.opens(b.secret("demo", "default").Data["apiKey"]) {
				t.Error("the keys of the clients must stay valid")
			}
		})
	}
}

// An account that is closed and opened again has new keys, unless the Secret proves the old one.
func TestKeys_ReopenedAccountTakesBackTheKeyOfItsSecret(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle)
	stop := b.run(b.config)
	object := b.readyAccount("demo")
	stop()
	_, err := b.registry.Close(b.ctx, b.accountID(object), account.CloseOptions{})
	must(t, err)
	key := b.secret("demo", "default").Data["apiKey"]
	if b.opens(key) {
		t.Fatal("the key of a closed account is valid")
	}
	b.sql(`WITH opened AS (UPDATE account SET closed_at = NULL RETURNING 1) SELECT count(*) FROM opened`)
	b.run(b.config)
	wait.UntilNone(b.t, func() string {
		if !b.opens(key) {
			return "the key of the Secret is not valid"
		}
		return ""
	})
	b.ready(object)
	if b.apiKey("demo", "default") != string(key) {
		t.Error("the key was replaced")
	}
	must(t, client.IgnoreNotFound(b.Get(b.ctx, client.ObjectKeyFromObject(object), object)))
}
