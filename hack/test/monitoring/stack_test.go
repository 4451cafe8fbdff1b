// Package monitoring_test runs every query of the dashboard, and the alerts, in a real Prometheus that
// scrapes a dev stack under load. `make screenshots` draws the dashboard with it.
package monitoring_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// stackTimeout is for one command of the dev stack.
const stackTimeout = 3 * time.Minute

// stack is a dev stack, as stack.json describes it.
type stack struct {
	t               *testing.T
	dir             string
	operatorMetrics string // address
	BaseURL         string `json:"baseURL"`
	AdminURL        string `json:"adminURL"`
	APIKey          string `json:"apiKey"`
	Kubeconfig      string `json:"kubeconfig"`
	Runtime         string `json:"runtime"`
	Env             string `json:"env"`
}

// newStack starts a dev stack, which is stopped when the test ends.
func newStack(t *testing.T) *stack {
	t.Helper()
	program, dir, metrics := testenv.Binary(t, "mediastack-dev"), filepath.Join(testenv.TempDir(t), "data"), testenv.FreePort(t)
	t.Cleanup(func() {
		// Not t.Context(): that has ended by now.
		if out, err := exec.Command(program, "stop", "--data-dir", dir).CombinedOutput(); err != nil {
			t.Errorf("stop the stack: %v\n%s", err, out)
		}
	})
	edge := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // a CDN that takes all purges
	t.Cleanup(edge.Close)
	testenv.Run(t, stackTimeout, testenv.RepoRoot(t), "env", "SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0", "SERVICE_RATE_LIMIT_PICTURES=0", "SERVICE_CDN_PURGE=surrogate", "SERVICE_CDN_PURGE_URL="+edge.URL,
		program, "run", "--detach", "--data-dir", dir, "--operator-metrics-port", strconv.Itoa(metrics))
	text, err := os.ReadFile(filepath.Join(dir, "stack.json"))
	must(t, err)
	s := &stack{t: t, dir: dir, operatorMetrics: "127.0.0.1:" + strconv.Itoa(metrics)}
	must(t, json.Unmarshal(text, s))
	return s
}

func (s *stack) kubectl(args ...string) string {
	s.t.Helper()
	return testenv.Run(s.t, stackTimeout, s.dir, testenv.Kubectl(s.t), append([]string{"--kubeconfig", s.Kubeconfig, "--cache-dir", filepath.Join(s.dir, "kubectl-cache")}, args...)...)
}

// tenant makes an account and returns its key.
func (s *stack) tenant(namespace, name string) string {
	s.t.Helper()
	manifest := filepath.Join(s.dir, name+".yaml")
	must(s.t, os.WriteFile(manifest, fmt.Appendf(nil, `apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: mediastack.dev/v1alpha1
kind: MediaAccount
metadata: {name: %[2]s, namespace: %[1]s}
spec: {storage: {maxStorage: 1Gi}}
`, namespace, name), 0o600))
	s.kubectl("apply", "-f", manifest)
	s.kubectl("-n", namespace, "wait", "--for=condition=Ready", "--timeout=2m", "mediaaccount/"+name)
	key, err := base64.StdEncoding.DecodeString(s.kubectl("-n", namespace, "get", "secret", name+".default.media", "-o", "jsonpath={.data.apiKey}"))
	must(s.t, err)
	return string(key)
}

// purge runs one pass of the purge, as the CronJob does.
func (s *stack) purge() {
	s.t.Helper()
	testenv.Run(s.t, stackTimeout, s.dir, "bash", "-euc", `. "$1"; exec "$2" purge`, "purge", s.Env, s.Runtime)
}

// targets are the processes, with the labels that a ServiceMonitor gives their metrics.
func (s *stack) targets() []target {
	admin, err := url.Parse(s.AdminURL)
	must(s.t, err)
	return []target{
		{address: admin.Host, job: "mediastack-runtime-metrics", pod: runtimePod},
		{address: s.operatorMetrics, job: "mediastack-operator-metrics", pod: "mediastack-operator-5c6b9d4f8-q8wzn"},
	}
}

// names of the release in the labels.
const (
	releaseNamespace = "mediastack-system"
	runtimePod       = "mediastack-runtime-7d9c5b8f64-x2x7k"
)

// kubeState serves what kube-state-metrics exports of the pod of the runtime and of two nodes: a dev stack has neither.
func kubeState(t *testing.T) target {
	t.Helper()
	const metrics = `kube_pod_info{namespace="` + releaseNamespace + `",pod="` + runtimePod + `",node="node-a",created_by_kind="ReplicaSet",created_by_name="mediastack-runtime-7d9c5b8f64"} 1
kube_pod_status_ready{namespace="` + releaseNamespace + `",pod="` + runtimePod + `",condition="true"} 1
kube_pod_status_ready{namespace="` + releaseNamespace + `",pod="` + runtimePod + `",condition="false"} 0
kube_node_info{node="node-a"} 1
kube_node_info{node="node-b"} 1
kube_node_labels{node="node-a",label_topology_kubernetes_io_zone="zone-a"} 1
kube_node_labels{node="node-b",label_topology_kubernetes_io_zone="zone-b"} 1
`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write([]byte(metrics))
	}))
	t.Cleanup(server.Close)
	return target{address: server.Listener.Addr().String(), job: "kube-state-metrics", pod: "kube-state-metrics-0"}
}

// rules returns the alerts of the chart, in a file of rules.
func rules(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	text := testenv.Run(t, time.Minute, home, "env", "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home,
		testenv.Helm(t), "template", "mediastack", filepath.Join(testenv.RepoRoot(t), "charts", "mediastack"), "--namespace", releaseNamespace,
		"--set=baseURL=https://media.example.org,s3.endpoint=https://s3.example.org,monitoring.rules=true", "--show-only=templates/monitoring.yaml")
	for _, object := range kubetest.ParseManifests(t, text) {
		if object.GetKind() == "PrometheusRule" {
			file, err := json.Marshal(object.Object["spec"]) // JSON is YAML
			must(t, err)
			return string(file)
		}
	}
	t.Fatalf("the chart renders no PrometheusRule: %s", strings.TrimSpace(text))
	return ""
}
