package objectmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/objectmetrics"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

// objects is a reader of these objects. The test of the operator's program reads a real cache.
type objects struct {
	client.Reader
	accounts []v1alpha1.MediaAccount
	settings []v1alpha1.MediaSettings
	webhooks []v1alpha1.MediaWebhook
	retained []v1alpha1.RetainedMediaAccount
	err      error
}

func (o *objects) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.MediaAccountList:
		list.Items = o.accounts
	case *v1alpha1.MediaSettingsList:
		list.Items = o.settings
	case *v1alpha1.MediaWebhookList:
		list.Items = o.webhooks
	case *v1alpha1.RetainedMediaAccountList:
		list.Items = o.retained
		return o.err
	}
	return nil
}

func elected() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

func collector(o *objects, elected <-chan struct{}) *objectmetrics.Collector {
	return objectmetrics.New(o, elected, func() time.Time { return now }, slog.New(slog.DiscardHandler))
}

// expect compares the exported metrics of some names with a text, in any order of its lines.
func expect(t *testing.T, collector prometheus.Collector, want string, names ...string) {
	t.Helper()
	got, err := testutil.CollectAndFormat(collector, expfmt.TypeTextPlain, names...)
	must(t, err)
	lines := map[string]bool{}
	for line := range strings.Lines(string(got)) {
		if !strings.HasPrefix(line, "#") {
			lines[strings.TrimSpace(line)] = true
		}
	}
	for line := range strings.Lines(strings.TrimSpace(want)) {
		line = strings.TrimSpace(line)
		if !lines[line] {
			t.Errorf("the metrics lack %s", line)
		}
		delete(lines, line)
	}
	for line := range lines {
		t.Errorf("there is a metric %s", line)
	}
}

func condition(kind, status, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason}
}

func TestCollector_CountsConditions(t *testing.T) {
	t.Parallel()
	o := &objects{accounts: make([]v1alpha1.MediaAccount, 4), settings: make([]v1alpha1.MediaSettings, 1), webhooks: make([]v1alpha1.MediaWebhook, 1)}
	o.accounts[0].Status.Conditions = []metav1.Condition{condition("Ready", "True", "Succeeded"), condition("StorageAvailable", "False", "StorageFull")}
	o.accounts[1].Status.Conditions = []metav1.Condition{condition("Ready", "True", "Succeeded")}
	o.accounts[2].Status.Conditions = []metav1.Condition{condition("Invented", "Maybe", "BecauseISaySo"), condition("Ready", "False", "AlsoInvented")}
	o.settings[0].Status.Conditions = []metav1.Condition{condition("Stalled", "True", "Conflict")}
	o.webhooks[0].Status.Conditions = []metav1.Condition{condition("Delivering", "False", "Failing")}
	expect(t, collector(o, elected()), `
		mediastack_operator_objects{kind="MediaAccount"} 4
		mediastack_operator_objects{kind="MediaSettings"} 1
		mediastack_operator_objects{kind="MediaWebhook"} 1
		mediastack_operator_objects{kind="RetainedMediaAccount"} 0
		mediastack_operator_object_conditions{condition="Ready",kind="MediaAccount",reason="Succeeded",status="True"} 2
		mediastack_operator_object_conditions{condition="StorageAvailable",kind="MediaAccount",reason="StorageFull",status="False"} 1
		mediastack_operator_object_conditions{condition="Other",kind="MediaAccount",reason="Other",status="Other"} 1
		mediastack_operator_object_conditions{condition="Ready",kind="MediaAccount",reason="Other",status="False"} 1
		mediastack_operator_object_conditions{condition="Stalled",kind="MediaSettings",reason="Conflict",status="True"} 1
		mediastack_operator_object_conditions{condition="Delivering",kind="MediaWebhook",reason="Failing",status="False"} 1
	`, "mediastack_operator_objects", "mediastack_operator_object_conditions")
}

// A planned deletion is pending from its time on, not before.
func TestCollector_ShowsTheOldestPendingDeletion(t *testing.T) {
	t.Parallel()
	o := &objects{accounts: make([]v1alpha1.MediaAccount, 3), retained: make([]v1alpha1.RetainedMediaAccount, 3)}
	o.accounts[0].DeletionTimestamp, o.accounts[1].DeletionTimestamp = ago(time.Minute), ago(time.Hour)
	o.retained[0].Spec.Reclaim, o.retained[0].Status.PurgeAt = v1alpha1.ReclaimPurge, ago(2*time.Hour)
	o.retained[1].Spec.Reclaim, o.retained[1].Status.PurgeAt = v1alpha1.ReclaimPurge, ago(-2*time.Hour)
	o.retained[2].Spec.Reclaim, o.retained[2].Status.PurgeAt = v1alpha1.ReclaimRetain, ago(3*time.Hour)
	expect(t, collector(o, elected()), `
		mediastack_operator_deletions_pending{kind="MediaAccount"} 2
		mediastack_operator_deletions_pending{kind="MediaSettings"} 0
		mediastack_operator_deletions_pending{kind="MediaWebhook"} 0
		mediastack_operator_deletions_pending{kind="RetainedMediaAccount"} 1
		mediastack_operator_oldest_deletion_age_seconds{kind="MediaAccount"} 3600
		mediastack_operator_oldest_deletion_age_seconds{kind="MediaSettings"} 0
		mediastack_operator_oldest_deletion_age_seconds{kind="MediaWebhook"} 0
		mediastack_operator_oldest_deletion_age_seconds{kind="RetainedMediaAccount"} 7200
	`, "mediastack_operator_deletions_pending", "mediastack_operator_oldest_deletion_age_seconds")
}

func TestCollector_ShowsTheAgeOfKeys(t *testing.T) {
	t.Parallel()
	o := &objects{accounts: make([]v1alpha1.MediaAccount, 2)}
	o.accounts[0].Status.Keys = []v1alpha1.KeyStatus{
		{App: "default", CreatedAt: ago(48 * time.Hour), PreviousExpiresAt: ago(-time.Hour)},
		{App: "web", CreatedAt: ago(time.Hour), PreviousExpiresAt: ago(time.Minute)},
		{App: "new"},
	}
	o.accounts[1].Spec.APIKeys.RotateEvery = &metav1.Duration{Duration: 24 * time.Hour}
	o.accounts[1].Status.Keys = []v1alpha1.KeyStatus{{App: "default", CreatedAt: ago(25 * time.Hour)}}
	names := []string{"mediastack_operator_api_keys", "mediastack_operator_oldest_api_key_age_seconds", "mediastack_operator_api_key_rotation_overdue_seconds"}
	expect(t, collector(o, elected()), `
		mediastack_operator_api_keys{state="current"} 3
		mediastack_operator_api_keys{state="overlap"} 1
		mediastack_operator_oldest_api_key_age_seconds 172800
		mediastack_operator_api_key_rotation_overdue_seconds 3600
	`, names...)
	o.accounts[1].DeletionTimestamp = ago(0)
	expect(t, collector(o, elected()), "mediastack_operator_api_key_rotation_overdue_seconds 0", names[2])
}

func TestCollector_SumsRetainedAccounts(t *testing.T) {
	t.Parallel()
	o := &objects{retained: make([]v1alpha1.RetainedMediaAccount, 3)}
	for i, reclaim := range []v1alpha1.ReclaimPolicy{v1alpha1.ReclaimRetain, v1alpha1.ReclaimRetain, v1alpha1.ReclaimPurge} {
		o.retained[i].Spec.Reclaim = reclaim
		o.retained[i].Status.Items, o.retained[i].Status.Bytes = 2, 1000
	}
	expect(t, collector(o, elected()), `
		mediastack_operator_retained_accounts{reclaim="Purge"} 1
		mediastack_operator_retained_accounts{reclaim="Retain"} 2
		mediastack_operator_retained_items{reclaim="Purge"} 2
		mediastack_operator_retained_items{reclaim="Retain"} 4
		mediastack_operator_retained_bytes{reclaim="Purge"} 1000
		mediastack_operator_retained_bytes{reclaim="Retain"} 2000
	`, "mediastack_operator_retained_accounts", "mediastack_operator_retained_items", "mediastack_operator_retained_bytes")
}

func TestCollector_OnlyTheLeaderExports(t *testing.T) {
	t.Parallel()
	o := &objects{accounts: make([]v1alpha1.MediaAccount, 1)}
	if n := testutil.CollectAndCount(collector(o, make(chan struct{}))); n != 0 {
		t.Errorf("a replica that does not lead exports %d series", n)
	}
	if testutil.CollectAndCount(collector(o, elected())) == 0 {
		t.Error("the leader exports nothing")
	}
}

func TestCollector_AFailedListExportsNothing(t *testing.T) {
	t.Parallel()
	o := &objects{accounts: make([]v1alpha1.MediaAccount, 1), err: errors.New("the cache is not started")}
	if n := testutil.CollectAndCount(collector(o, elected())); n != 0 {
		t.Errorf("%d series are exported", n)
	}
}

// Every type and reason of package v1alpha1 is exported under its name.
func TestCollector_KnowsEveryTypeAndReason(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(testenv.RepoRoot(t), "api", "v1alpha1", "conditions.go"), nil, 0)
	must(t, err)
	o, checked := &objects{accounts: make([]v1alpha1.MediaAccount, 1)}, 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		must(t, err)
		one, want := condition("Ready", "True", value), fmt.Sprintf(`condition="Ready",kind="MediaAccount",reason=%q`, value)
		if strings.HasPrefix(spec.Names[0].Name, "Condition") {
			one, want = condition(value, "True", "Succeeded"), fmt.Sprintf("condition=%q", value)
		}
		o.accounts[0].Status.Conditions = []metav1.Condition{one}
		got, err := testutil.CollectAndFormat(collector(o, elected()), expfmt.TypeTextPlain, "mediastack_operator_object_conditions")
		must(t, err)
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is exported as %s", spec.Names[0].Name, got)
		}
		checked++
		return false
	})
	if checked < 30 {
		t.Errorf("there are %d types and reasons only", checked)
	}
}

// The reason Bound was documented, exported and excused in a test, and no program set it: its object is deleted instead.
func TestReasons_AreSetByAProgram(t *testing.T) {
	t.Parallel()
	root := testenv.RepoRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "api/v1alpha1/conditions.go"))
	must(t, err)
	unused := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^\t(Reason\w+)\s+= "`).FindAllSubmatch(text, -1) {
		unused[string(match[1])] = true
	}
	if len(unused) < 22 {
		t.Fatalf("only %d reasons were found", len(unused))
	}
	use := regexp.MustCompile(`\bv1alpha1\.(Reason\w+)`)
	must(t, filepath.WalkDir(filepath.Join(root, "controllers"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/objectmetrics/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range use.FindAllSubmatch(text, -1) {
			delete(unused, string(match[1]))
		}
		return err
	}))
	for reason := range unused {
		t.Errorf("nothing sets %s", reason)
	}
}
