package operator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
)

// deleting selects the policy Delete.
func deleting(a *v1alpha1.MediaAccount) { a.Spec.DeletionPolicy = v1alpha1.DeletionDelete }

func (b *harness) hasNoBucket(bucket string) {
	b.t.Helper()
	if exists, err := b.store.BucketExists(b.ctx, bucket); err != nil || exists {
		b.t.Errorf("the bucket still exists (%v)", err)
	}
}

// claim makes a bucket of another account of this installation.
func (b *harness) claim(bucket, accountID string) {
	b.t.Helper()
	identity, err := b.database.Installations.Identity(b.ctx)
	must(b.t, err)
	_, err = b.store.Claim(b.ctx, objectstore.ClaimRequest{Bucket: bucket, Owner: objectstore.Owner{AccountID: accountID, InstallationID: identity.ID}, Epoch: identity.Epoch})
	must(b.t, err)
}

func TestDeletion_RetainKeepsTheBucketAndRevokesTheKeys(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo")
	bucket, id, key := object.Status.Bucket, b.accountID(object), b.secret("demo", "default")
	must(t, b.store.Put(b.ctx, bucket, "photo", "image/jpeg", strings.NewReader("bytes"), 5))
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	if b.opens(key.Data["apiKey"]) {
		t.Error("the key outlives the account")
	}
	if _, err := b.store.Stat(b.ctx, bucket, "photo"); err != nil {
		t.Errorf("the bucket was not kept: %v", err)
	}
	if err := b.Get(b.ctx, client.ObjectKeyFromObject(key), key); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret still exists: %v", err)
	}
	// A new object of the same name has the same account, with a new key.
	again := b.readyAccount("demo")
	if again.Status.AccountID != id.String() || again.Status.Bucket != bucket {
		t.Errorf("the account is %s with bucket %s, want %s with %s", again.Status.AccountID, again.Status.Bucket, id, bucket)
	}
	if !b.opens(b.secret("demo", "default").Data["apiKey"]) {
		t.Error("the restored account has no key")
	}
}

func TestDeletion_DeleteRemovesItemsObjectsAndBucket(t *testing.T) {
	t.Parallel()
	var databaseURL string
	b := newHarness(t, func(o *options) {
		o.databaseURL = func(t testing.TB) string { databaseURL = testenv.Postgres(t); return databaseURL }
	})
	object := b.readyAccount("demo", deleting)
	const items = 1010
	b.seedItems(databaseURL, object, items)
	for i := range 20 {
		must(t, b.store.Put(b.ctx, object.Status.Bucket, fmt.Sprintf("objects/%d", i), "image/jpeg", strings.NewReader("bytes"), 5))
	}
	bucket, id := object.Status.Bucket, b.accountID(object)
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	b.hasNoBucket(bucket)
	if apps, _, err := b.registry.OpenApps(b.ctx, id, nil); err == nil {
		t.Errorf("the account's rows are still there: %v", apps)
	}
}

// seedItems puts drafts into the account's Default App.
func (b *harness) seedItems(databaseURL string, object *v1alpha1.MediaAccount, n int) {
	b.t.Helper()
	_, err := testenv.Connections(b.t, databaseURL).Exec(b.ctx, `INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at)
		SELECT gen_random_uuid(), app.account_id, app.id, 'photo.jpg', 'private', '', '', '[]', 0, now()
		FROM app, generate_series(1, $2) WHERE app.account_id = $1`, b.accountID(object), n)
	must(b.t, err)
}

func TestDeletion_DeleteRetainsTheBucketOfAnotherAccount(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	name := "other-" + b.namespace
	b.claim(name, "another")
	object := b.account("demo", deleting, func(a *v1alpha1.MediaAccount) {
		a.Spec.Storage.Bucket = &v1alpha1.BucketSpec{Name: name}
	})
	b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	if owner, err := b.store.Owner(b.ctx, name); err != nil || owner.AccountID != "another" {
		t.Errorf("the other account's bucket was touched: %+v, %v", owner, err)
	}
}

// The deletion once used the account id and bucket of the status alone: a client that could
// write the status of one account could delete another tenant's media.
func TestDeletion_IgnoresAForgedStatus(t *testing.T) {
	t.Parallel()
	var databaseURL string
	b := newHarness(t, func(o *options) {
		o.databaseURL = func(t testing.TB) string { databaseURL = testenv.Postgres(t); return databaseURL }
	})
	victim, forger := b.account("victim"), b.account("forger", deleting)
	b.ready(victim)
	b.ready(forger)
	b.seedItems(databaseURL, victim, 1)
	must(t, b.store.Put(b.ctx, victim.Status.Bucket, "photo", "image/jpeg", strings.NewReader("bytes"), 5))
	own := forger.Status.Bucket
	patch := client.MergeFrom(forger.DeepCopy())
	forger.Status.AccountID, forger.Status.Bucket = victim.Status.AccountID, victim.Status.Bucket
	must(t, b.Status().Patch(b.ctx, forger, patch))
	must(t, b.Delete(b.ctx, forger))
	b.gone(forger)
	if _, err := b.store.Stat(b.ctx, victim.Status.Bucket, "photo"); err != nil {
		t.Errorf("the other account's object is gone: %v", err)
	}
	if has, err := b.registry.HasItems(b.ctx, b.accountID(victim)); err != nil || !has {
		t.Errorf("the other account's item is gone: %v", err)
	}
	b.hasNoBucket(own)
}

func TestDeletion_SucceedsWithoutABucket(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.config.BucketCheckInterval = time.Hour })
	object := b.readyAccount("demo", deleting)
	must(t, b.store.RemoveDrained(b.ctx, object.Status.Bucket))
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
}

func TestDeletion_NothingIsCreatedInATerminatingNamespace(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle)
	b.moveToAnotherNamespace()
	b.run(b.config)
	object := b.readyAccount("demo", deleting)
	secret := b.secret("demo", "default")
	must(t, b.Delete(b.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}))

	// The namespace controller deletes both, in any order and at any time. Here the Secret is the first one, unless that was faster.
	must(t, client.IgnoreNotFound(b.Delete(b.ctx, secret)))
	b.settle()
	if err := b.Get(b.ctx, client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret was created again: %v", err)
	}
	keys, err := b.registry.Keys(b.ctx, b.accountID(object))
	must(t, err)
	for _, app := range keys.Apps {
		if len(app.Valid) > 1 {
			t.Errorf("there are %d keys: a key was issued that no Secret can carry", len(app.Valid))
		}
	}
	bucket := object.Status.Bucket
	must(t, client.IgnoreNotFound(b.Delete(b.ctx, object)))
	b.gone(object)
	b.hasNoBucket(bucket)
	if _, err := b.registry.Find(b.ctx, b.namespace, "demo"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the account is still open: %v", err)
	}
}
