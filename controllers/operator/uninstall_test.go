package operator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/installation"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
)

// uninstall is the command with the permissions of the operator's service account.
func (b *harness) uninstall(out *bytes.Buffer) *installation.Uninstall {
	b.t.Helper()
	return b.uninstallAs(operatorAccess(b.t, b.plane), out)
}

func (b *harness) uninstallAs(access *rest.Config, out *bytes.Buffer) *installation.Uninstall {
	b.t.Helper()
	store := b.openStore()
	command, err := installation.NewUninstall(access, b.namespace, store.Installations, store.Webhooks, account.NewRegistry(store.Accounts, "", nil), out)
	must(b.t, err)
	return command
}

// uninstalls runs the command with --confirm, and returns its summary.
func (b *harness) uninstalls(access *rest.Config) map[string]any {
	b.t.Helper()
	var out bytes.Buffer
	needed, err := b.uninstallAs(access, &out).Run(b.ctx, true)
	must(b.t, err)
	summary := lastLine(b.t, out.String())
	if needed || summary["done"] != true {
		b.t.Errorf("the summary is %v", summary)
	}
	return summary
}

func lastLine(t *testing.T, text string) map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var decoded map[string]any
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &decoded))
	return decoded
}

// withItems creates accounts of each deletion policy, settings and a webhook, with sealed items in every
// account, and returns the ids of the accounts by name.
func (b *harness) withItems() map[string]string {
	b.t.Helper()
	ids := map[string]string{}
	now := metav1.Duration{}
	objects := []*v1alpha1.MediaAccount{
		b.account("retained"),
		b.account("deleted", deleting),
		b.account("at-once", deleting, func(a *v1alpha1.MediaAccount) { a.Spec.DeleteAfter = &now }),
	}
	for _, object := range objects {
		b.ready(object)
		ids[object.Name] = object.Status.AccountID
	}
	b.ready(b.settings("site", "retained"))
	b.publishWebhookKey()
	b.ready(b.webhook("hook", "retained"))
	b.sealItems(3)
	return ids
}

// keepsAll fails unless every account is closed, with its items and its bucket, and none of them
// is planned to be deleted.
func (b *harness) keepsAll(ids map[string]string) {
	b.t.Helper()
	for name, id := range ids {
		var closed, kept bool
		var items int
		var bucket string
		must(b.t, testenv.Connections(b.t, b.databaseURL).QueryRow(b.ctx, `SELECT closed_at IS NOT NULL, erase_after IS NULL AND erasing_at IS NULL, bucket, (SELECT count(*) FROM item WHERE account_id = account.id)
			FROM account WHERE id = $1`, id).Scan(&closed, &kept, &bucket, &items))
		if exists, err := b.store.BucketExists(b.ctx, bucket); !closed || !kept || items != 3 || err != nil || !exists {
			b.t.Errorf("account %s: closed: %t, kept: %t, %d items, bucket: %t, %v", name, closed, kept, items, exists, err)
		}
	}
}

func (b *harness) hasNoObjects() {
	b.t.Helper()
	for _, list := range []client.ObjectList{&v1alpha1.MediaAccountList{}, &v1alpha1.MediaSettingsList{}, &v1alpha1.MediaWebhookList{}} {
		wait.UntilNone(b.t, func() string {
			must(b.t, b.List(b.ctx, list, client.InNamespace(b.namespace)))
			if found := fmt.Sprintf("%T", list); listLength(list) > 0 {
				return found + " is not empty"
			}
			return ""
		})
	}
}

func listLength(list client.ObjectList) int {
	switch list := list.(type) {
	case *v1alpha1.MediaAccountList:
		return len(list.Items)
	case *v1alpha1.MediaSettingsList:
		return len(list.Items)
	case *v1alpha1.MediaWebhookList:
		return len(list.Items)
	}
	return 0
}

// The command deletes all objects of a cluster, so that these tests have one of their own, and run
// one after the other.
func TestUninstall_LosesNothingAndLeavesNothing(t *testing.T) {
	t.Parallel()
	plane := kubetest.New(t)
	ownCluster := func(o *options) { o.plane = func(testing.TB) *kubetest.ControlPlane { return plane } }
	for name, test := range map[string]func(*testing.T, func(*options)){
		"without confirmation it only reports":                 uninstallWithoutConfirmationOnlyReports,
		"it retains all media while the operator runs":         uninstallRetainsAllWhileTheOperatorRuns,
		"the operator was deleted first, then a namespace":     uninstallReleasesWhatWaitsForADeletedOperator,
		"the definitions are deleted while the operator runs":  uninstallDefinitionsDeletedWhileTheOperatorRunsLoseNothing,
		"the operator was deleted first, then the definitions": uninstallReleasesDefinitionsThatWaitForADeletedOperator,
		"without the database it releases the objects":         uninstallWithoutTheDatabaseReleasesTheObjects,
		"it retains the media of many accounts":                uninstallRetainsTheMediaOfManyAccounts,
		"another cluster's database is not changed":            uninstallOfAnotherClustersDatabaseFails,
	} {
		t.Run(name, func(t *testing.T) { test(t, ownCluster) })
		removeAll(t, admin(t, plane))
	}
}

// removeAll removes what a test left in its cluster.
func removeAll(t *testing.T, c client.Client) {
	t.Helper()
	found := &v1alpha1.MediaAccountList{}
	must(t, c.List(t.Context(), found))
	settings := &v1alpha1.MediaSettingsList{}
	must(t, c.List(t.Context(), settings))
	webhooks := &v1alpha1.MediaWebhookList{}
	must(t, c.List(t.Context(), webhooks))
	var objects []client.Object
	for i := range webhooks.Items {
		objects = append(objects, &webhooks.Items[i])
	}
	for i := range found.Items {
		objects = append(objects, &found.Items[i])
	}
	for i := range settings.Items {
		objects = append(objects, &settings.Items[i])
	}
	for _, object := range objects {
		must(t, client.IgnoreNotFound(c.Delete(t.Context(), object)))
		must(t, client.IgnoreNotFound(c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
	}
}

func uninstallWithoutConfirmationOnlyReports(t *testing.T, ownCluster func(*options)) {
	b := newHarness(t, ownCluster)
	var out bytes.Buffer
	if needed, err := b.uninstall(&out).Check(b.ctx); err != nil || needed {
		t.Errorf("check without accounts: %t, %v", needed, err)
	}
	b.withItems()
	b.settle()
	before := rows(t, b.databaseURL)
	out.Reset()
	if needed, err := b.uninstall(&out).Check(b.ctx); err != nil || !needed || lastLine(t, out.String())["mediaAccounts"] != 3.0 {
		t.Errorf("check with accounts: %t, %v, %s", needed, err, out.String())
	}
	out.Reset()
	if needed, err := b.uninstall(&out).Run(b.ctx, false); err != nil || !needed {
		t.Errorf("a run without confirmation: %t, %v", needed, err)
	}
	for _, text := range []string{`"object":"` + b.namespace + `/deleted","items":3`, "deletes its media after spec.deleteAfter", "MediaSettings", `"kind":"MediaWebhook","object":"` + b.namespace + `/hook"`, "nothing was changed"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the report lacks %q:\n%s", text, out.String())
		}
	}
	after := rows(t, b.databaseURL)
	delete(before, "installation")
	delete(after, "installation")
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Error("the report wrote rows")
	}

	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "deleted"}}
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.DeletionProtection = true })
	if _, err := b.uninstall(&out).Run(b.ctx, true); err == nil || !strings.Contains(err.Error(), "/deleted has spec.deletionProtection") {
		t.Errorf("a protected account: %v", err)
	}
	if must(t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object)); !object.DeletionTimestamp.IsZero() {
		t.Error("a protected account is being deleted")
	}
}

// While the operator runs, and with the policy Delete, the media is retained. The same objects
// bind to it again.
func uninstallRetainsAllWhileTheOperatorRuns(t *testing.T, ownCluster func(*options)) {
	b := newHarness(t, ownCluster)
	ids := b.withItems()
	b.uninstalls(operatorAccess(t, b.plane))
	b.hasNoObjects()
	b.keepsAll(ids)
	b.areBack(ids)
}

// The operator is deleted first, then the namespace: its objects wait for a finalizer that nobody
// removes.
func uninstallReleasesWhatWaitsForADeletedOperator(t *testing.T, ownCluster func(*options)) {
	b := newHarness(t, ownCluster, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	ids := b.withItems()
	stop()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	must(t, b.Delete(b.ctx, namespace))
	wait.UntilNone(b.t, func() string {
		object := &v1alpha1.MediaAccount{}
		must(t, b.Get(b.ctx, client.ObjectKey{Namespace: b.namespace, Name: "deleted"}, object))
		if object.DeletionTimestamp.IsZero() {
			return "the namespace controller has not deleted the account yet"
		}
		return ""
	})
	summary := b.uninstalls(b.plane.Access()) // the role of the operator went with its namespace
	if summary["mediaAccounts"] != 3.0 || summary["mediaSettings"] != 1.0 || summary["mediaWebhooks"] != 1.0 {
		t.Errorf("the summary is %v", summary)
	}
	b.gone(namespace)
	b.keepsAll(ids)
	if pins := b.sql(`SELECT count(*) FROM settings_pin`); pins != 0 {
		t.Errorf("%d pins are left of MediaSettings that no operator released", pins)
	}
	if webhooks := b.sql(`SELECT count(*) FROM webhook`); webhooks != 0 {
		t.Errorf("%d webhooks are left of MediaWebhooks that no operator released", webhooks)
	}
}

// The definitions are deleted while the operator runs: it releases every object. Applied again,
// all accounts are back.
func uninstallDefinitionsDeletedWhileTheOperatorRunsLoseNothing(t *testing.T, ownCluster func(*options)) {
	b := newHarness(t, ownCluster)
	ids := map[string]string{}
	for i := range 3 {
		object := b.readyAccount(fmt.Sprintf("account-%d", i))
		ids[object.Name] = object.Status.AccountID
	}
	b.sealItems(3)
	b.deletesDefinitions()
	b.keepsAll(ids)
	b.plane.Apply(kubetest.Manifests(t, "crd/bases")...)
	b.areBack(ids)
}

// The operator is deleted first, then the definitions.
func uninstallReleasesDefinitionsThatWaitForADeletedOperator(t *testing.T, ownCluster func(*options)) {
	b := newHarness(t, ownCluster, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	ids := b.withItems()
	stop()
	for _, kind := range definedKinds {
		must(t, b.Delete(b.ctx, definition(kind)))
	}
	wait.UntilNone(b.t, func() string {
		list := &v1alpha1.MediaAccountList{}
		must(t, b.List(b.ctx, list))
		for _, object := range list.Items {
			if object.DeletionTimestamp.IsZero() {
				return "the API server has not deleted the accounts yet"
			}
		}
		return ""
	})
	b.uninstalls(operatorAccess(t, b.plane))
	b.deletesDefinitions()
	b.keepsAll(ids)
	// Without the kinds there is nothing left to do.
	var out bytes.Buffer
	if needed, err := b.uninstall(&out).Check(b.ctx); err != nil || needed {
		t.Errorf("check without the definitions: %t, %v", needed, err)
	}
	b.plane.Apply(kubetest.Manifests(t, "crd/bases")...)
	b.run(b.config)
	b.areBack(ids)
}

var definedKinds = []string{"mediaaccounts", "mediasettings", "mediawebhooks"}

// deletesDefinitions deletes the custom resource definitions, and waits until they are gone.
func (b *harness) deletesDefinitions() {
	b.t.Helper()
	for _, kind := range definedKinds {
		must(b.t, client.IgnoreNotFound(b.Delete(b.ctx, definition(kind))))
	}
	for _, kind := range definedKinds {
		b.gone(definition(kind))
	}
}

// areBack applies the accounts again, and fails unless each has the account that it had.
func (b *harness) areBack(ids map[string]string) {
	b.t.Helper()
	for name, id := range ids {
		object := b.readyAccount(name)
		if object.Status.AccountID != id {
			b.t.Errorf("%s has account %s, want %s", name, object.Status.AccountID, id)
		}
	}
}

func definition(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	object.SetName(kind + ".mediastack.dev")
	return object
}

// The database is lost for good: the objects go, and nothing else changes.
func uninstallWithoutTheDatabaseReleasesTheObjects(t *testing.T, ownCluster func(*options)) {
	b := newHarness(t, ownCluster, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	b.withItems()
	stop()
	before := rows(t, b.databaseURL)
	var out bytes.Buffer
	command, err := installation.NewUninstall(operatorAccess(t, b.plane), b.namespace, nil, nil, nil, &out)
	must(t, err)
	if _, err := command.Run(b.ctx, true); err != nil {
		t.Fatal(err)
	}
	b.hasNoObjects()
	if fmt.Sprint(before) != fmt.Sprint(rows(t, b.databaseURL)) {
		t.Error("rows were written")
	}
	if !strings.Contains(out.String(), "until an operator runs again") {
		t.Errorf("the report is %s", out.String())
	}
}

// Another cluster's database is not changed.
func uninstallOfAnotherClustersDatabaseFails(t *testing.T, ownCluster func(*options)) {
	b := newHarness(t, ownCluster, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	b.withItems()
	stop()
	b.exec("UPDATE installation SET cluster_uid = 'another cluster'")
	before := rows(t, b.databaseURL)
	var out bytes.Buffer
	if _, err := b.uninstall(&out).Run(b.ctx, true); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("got %v", err)
	}
	object := &v1alpha1.MediaAccount{}
	must(t, b.Get(b.ctx, client.ObjectKey{Namespace: b.namespace, Name: "deleted"}, object))
	if !object.DeletionTimestamp.IsZero() || object.Spec.DeletionPolicy != v1alpha1.DeletionDelete || fmt.Sprint(before) != fmt.Sprint(rows(t, b.databaseURL)) {
		t.Error("something was changed")
	}
}

// An operator that is gone has left many accounts: 10,000 with MEDIASTACK_TEST_FULL.
func uninstallRetainsTheMediaOfManyAccounts(t *testing.T, ownCluster func(*options)) {
	b := newHarness(t, ownCluster, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	b.readyAccount("first")
	stop()
	const name = "account-%d"
	n := size(100, 10_000)
	b.exec(`WITH made AS (
			INSERT INTO account (id, namespace, name, namespace_uid, object_uid, display_name, owners, max_storage, max_upload_size, bucket, suspended)
			SELECT gen_random_uuid(), $1, 'account-' || n, '', 'uid-' || n, '', '{}', 1000, 1000, 'b' || n, false FROM generate_series(1, $2::int) n RETURNING id
		), used AS (INSERT INTO account_usage (account_id) SELECT id FROM made)
		INSERT INTO app (id, account_id, name) SELECT id, id, 'default' FROM made`, b.namespace, n)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: fmt.Sprintf(name, i+1), Finalizers: []string{v1alpha1.Finalizer}}}
		group.Go(func() error { return b.Create(b.ctx, object) })
	}
	must(t, group.Wait())
	started := time.Now()
	if summary := b.uninstalls(operatorAccess(t, b.plane)); summary["mediaAccounts"] != float64(n+1) {
		t.Errorf("the summary is %v", summary)
	}
	t.Logf("%d accounts, %.0f a second", n+1, float64(n+1)/time.Since(started).Seconds())
	b.hasNoObjects()
	if closed := b.sql(`SELECT count(*) FROM account WHERE closed_at IS NOT NULL AND erase_after IS NULL AND erasing_at IS NULL`); closed != int64(n+1) {
		t.Errorf("%d of %d accounts are closed and retained", closed, n+1)
	}
}
