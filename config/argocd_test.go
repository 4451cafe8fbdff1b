package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/objectstatus"
)

var must = check.NoError

// healthKeys are the keys by which Argo CD finds the health of a kind.
var healthKeys = []string{
	"resource.customizations.health.mediastack.dev_MediaAccount",
	"resource.customizations.health.mediastack.dev_MediaSettings",
	"resource.customizations.health.mediastack.dev_MediaWebhook",
	"resource.customizations.health.mediastack.dev_RetainedMediaAccount",
}

func healthScript(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "config/argocd/health.lua"))
	must(t, err)
	return string(script)
}

func TestArgoCD_ComponentAddsTheHealthOfEveryKind(t *testing.T) {
	t.Parallel()
	root := testenv.RepoRoot(t)
	dir, err := os.MkdirTemp(filepath.Join(root, "config"), "argocd-test-") // kustomize reads components below its root only
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, text := range map[string]string{
		"argocd-cm.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\ndata: {url: https://argocd.example.org}\n",
		"kustomization.yaml": "resources: [argocd-cm.yaml]\ncomponents: [../argocd]\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	objects := render(t, filepath.Base(dir))
	if len(objects) != 1 || objects[0].GetName() != "argocd-cm" {
		t.Fatalf("rendered %v", objects)
	}
	data, _, err := unstructured.NestedStringMap(objects[0].Object, "data")
	must(t, err)
	checkHealth(t, data)
}

// checkHealth checks the settings of an Argo CD that had a URL before.
func checkHealth(t *testing.T, data map[string]string) {
	t.Helper()
	for _, key := range healthKeys {
		if data[key] != healthScript(t) {
			t.Errorf("%s is %q", key, data[key])
		}
	}
	if data["url"] != "https://argocd.example.org" || len(data) != len(healthKeys)+1 {
		t.Errorf("the settings are %v", data)
	}
}

func TestArgoCD_DocumentedCommandKeepsOtherSettings(t *testing.T) {
	t.Parallel()
	kube := newClient(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "argocd-"}}
	must(t, kube.Create(t.Context(), namespace))
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "argocd-cm"}, Data: map[string]string{"url": "https://argocd.example.org"}}
	must(t, kube.Create(t.Context(), settings))
	root := testenv.RepoRoot(t)
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/status.md"))
	must(t, err)
	_, after, found := strings.Cut(string(page), "```sh TestArgoCD_DocumentedCommandKeepsOtherSettings\n")
	command, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("the page has no command")
	}
	kubectl := testenv.Kubectl(t) + " --kubeconfig " + kubetest.Shared(t).Kubeconfig()
	command = strings.NewReplacer("-n argocd", "-n "+namespace.Name, "kubectl ", kubectl+" ").Replace(command)
	testenv.Run(t, time.Minute, root, "/bin/sh", "-ec", command)
	must(t, kube.Get(t.Context(), client.ObjectKeyFromObject(settings), settings))
	checkHealth(t, settings.Data)
}

// The table of docs/reference/status.md runs the script on what a real operator writes. These
// objects no operator of this version writes.
func TestArgoCD_HealthOfUnusualObjects(t *testing.T) {
	t.Parallel()
	condition := func(kind, status string) any {
		return map[string]any{"type": kind, "status": status, "reason": "Test", "message": "text", "observedGeneration": int64(1)}
	}
	for name, c := range map[string]struct {
		metadata, status map[string]any
		want             string
	}{
		"no status":             {map[string]any{"generation": int64(1)}, nil, "Progressing"},
		"no conditions":         {map[string]any{"generation": int64(1)}, map[string]any{"observedGeneration": int64(1)}, "Progressing"},
		"deleted, no status":    {map[string]any{"generation": int64(1), "deletionTimestamp": "2026-01-01T00:00:00Z"}, nil, "Progressing"},
		"Ready is Unknown":      {map[string]any{"generation": int64(1)}, map[string]any{"observedGeneration": int64(1), "conditions": []any{condition("Ready", "Unknown")}}, "Progressing"},
		"Ready only":            {map[string]any{"generation": int64(1)}, map[string]any{"observedGeneration": int64(1), "conditions": []any{condition("Ready", "True")}}, "Healthy"},
		"of a later generation": {map[string]any{"generation": int64(1)}, map[string]any{"observedGeneration": int64(2), "conditions": []any{condition("Ready", "True")}}, "Progressing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := map[string]any{"metadata": c.metadata}
			if c.status != nil {
				object["status"] = c.status
			}
			health, err := objectstatus.ArgoCD(healthScript(t), &unstructured.Unstructured{Object: object})
			if err != nil || health.Status != c.want || health.Message == "" {
				t.Errorf("got %+v, %v; want %s", health, err, c.want)
			}
		})
	}
}
