package operator_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// retained waits until the account has a RetainedMediaAccount at rest.
func (b *harness) retained(id uuid.UUID) *v1alpha1.RetainedMediaAccount {
	b.t.Helper()
	object := &v1alpha1.RetainedMediaAccount{ObjectMeta: metav1.ObjectMeta{Name: id.String()}}
	wait.UntilNone(b.t, func() string {
		if err := b.Get(b.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err.Error()
		}
		return lacks(object.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRetained)
	})
	return object
}

// sealItems adds n sealed items of 7 bytes to every app of every account in the database.
func (b *harness) sealItems(n int) {
	b.t.Helper()
	b.sql(`WITH made AS (
			INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at)
			SELECT gen_random_uuid(), app.account_id, app.id, 'photo.jpg', 'public', '', '', '[]', 7, now(), now()
			FROM app, generate_series(1, $1) RETURNING account_id, app_id, bytes
		), total AS (
			UPDATE app_total SET public_items = app_total.public_items + $1, bytes = app_total.bytes + 7 * $1 WHERE slot = 0
		), used AS (
			UPDATE account_usage SET bytes = account_usage.bytes + (SELECT coalesce(sum(made.bytes), 0) FROM made WHERE made.account_id = account_usage.account_id)
		) SELECT count(*) FROM made`, n)
}

func TestRetained_AccountIsListedAndRestored(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	b.sealItems(3)
	id, bucket, namespaceUID := b.accountID(object), object.Status.Bucket, b.namespaceUID()
	must(t, b.Delete(b.ctx, object))
	b.gone(object)

	kept := b.retained(id)
	if got := kept.Spec; got.AccountID != id.String() || got.AccountNamespace != b.namespace || got.AccountName != "demo" || got.NamespaceUID != namespaceUID ||
		got.Bucket != bucket || got.Reclaim != v1alpha1.ReclaimRetain {
		t.Errorf("spec is %+v", got)
	}
	if kept.Status.Items != 6 || kept.Status.Bytes != 42 || kept.Status.PurgeAt != nil {
		t.Errorf("status is %+v", kept.Status)
	}

	// A prune deletes the object, and nothing else.
	uid := kept.UID
	must(t, b.Delete(b.ctx, kept))
	wait.UntilNone(b.t, func() string {
		if kept = b.retained(id); kept.UID == uid {
			return "the object was not created again"
		}
		return ""
	})
	if kept.Status.Items != 6 {
		t.Errorf("status is %+v", kept.Status)
	}

	again := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	b.gone(kept)
	if b.accountID(again) != id || again.Status.Bucket != bucket || again.Status.Usage.SealedItems != 6 || again.Status.Usage.SealedBytes != 42 {
		t.Errorf("restored %+v", again.Status)
	}
}

func TestRetained_PurgeDeletesTheMedia(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo")
	b.sealItems(3)
	id, bucket := b.accountID(object), object.Status.Bucket
	must(t, b.store.Put(b.ctx, bucket, "photo", "image/jpeg", strings.NewReader("bytes"), 5))
	must(t, b.Delete(b.ctx, object))
	kept := b.retained(id)
	if _, err := b.store.Stat(b.ctx, bucket, "photo"); err != nil {
		t.Fatal(err)
	}
	change(b, kept, func(r *v1alpha1.RetainedMediaAccount) { r.Spec.Reclaim = v1alpha1.ReclaimPurge })
	b.gone(kept)
	b.hasNoBucket(bucket)
	if _, err := b.database.Consistency.AccountByID(b.ctx, id); !fault.Is(err, fault.NotFound) {
		t.Errorf("the account still exists: %v", err)
	}
}

func TestRetained_DeletionIsUndoneUntilItsTime(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", deleting)
	b.sealItems(1)
	id := b.accountID(object)
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	kept := b.retained(id)
	if kept.Spec.Reclaim != v1alpha1.ReclaimPurge || kept.Status.PurgeAt == nil {
		t.Fatalf("the deletion is not planned: %+v, %+v", kept.Spec, kept.Status)
	}
	change(b, kept, func(r *v1alpha1.RetainedMediaAccount) { r.Spec.Reclaim = v1alpha1.ReclaimRetain })
	wait.UntilNone(b.t, func() string {
		if kept = b.retained(id); kept.Status.PurgeAt != nil {
			return "the deletion is still planned"
		}
		return ""
	})
	row, err := b.registry.Retained(b.ctx, id)
	must(t, err)
	if row.EraseAfter != nil {
		t.Errorf("the account is to be erased after %s", row.EraseAfter)
	}
	again := b.readyAccount("demo", deleting)
	if b.accountID(again) != id || again.Status.Usage.SealedItems != 1 {
		t.Errorf("restored %+v", again.Status)
	}
}

// An object that was left from an earlier closing, or restored from a backup, once said Purge:
// the media was retained since.
func TestRetained_AnEarlierPurgeDeletesNothing(t *testing.T) {
	t.Parallel()
	b := newHarness(t, idle)
	stop := b.run(b.config)
	object := b.readyAccount("demo")
	id, bucket := b.accountID(object), object.Status.Bucket
	must(t, b.Delete(b.ctx, object))
	former := b.retained(id)
	stop()
	must(t, b.reopen(former))
	_, err := b.registry.Close(b.ctx, id, account.CloseOptions{})
	must(t, err)
	change(b, former, func(r *v1alpha1.RetainedMediaAccount) { r.Spec.Reclaim = v1alpha1.ReclaimPurge })
	b.run(b.config)
	wait.UntilNone(b.t, func() string {
		if now := b.retained(id); now.UID == former.UID || now.Spec.Reclaim != v1alpha1.ReclaimRetain {
			return "the object was not replaced"
		}
		return ""
	})
	if exists, err := b.store.BucketExists(b.ctx, bucket); err != nil || !exists {
		t.Errorf("the bucket is gone: %v", err)
	}
}

// reopen binds a retained account again, as if its MediaAccount existed.
func (b *harness) reopen(kept *v1alpha1.RetainedMediaAccount) error {
	_, err := b.registry.Ensure(b.ctx, account.Spec{
		Namespace: kept.Spec.AccountNamespace, Name: kept.Spec.AccountName, NamespaceUID: kept.Spec.NamespaceUID, ObjectUID: uuid.NewString(),
		MaxStorage: 1000, MaxUploadSize: 1000,
	})
	return err
}

func TestRetained_ObjectsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo")
	installation, err := b.registry.InstallationID(b.ctx)
	must(t, err)
	byHand := func(installationID string, change func(*v1alpha1.RetainedMediaAccount)) *v1alpha1.RetainedMediaAccount {
		id := uuid.NewString()
		made := &v1alpha1.RetainedMediaAccount{
			ObjectMeta: metav1.ObjectMeta{Name: id},
			Spec: v1alpha1.RetainedMediaAccountSpec{
				AccountID: id, InstallationID: installationID, AccountNamespace: b.namespace, AccountName: "demo", Bucket: object.Status.Bucket,
				ClosedAt: metav1.NowMicro(), Reclaim: v1alpha1.ReclaimPurge,
			},
		}
		change(made)
		return made
	}
	foreign := byHand(uuid.NewString(), func(r *v1alpha1.RetainedMediaAccount) {
		r.Labels = map[string]string{"app.kubernetes.io/managed-by": "mediastack-operator"}
	})
	unknown := byHand(installation.String(), func(*v1alpha1.RetainedMediaAccount) {})
	must(t, b.Create(b.ctx, foreign))
	must(t, b.Create(b.ctx, unknown))
	t.Cleanup(func() { _ = b.Delete(context.Background(), foreign); _ = b.Delete(context.Background(), unknown) })
	b.shows(unknown, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid)
	if err := b.Create(b.ctx, byHand(installation.String(), func(r *v1alpha1.RetainedMediaAccount) { r.Name = "other" })); !apierrors.IsInvalid(err) {
		t.Errorf("a name that is not the account's id: %v", err)
	}
	must(t, b.Get(b.ctx, client.ObjectKeyFromObject(foreign), foreign))
	if len(foreign.Status.Conditions) != 0 {
		t.Errorf("the object of another installation has a status: %+v", foreign.Status)
	}
	b.ready(object)
	if exists, err := b.store.BucketExists(b.ctx, object.Status.Bucket); err != nil || !exists {
		t.Errorf("the bucket is gone: %v", err)
	}
}

// Of two operators that both believe to be the leader, the database accepts the later one. The
// former one ends, and no account is lost or duplicated.
func TestRetained_TwoOperatorsAgree(t *testing.T) {
	t.Parallel()
	const accounts = 20
	b := newHarness(t, idle)
	_, endFormer := b.start(b.config, b.ownConnections())
	want := b.populate(accounts)
	b.run(b.config, b.ownConnections())
	for range 2 {
		must(t, b.DeleteAllOf(b.ctx, &v1alpha1.MediaAccount{}, client.InNamespace(b.namespace)))
		b.retainedCount(accounts)
		b.applyAccounts(accounts)
		b.restored(want)
	}
	if err := endFormer(); err == nil || !strings.Contains(err.Error(), "another replica was elected") {
		t.Errorf("the former leader ended with %v", err)
	}
}
