package operator_test

import (
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

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
	wait.UntilNone(b.t, func() string {
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
	wait.UntilNone(b.t, func() string {
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

// An admin removes the finalizers, and then the definition, which nothing blocks any more: every
// account lost its object, and the API server does not even know the kind.
func TestRetained_DeletedDefinitionLosesNothing(t *testing.T) {
	t.Parallel()
	accounts := size(20, 300)
	b := newHarness(t, quiet, idle, func(o *options) { o.plane = kubetest.New })
	stop := b.run(b.config)
	want := b.populate(accounts)
	stop()
	b.removeAccountsByForce(accounts)
	slow := b.config
	slow.OrphanDelay = 5 * time.Second // the second look is after the definition has gone
	b.run(slow)
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName("mediaaccounts.mediastack.dev")
	b.settle() // the operator has its cache
	must(t, b.Delete(b.ctx, definition))
	b.retainedCount(accounts)
	wait.UntilNone(b.t, func() string {
		if err := b.Get(b.ctx, client.ObjectKeyFromObject(definition), definition); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the definition still exists: %v", err)
		}
		return ""
	})
	b.plane.Apply(kubetest.Manifests(t, "crd/bases")...)
	b.applyAccounts(accounts)
	b.restored(want)
}

func TestRetained_AccountsAreRestored(t *testing.T) {
	t.Parallel()
	accounts := size(20, 300)
	b := newHarness(t, quiet, idle)
	b.moveToAnotherNamespace()
	b.run(b.config)
	want := b.populate(accounts)
	must(t, b.DeleteAllOf(b.ctx, &v1alpha1.MediaAccount{}, client.InNamespace(b.namespace)))
	b.retainedCount(accounts)
	b.applyAccounts(accounts)
	b.restored(want)

	// The namespace is deleted and created again: nobody is bound without an admin.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	must(t, b.Delete(b.ctx, namespace))
	b.gone(namespace)
	b.retainedCount(accounts)
	must(t, b.Create(b.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}))
	b.applyAccounts(accounts)
	wait.UntilNone(b.t, func() string {
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
	b.retainedCount(accounts) // none was bound
	b.runGuide("for account in $(kubectl get retainedmediaaccounts")
	b.restored(want)
}

// runGuide runs the command of the guide that names this test and contains text, for the test's namespace.
func (b *harness) runGuide(text string) {
	b.t.Helper()
	guide, err := os.ReadFile(filepath.Join(testenv.RepoRoot(b.t), "docs/guides/delete-retain-restore.md"))
	must(b.t, err)
	for _, block := range strings.Split(string(guide), "```") {
		command, isShell := strings.CutPrefix(block, "sh "+b.t.Name()+"\n")
		if !isShell || !strings.Contains(command, text) {
			continue
		}
		b.shell(strings.ReplaceAll(command, "team-a", b.namespace))
		return
	}
	b.t.Fatalf("the guide has no command with %q", text)
}

// shell runs a command as a cluster admin does.
func (b *harness) shell(command string) {
	b.t.Helper()
	shell := exec.CommandContext(b.ctx, testenv.Program(b.t, "bash"), "-euc", command)
	shell.Env = append(os.Environ(), "KUBECONFIG="+b.plane.Kubeconfig(), "PATH="+filepath.Dir(testenv.Kubectl(b.t))+":"+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil {
		b.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}
