package operator_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// retained waits until the account has a RetainedMediaAccount at rest.
func (b *harness) retained(id uuid.UUID) *v1alpha1.RetainedMediaAccount {
	b.t.Helper()
	object := &v1alpha1.RetainedMediaAccount{ObjectMeta: metav1.ObjectMeta{Name: id.String()}}
	b.eventually(func() string {
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
	object := b.account("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	b.ready(object)
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
	b.eventually(func() string {
		if kept = b.retained(id); kept.UID == uid {
			return "the object was not created again"
		}
		return ""
	})
	if kept.Status.Items != 6 {
		t.Errorf("status is %+v", kept.Status)
	}

	again := b.account("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	b.ready(again)
	b.gone(kept)
	if b.accountID(again) != id || again.Status.Bucket != bucket || again.Status.Usage.SealedItems != 6 || again.Status.Usage.SealedBytes != 42 {
		t.Errorf("restored %+v", again.Status)
	}
}

func (b *harness) namespaceUID() string {
	b.t.Helper()
	namespace := &corev1.Namespace{}
	must(b.t, b.Get(b.ctx, client.ObjectKey{Name: b.namespace}, namespace))
	return string(namespace.UID)
}

// removeByForce deletes an object as an admin does who removes its finalizers.
func (b *harness) removeByForce(object client.Object) {
	b.t.Helper()
	b.eventually(func() string {
		must(b.t, client.IgnoreNotFound(b.Get(b.ctx, client.ObjectKeyFromObject(object), object)))
		object.SetFinalizers(nil)
		if err := b.Update(b.ctx, object); err != nil && !apierrors.IsNotFound(err) {
			return err.Error()
		}
		return ""
	})
}

// clusterEvent waits for an event of a cluster-scoped object.
func (b *harness) clusterEvent(name, reason, mentions string) {
	b.t.Helper()
	clients, err := kubernetes.NewForConfig(b.plane.Access())
	must(b.t, err)
	b.eventually(func() string {
		list, err := clients.EventsV1().Events(metav1.NamespaceDefault).List(b.ctx, metav1.ListOptions{FieldSelector: "regarding.name=" + name})
		must(b.t, err)
		for _, event := range list.Items {
			if event.Reason == reason && strings.Contains(event.Note, mentions) {
				return ""
			}
		}
		return "there is no event " + reason
	})
}

func TestOrphan_IsRetainedWithAnEvent(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	object := b.account("demo")
	b.ready(object)
	id, key := b.accountID(object), b.secret("demo", "default").Data["apiKey"]
	// Without the operator nobody sees the finalizer go.
	stop()
	must(t, b.Delete(b.ctx, object))
	b.removeByForce(object)
	b.gone(object)
	if !b.opens(key) {
		t.Fatal("the account is closed before the operator looked")
	}
	b.run(b.config)
	kept := b.retained(id)
	if b.opens(key) {
		t.Error("the key outlives the MediaAccount")
	}
	b.clusterEvent(kept.Name, "MediaAccountMissing", b.namespace+"/demo")
}

// tenant is what an account must have again after it was restored.
type tenant struct {
	id, bucket   string
	items, bytes int64
}

// populate makes n accounts with sealed items and settings, and returns them by name.
func (b *harness) populate(n int) map[string]tenant {
	b.t.Helper()
	b.applyAccounts(n)
	tenants := b.tenants(n)
	b.sealItems(2)
	b.sql(`WITH made AS (INSERT INTO settings_tenant (account_id, fields) SELECT id, jsonb_build_object('thumbnailWidth', 123) FROM account RETURNING 1)
		SELECT count(*) FROM made`)
	for name, made := range tenants {
		made.items, made.bytes = 2, 14
		tenants[name] = made
	}
	return tenants
}

// applyAccounts creates n accounts, as a GitOps pipeline does.
func (b *harness) applyAccounts(n int) {
	b.t.Helper()
	b.each(n, func(name string) error {
		return b.Create(b.ctx, &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}})
	})
}

// each calls do with the names of n accounts.
func (b *harness) each(n int, do func(name string) error) {
	b.t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error { return do(fmt.Sprintf("account-%d", i)) })
	}
	must(b.t, group.Wait())
}

// tenants waits until n accounts are Ready, and returns them as the database has them.
func (b *harness) tenants(n int) map[string]tenant {
	b.t.Helper()
	tenants := map[string]tenant{}
	b.eventually(func() string {
		list := &v1alpha1.MediaAccountList{}
		must(b.t, b.List(b.ctx, list, client.InNamespace(b.namespace)))
		for _, object := range list.Items {
			if missing := lacks(object.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded); missing != "" {
				return object.Name + ": " + missing
			}
			tenants[object.Name] = tenant{id: object.Status.AccountID, bucket: object.Status.Bucket}
		}
		if len(tenants) != n {
			return fmt.Sprintf("there are %d accounts of %d", len(tenants), n)
		}
		return ""
	})
	for name, made := range tenants {
		usage, err := b.registry.Usage(b.ctx, uuid.MustParse(made.id))
		must(b.t, err)
		made.items, made.bytes = usage.SealedItems, usage.SealedBytes
		tenants[name] = made
	}
	return tenants
}

// restored checks that the accounts are the same ones again, with their settings.
func (b *harness) restored(want map[string]tenant) {
	b.t.Helper()
	if got := b.tenants(len(want)); !maps.Equal(got, want) {
		for name := range want {
			if got[name] != want[name] {
				b.t.Fatalf("%s is %+v, want %+v", name, got[name], want[name])
			}
		}
	}
	settings := b.sql(`SELECT count(*) FROM settings_tenant WHERE fields = '{"thumbnailWidth": 123}'`)
	open := b.sql(`SELECT count(*) FROM account WHERE closed_at IS NULL`)
	if n := int64(len(want)); settings != n || open != n {
		b.t.Errorf("%d accounts have their settings, and %d are open, want %d", settings, open, len(want))
	}
	b.retainedCount(0)
}

// retainedCount waits until n accounts of the test's namespace have a RetainedMediaAccount.
func (b *harness) retainedCount(n int) {
	b.t.Helper()
	b.eventually(func() string {
		list := &v1alpha1.RetainedMediaAccountList{}
		must(b.t, b.List(b.ctx, list, client.MatchingFields{"spec.accountNamespace": b.namespace}))
		if len(list.Items) != n {
			return fmt.Sprintf("%d accounts have a RetainedMediaAccount, want %d", len(list.Items), n)
		}
		return ""
	})
}

// removeAccountsByForce deletes all accounts of the namespace and removes their finalizers.
func (b *harness) removeAccountsByForce(n int) {
	b.t.Helper()
	b.each(n, func(name string) error {
		object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
		if err := b.Delete(b.ctx, object); err != nil {
			return client.IgnoreNotFound(err)
		}
		return client.IgnoreNotFound(b.Patch(b.ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	})
}

const manyAccounts = 300

// withoutTimers turns the periodic checks off: with hundreds of accounts they cost more than what is
// tested.
func withoutTimers(o *options) {
	o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour
}

// An admin removes the finalizers, and then the definition, which nothing blocks any more: every
// account lost its object, and the API server does not even know the kind.
func TestRetained_DeletedDefinitionLosesNothing(t *testing.T) {
	t.Parallel()
	b := newHarness(t, withoutTimers, func(o *options) { o.plane, o.idle = testenv.NewKubernetes, true })
	stop := b.run(b.config)
	want := b.populate(manyAccounts)
	stop()
	b.removeAccountsByForce(manyAccounts)
	slow := b.config
	slow.OrphanDelay = 5 * time.Second // the second look is after the definition has gone
	b.run(slow)
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName("mediaaccounts.mediastack.dev")
	b.settle() // the operator has its cache
	must(t, b.Delete(b.ctx, definition))
	b.retainedCount(manyAccounts)
	b.eventually(func() string {
		if err := b.Get(b.ctx, client.ObjectKeyFromObject(definition), definition); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the definition still exists: %v", err)
		}
		return ""
	})
	b.plane.Apply(testenv.Manifests(t, "crd/bases")...)
	b.applyAccounts(manyAccounts)
	b.restored(want)
}

func TestRetained_AccountsAreRestored(t *testing.T) {
	t.Parallel()
	b := newHarness(t, withoutTimers, func(o *options) { o.idle = true })
	b.moveToAnotherNamespace()
	b.run(b.config)
	want := b.populate(manyAccounts)
	must(t, b.DeleteAllOf(b.ctx, &v1alpha1.MediaAccount{}, client.InNamespace(b.namespace)))
	b.retainedCount(manyAccounts)
	b.applyAccounts(manyAccounts)
	b.restored(want)

	// The namespace is deleted and created again: nobody is bound without an admin.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	must(t, b.Delete(b.ctx, namespace))
	b.gone(namespace)
	b.retainedCount(manyAccounts)
	must(t, b.Create(b.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}))
	b.applyAccounts(manyAccounts)
	b.eventually(func() string {
		list := &v1alpha1.MediaAccountList{}
		must(t, b.List(b.ctx, list, client.InNamespace(b.namespace)))
		for _, object := range list.Items {
			if missing := lacks(object.Status.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRetained); missing != "" {
				return object.Name + ": " + missing
			}
			if message := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(message, want[object.Name].id) || !strings.Contains(message, "kubectl patch retainedmediaaccount") {
				t.Fatalf("the message names no object and no command: %s", message)
			}
		}
		return ""
	})
	b.retainedCount(manyAccounts) // none was bound
	b.runGuide("xargs kubectl patch")
	b.restored(want)
}

// moveToAnotherNamespace makes the test use a namespace that it can delete: the operator is not
// in it.
func (b *harness) moveToAnotherNamespace() {
	b.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(b.t, b.Create(b.ctx, namespace))
	b.namespace, b.config.Namespaces = namespace.Name, []string{namespace.Name}
}

// A namespace that was created again may belong to another tenant, whose MediaAccount of the same
// name once read the items of the former one.
func TestRetained_NamesakeNeverInherits(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.idle = true })
	b.moveToAnotherNamespace()
	stop := b.run(b.config)
	object := b.account("demo")
	b.ready(object)
	b.sealItems(2)
	id, key := b.accountID(object), b.secret("demo", "default").Data["apiKey"]
	stop() // nobody sees the MediaAccount go
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	must(t, b.Delete(b.ctx, namespace))
	b.removeByForce(object)
	b.gone(namespace)
	must(t, b.Create(b.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}))
	other := b.account("demo")
	b.run(b.config)
	b.shows(other, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRetained)
	kept := b.retained(id)
	if b.opens(key) {
		t.Error("the former tenant's key outlives the namespace")
	}

	// The tenant names the account, and forges the status: neither helps.
	thief := b.account("thief", func(a *v1alpha1.MediaAccount) { a.Spec.RestoreFrom = kept.Name })
	patch := client.MergeFrom(thief.DeepCopy())
	thief.Status.AccountID, thief.Status.Bucket = kept.Spec.AccountID, kept.Spec.Bucket
	must(t, b.Status().Patch(b.ctx, thief, patch))
	b.shows(thief, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRetained)
	for _, name := range []string{"demo", "thief"} {
		secrets := &corev1.SecretList{}
		must(t, b.List(b.ctx, secrets, client.InNamespace(b.namespace), client.MatchingLabels{v1alpha1.LabelAccount: name}))
		if len(secrets.Items) != 0 {
			t.Errorf("%s has a key", name)
		}
	}

	// An admin releases the name: the other tenant starts with an empty account.
	change(b, kept, func(r *v1alpha1.RetainedMediaAccount) { r.Spec.ReserveName = new(false) })
	b.ready(other)
	if b.accountID(other) == id || other.Status.Bucket == kept.Spec.Bucket || other.Status.Usage.SealedItems != 0 {
		t.Errorf("the other tenant has %+v", other.Status)
	}
	token, _ := account.ParseKeySecret(string(b.secret("demo", "default").Data["apiKey"]))
	if principal, err := b.database.FindPrincipal(b.ctx, token.Hash()); err != nil || principal.Account.ID == id {
		t.Errorf("the other tenant's key opens account %s, %v", principal.Account.ID, err)
	}

	// claimRef hands the former account to the MediaAccount that it names.
	change(b, kept, func(r *v1alpha1.RetainedMediaAccount) {
		r.Spec.ClaimRef = &v1alpha1.ClaimReference{Namespace: b.namespace, Name: "thief"}
	})
	b.ready(thief)
	b.gone(kept)
	if b.accountID(thief) != id || thief.Status.Usage.SealedItems != 2 {
		t.Errorf("the heir has %+v", thief.Status)
	}
}

func TestRetained_PurgeDeletesTheMedia(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.account("demo")
	b.ready(object)
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
	if _, err := b.database.AccountByID(b.ctx, id); !fault.Is(err, fault.NotFound) {
		t.Errorf("the account still exists: %v", err)
	}
}

func TestRetained_DeletionIsUndoneUntilItsTime(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.account("demo", deleting)
	b.ready(object)
	b.sealItems(1)
	id := b.accountID(object)
	must(t, b.Delete(b.ctx, object))
	b.gone(object)
	kept := b.retained(id)
	if kept.Spec.Reclaim != v1alpha1.ReclaimPurge || kept.Status.PurgeAt == nil {
		t.Fatalf("the deletion is not planned: %+v, %+v", kept.Spec, kept.Status)
	}
	change(b, kept, func(r *v1alpha1.RetainedMediaAccount) { r.Spec.Reclaim = v1alpha1.ReclaimRetain })
	b.eventually(func() string {
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
	again := b.account("demo", deleting)
	b.ready(again)
	if b.accountID(again) != id || again.Status.Usage.SealedItems != 1 {
		t.Errorf("restored %+v", again.Status)
	}
}

// An object that was left from an earlier closing, or restored from a backup, once said Purge:
// the media was retained since.
func TestRetained_AnEarlierPurgeDeletesNothing(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	object := b.account("demo")
	b.ready(object)
	id, bucket := b.accountID(object), object.Status.Bucket
	must(t, b.Delete(b.ctx, object))
	former := b.retained(id)
	stop()
	must(t, b.reopen(former))
	_, err := b.registry.Close(b.ctx, id, account.CloseOptions{})
	must(t, err)
	change(b, former, func(r *v1alpha1.RetainedMediaAccount) { r.Spec.Reclaim = v1alpha1.ReclaimPurge })
	b.run(b.config)
	b.eventually(func() string {
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
	object := b.account("demo")
	b.ready(object)
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

// Two operators that both believe to be the leader must not lose or duplicate an account.
func TestRetained_TwoOperatorsAgree(t *testing.T) {
	t.Parallel()
	const accounts = 20
	b := newHarness(t)
	b.run(b.config)
	want := b.populate(accounts)
	for range 2 {
		must(t, b.DeleteAllOf(b.ctx, &v1alpha1.MediaAccount{}, client.InNamespace(b.namespace)))
		b.retainedCount(accounts)
		b.applyAccounts(accounts)
		b.restored(want)
	}
}

// runGuide runs the command of the guide that contains text, for the test's namespace.
func (b *harness) runGuide(text string) {
	b.t.Helper()
	guide, err := os.ReadFile(filepath.Join(testenv.RepoRoot(b.t), "docs/guides/delete-retain-restore.md"))
	must(b.t, err)
	for _, block := range strings.Split(string(guide), "```") {
		command, isShell := strings.CutPrefix(block, "sh\n")
		if !isShell || !strings.Contains(command, text) {
			continue
		}
		shell := exec.CommandContext(b.ctx, testenv.Program(b.t, "bash"), "-euc", strings.ReplaceAll(command, "team-a", b.namespace))
		shell.Env = append(os.Environ(), "KUBECONFIG="+b.plane.Kubeconfig(), "PATH="+filepath.Dir(testenv.Kubectl(b.t))+":"+os.Getenv("PATH"))
		if out, err := shell.CombinedOutput(); err != nil {
			b.t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return
	}
	b.t.Fatalf("the guide has no command with %q", text)
}
