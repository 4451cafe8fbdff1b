package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

// setup is a namespace of a real API server, without an operator: the test writes the status.
type setup struct {
	client.Client
	t         *testing.T
	namespace string
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	must(t, clientgoscheme.AddToScheme(scheme))
	c, err := client.New(kubetest.Access(t), client.Options{Scheme: scheme})
	must(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "plugin-"}}
	must(t, c.Create(t.Context(), namespace))
	return &setup{Client: c, t: t, namespace: namespace.Name}
}

// call runs the plug-in as an administrator.
func (s *setup) call(args ...string) (code int, out, log string) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	args = append(args, "--kubeconfig", kubetest.Shared(s.t).Kubeconfig())
	code = run(s.t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// callIn is call for commands that are interrupted.
func (s *setup) callIn(ctx context.Context, args ...string) (code int) {
	s.t.Helper()
	return run(ctx, append(args, "--kubeconfig", kubetest.Shared(s.t).Kubeconfig()), io.Discard, io.Discard)
}

func (s *setup) account(name string, change func(*v1alpha1.MediaAccount)) *v1alpha1.MediaAccount {
	s.t.Helper()
	account := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: v1alpha1.MediaAccountSpec{Owners: []v1alpha1.EmailAddress{"ana@example.org"}}}
	must(s.t, s.Create(s.t.Context(), account))
	account.Status.ObservedGeneration = account.Generation
	if change != nil {
		change(account)
	}
	must(s.t, s.Status().Update(s.t.Context(), account))
	return account
}

func condition(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

func (s *setup) retained(name string, change func(*v1alpha1.RetainedMediaAccount)) *v1alpha1.RetainedMediaAccount {
	s.t.Helper()
	id := uuid.NewString()
	account := &v1alpha1.RetainedMediaAccount{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: v1alpha1.RetainedMediaAccountSpec{
		AccountID: id, InstallationID: uuid.NewString(), AccountNamespace: s.namespace, AccountName: name,
		Bucket: "media-" + name, ClosedAt: metav1.NewMicroTime(time.Now()), Reclaim: v1alpha1.ReclaimRetain,
	}}
	if change != nil {
		change(account)
	}
	status := account.Status
	must(s.t, s.Create(s.t.Context(), account))
	s.t.Cleanup(func() { _ = s.Delete(context.WithoutCancel(s.t.Context()), account) })
	status.ObservedGeneration, status.Items, status.Bytes = account.Generation, 3, 12345
	account.Status = status
	must(s.t, s.Status().Update(s.t.Context(), account))
	return account
}

func (s *setup) reread(object client.Object) {
	s.t.Helper()
	must(s.t, s.Get(s.t.Context(), client.ObjectKeyFromObject(object), object))
}

func TestStatus_ListsWhatNeedsAttentionFirst(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.account("a-ready", func(a *v1alpha1.MediaAccount) {
		a.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, "all is applied")}
	})
	s.account("b-new", func(a *v1alpha1.MediaAccount) { a.Status.ObservedGeneration = -1 })
	s.account("c-stalled", func(a *v1alpha1.MediaAccount) {
		a.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionStalled, v1alpha1.ReasonInvalid, "the bucket is of another account")}
	})
	code, out, log := s.call("status", "-n", s.namespace)
	if code != 0 || log != "" {
		t.Fatalf("%d %s", code, log)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	want := [][]string{
		{"NAMESPACE", "STATE", "REASON", "MESSAGE"},
		{"c-stalled", "Stalled", "Invalid", "the bucket is of another account"},
		{"b-new", "NotReady", "Progressing"},
		{"a-ready", "Ready", "Succeeded", "all is applied"},
		{"3 accounts in the namespace " + s.namespace + ", 1 Stalled, 1 NotReady, 1 Ready"},
	}
	if len(lines) != len(want) {
		t.Fatalf("%s", out)
	}
	for i, texts := range want {
		for _, text := range texts {
			if !strings.Contains(lines[i], text) {
				t.Errorf("line %d is %q, without %q", i, lines[i], text)
			}
		}
	}
	if _, out, _ := s.call("status", "-A"); !strings.Contains(out, "c-stalled") {
		t.Errorf("-A does not list the namespace:\n%s", out)
	}
	if _, out, _ := s.call("status", "-n", "default"); strings.Contains(out, "c-stalled") {
		t.Errorf("another namespace lists it:\n%s", out)
	}
}

func TestRotate_RaisesTheGenerationAboveEveryKey(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	account := s.account("photos", func(a *v1alpha1.MediaAccount) {
		a.Status.Keys = []v1alpha1.KeyStatus{{App: "default", SecretName: "photos-key", Generation: 4}} // lowered by a git revert
	})
	if code, out, log := s.call("rotate", "photos", "-n", s.namespace); code != 0 || !strings.Contains(out, "is 5") {
		t.Fatalf("%d %s%s", code, out, log)
	}
	if s.reread(account); account.Spec.APIKeys.Generation != 5 {
		t.Errorf("the generation is %d", account.Spec.APIKeys.Generation)
	}
	if code, _, log := s.call("rotate", "missing", "-n", s.namespace); code != exitFailed || !strings.Contains(log, "not found") {
		t.Errorf("of a missing account: %d %s", code, log)
	}
}

func TestRetained_ListsTheMedia(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	kept := s.retained("kept", func(a *v1alpha1.RetainedMediaAccount) {
		a.Spec.ClaimRef = &v1alpha1.ClaimReference{Namespace: "team-b"}
	})
	later := metav1.NewTime(time.Now().Add(time.Hour).UTC().Truncate(time.Second))
	s.retained("later", func(a *v1alpha1.RetainedMediaAccount) {
		a.Spec.Reclaim, a.Status.PurgeAt = v1alpha1.ReclaimPurge, &later
	})
	s.retained("now", func(a *v1alpha1.RetainedMediaAccount) { a.Spec.Reclaim = v1alpha1.ReclaimPurge })
	code, out, log := s.call("retained", "-n", s.namespace)
	if code != 0 {
		t.Fatalf("%d %s", code, log)
	}
	byName := map[string]string{}
	for line := range strings.Lines(out) {
		byName[strings.Fields(line)[2]] = line
	}
	for name, wants := range map[string][]string{
		"kept":  {kept.Name, "  3 ", "12345", "kept  ", "team-b/kept"},
		"later": {"deleted at " + later.UTC().Format(time.RFC3339)},
		"now":   {"being deleted"},
	} {
		for _, want := range wants {
			if !strings.Contains(byName[name], want) {
				t.Errorf("%s is listed as %q, without %q", name, byName[name], want)
			}
		}
	}
	if code, out, _ := s.call("retained", "-n", "default"); code != 0 || strings.TrimSpace(out) != "no retained accounts" {
		t.Errorf("of a namespace without any: %d %q", code, out)
	}
}

func TestRestore_PermitsTheMediaAccount(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	retained := s.retained("photos", nil)
	if code, out, log := s.call("restore", retained.Name); code != 0 || !strings.Contains(out, "when it is created") {
		t.Fatalf("%d %s%s", code, out, log)
	}
	s.reread(retained)
	if claim := retained.Spec.ClaimRef; claim == nil || *claim != (v1alpha1.ClaimReference{Namespace: s.namespace, Name: "photos"}) {
		t.Errorf("claimRef is %+v", claim)
	}
	if code, _, log := s.call("restore", retained.Name, "--namespace", "team-b", "--name", "pictures"); code != 0 {
		t.Fatalf("%d %s", code, log)
	}
	s.reread(retained)
	if claim := retained.Spec.ClaimRef; *claim != (v1alpha1.ClaimReference{Namespace: "team-b", Name: "pictures"}) {
		t.Errorf("claimRef is %+v", claim)
	}
}

func TestRestore_RejectsWhatCannotBeRestored(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.account("taken", func(a *v1alpha1.MediaAccount) { a.Status.AccountID = uuid.NewString() })
	purged := s.retained("purged", func(a *v1alpha1.RetainedMediaAccount) { a.Spec.Reclaim = v1alpha1.ReclaimPurge })
	tooLate := s.retained("too-late", func(a *v1alpha1.RetainedMediaAccount) {
		a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConflict, LastTransitionTime: metav1.Now()}}
	})
	kept := s.retained("taken", nil)
	for id, want := range map[string]string{
		uuid.NewString(): "there is no retained account",
		purged.Name:      "is being deleted; nothing was changed",
		tooLate.Name:     "is being deleted; nothing was changed",
		kept.Name:        "can take over no other",
	} {
		if code, _, log := s.call("restore", id); code != exitFailed || !strings.Contains(log, want) {
			t.Errorf("%d %q, want %q", code, log, want)
		}
	}
	for _, account := range []*v1alpha1.RetainedMediaAccount{purged, tooLate, kept} {
		if s.reread(account); account.Spec.ClaimRef != nil {
			t.Errorf("%s: claimRef is %+v", account.Spec.AccountName, account.Spec.ClaimRef)
		}
	}
}

// The question of a purge spoke of "1 items".
func TestPurge_CountsOneItemAsOne(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	one := s.retained("one", nil)
	one.Status.Items, one.Status.Bytes = 1, 1
	must(t, s.Status().Update(t.Context(), one))
	if _, out, _ := s.call("purge", one.Name); !strings.Contains(out, ": 1 item, 1 byte, bucket media-one.") {
		t.Error(out)
	}
}

func TestPurge_DeletesOnlyIfConfirmed(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	retained := s.retained("photos", nil)
	code, out, log := s.call("purge", retained.Name)
	if code != exitUnconfirmed || !strings.Contains(out, "3 items, 12345 bytes, bucket media-photos") || !strings.Contains(log, "--confirm") {
		t.Errorf("%d %s%s", code, out, log)
	}
	if s.reread(retained); retained.Spec.Reclaim != v1alpha1.ReclaimRetain {
		t.Fatalf("without --confirm, reclaim is %s", retained.Spec.Reclaim)
	}
	if code, _, log := s.call("purge", retained.Name, "--confirm"); code != 0 {
		t.Fatalf("%d %s", code, log)
	}
	if s.reread(retained); retained.Spec.Reclaim != v1alpha1.ReclaimPurge {
		t.Errorf("with --confirm, reclaim is %s", retained.Spec.Reclaim)
	}
	if code, out, _ := s.call("purge", retained.Name, "--confirm"); code != 0 || !strings.Contains(out, "being deleted") {
		t.Errorf("again: %d %s", code, out)
	}
}

func TestCommand_ExplainsItself(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for _, command := range []string{"status", "retained", "restore", "purge", "rotate"} {
		code, out, _ := s.call(command, "--help")
		if code != 0 || !strings.Contains(out, "kubectl mediastack "+command) {
			t.Errorf("%s --help: %d %s", command, code, out)
		}
	}
	if code, out, _ := s.call("--version"); code != 0 || strings.TrimSpace(out) != version {
		t.Errorf("--version: %d %q", code, out)
	}
	for _, args := range [][]string{{}, {"unknown"}, {"restore"}, {"rotate"}} {
		if code, _, log := s.call(args...); code != exitUsage || !strings.HasPrefix(log, "error: ") {
			t.Errorf("%q: %d %s", args, code, log)
		}
	}
	var out, log bytes.Buffer
	missing := filepath.Join(t.TempDir(), "missing")
	if code := run(t.Context(), []string{"status", "--kubeconfig", missing}, &out, &log); code != exitFailed || !strings.Contains(log.String(), missing) {
		t.Errorf("without a kubeconfig: %d %s", code, log.String())
	}
}

func TestCommand_HasTheRightsOfItsUser(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	must(t, s.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "viewer"}}))
	kubeconfig := kubetest.ServiceAccountKubeconfig(t, s.namespace, "viewer")
	if _, err := os.Stat(kubeconfig); err != nil {
		t.Fatal(err)
	}
	retained := s.retained("photos", nil)
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"purge", retained.Name, "--confirm", "--kubeconfig", kubeconfig}, &out, &log)
	if code != exitFailed || !strings.Contains(log.String(), "forbidden") {
		t.Errorf("without rights: %d %s", code, log.String())
	}
}
