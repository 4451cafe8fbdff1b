//go:build cluster

package cluster

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// The first chart that installs, of commit f976675, and the present one. Both run the images of this
// checkout: there is no earlier release whose images could be kept. The definition of MediaAccount in the
// first one therefore does not require status.usage.draftItems, which this operator does not write.
const firstChart, presentChart = "charts/testdata/mediastack-0.0.1.tgz", "charts/mediastack"

// deploy runs helm install or upgrade with a chart, and waits until all pods are ready.
func deploy(t *testing.T, verb, chart string, values ...string) {
	t.Helper()
	args := append([]string{verb, release, filepath.Join(env.root, chart), "--namespace", namespace,
		"--set", "baseURL=" + baseURL, "--set", "s3.endpoint=" + env.S3.Endpoint, "--set", "image.tag=" + imageTag, "--wait", "--timeout", "3m"}, values...)
	if _, err := helm(t, args...); err != nil {
		t.Fatal(err)
	}
}

// remove uninstalls the product in the order of the guide, if it is installed.
func remove(t *testing.T) {
	t.Helper()
	if _, err := try(t, "", "kubectl", "-n", namespace, "get", "deploy/mediastack-operator"); err != nil {
		return
	}
	kubectl(t, "-n", namespace, "exec", "deploy/mediastack-operator", "--", "mediastack-operator", "uninstall", "--confirm")
	if _, err := helm(t, "uninstall", release, "--namespace", namespace, "--wait", "--timeout", "2m"); err != nil {
		t.Fatal(err)
	}
	installed = false
	deleteNamespace(t)
	deleteDefinitions(t)
}

// definition returns the schema of MediaAccounts in the cluster.
func definition(t *testing.T) map[string]any {
	t.Helper()
	return versions(t, []byte(kubectl(t, "get", "customresourcedefinition/mediaaccounts.mediastack.dev", "--output=json")))
}

// versions returns the schema in a definition.
func versions(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var object struct {
		Spec struct {
			Versions []struct {
				Schema map[string]any `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	text, err := yaml.YAMLToJSON(text)
	must(t, err)
	if err := json.Unmarshal(text, &object); err != nil || len(object.Spec.Versions) != 1 {
		t.Fatalf("%v, %d versions", err, len(object.Spec.Versions))
	}
	return object.Spec.Versions[0].Schema
}

// pods returns the names of the pods of operator and runtime.
func pods(t *testing.T) []string {
	t.Helper()
	return strings.Fields(kubectl(t, "-n", namespace, "get", "pods", "--selector=app.kubernetes.io/component in (operator, runtime)", "--output=name"))
}

// during lets clients work while step changes the release, and checks that they saw no failure and
// lost no upload, and that every pod was replaced.
func during(t *testing.T, c client, name string, step func()) {
	t.Helper()
	before := pods(t)
	var l load
	end := l.begin(t.Context(), c)
	defer end()
	begun := time.Now()
	step()
	kubectl(t, append([]string{"-n", namespace, "wait", "--for=delete", "--timeout=2m"}, before...)...)
	took := time.Since(begun)
	end()
	if len(l.failures) > 0 {
		t.Errorf("%s: %d of %d requests failed, the first: %v", name, len(l.failures), l.requests, l.failures[0])
	}
	for id, data := range l.uploaded {
		found, err := c.document(t.Context(), http.StatusOK, http.MethodGet, "/media/get/"+id, nil)
		if err == nil {
			err = c.has(t.Context(), found, data)
		}
		if err != nil {
			t.Fatalf("%s: an upload is missing: %v", name, err)
		}
	}
	t.Logf("%s: %s, %d requests, %d failed, %d uploads, all there", name, took.Round(100*time.Millisecond), l.requests, len(l.failures), len(l.uploaded))
}

// From the first chart to the present one with a changed setting, and back: no client sees it.
func TestUpgrade_FromTheFirstChartAndBackLosesNothing(t *testing.T) {
	describeFailure(t)
	remove(t)
	apply(t, namespaces)
	apply(t, run(t, "kubectl", "-n", namespace, "create", "secret", "generic", service, "--dry-run=client", "--output=yaml",
		"--from-literal=SERVICE_DATABASE_URL="+env.DatabaseURL, "--from-literal=SERVICE_SECRET="+secret,
		"--from-literal=SERVICE_S3_ACCESS_KEY="+env.S3.AccessKey, "--from-literal=SERVICE_S3_SECRET_KEY="+env.S3.SecretKey))
	deploy(t, "install", firstChart)
	apply(t, account)
	kubectl(t, "-n", tenant, "wait", "--for=condition=Ready", "--timeout=90s", "mediaaccount/demo")
	first := definition(t)
	c := outside(t, "node1")
	data := randomBytes(50_000)
	early, err := c.upload(t.Context(), "early.bin", data)
	must(t, err)
	if _, err := c.seal(t.Context(), early.MediaID); err != nil {
		t.Fatal(err)
	}
	keepsItsFile := func(when string) {
		found, err := c.document(t.Context(), http.StatusOK, http.MethodGet, "/media/get/"+early.MediaID, nil)
		if err == nil {
			err = c.has(t.Context(), found, data)
		}
		if err != nil {
			t.Errorf("%s: the file of the first installation: %v", when, err)
		}
		kubectl(t, "-n", tenant, "wait", "--for=condition=Ready", "--timeout=90s", "mediaaccount/demo")
	}

	during(t, c, "helm upgrade", func() { deploy(t, "upgrade", presentChart, "--set=settings.SERVICE_LOG_LEVEL=DEBUG") })
	keepsItsFile("after the upgrade")
	file, err := os.ReadFile(filepath.Join(env.root, presentChart, "files", "crds", "mediastack.dev_mediaaccounts.yaml"))
	must(t, err)
	if got := definition(t); !reflect.DeepEqual(got, versions(t, file)) || reflect.DeepEqual(got, first) {
		t.Error("the upgrade did not update the definition of MediaAccounts")
	}
	if level := kubectl(t, "-n", namespace, "get", "configmap/mediastack", "--output=jsonpath={.data.SERVICE_LOG_LEVEL}"); level != "DEBUG" {
		t.Errorf("the log level is %q", level)
	}
	if output, err := helm(t, "test", release, "--namespace", namespace, "--logs", "--timeout", "2m"); err != nil || !strings.Contains(output, "the service answers at http://mediastack-runtime."+namespace+".svc:80") {
		t.Errorf("helm test: %v\n%s", err, output)
	}
	kubectl(t, "-n", namespace, "delete", "pod/mediastack-test") // Helm keeps it, for its log

	during(t, c, "helm rollback", func() {
		if _, err := helm(t, "rollback", release, "1", "--namespace", namespace, "--wait", "--timeout", "3m"); err != nil {
			t.Fatal(err)
		}
	})
	keepsItsFile("after the rollback")
	if got := definition(t); !reflect.DeepEqual(got, first) {
		t.Error("the definition of MediaAccounts is not that of the first chart")
	}

	if output, err := helm(t, "uninstall", release, "--namespace", namespace); err == nil {
		t.Errorf("helm uninstall went on although a MediaAccount exists: %s", output)
	}
	keepsItsFile("after helm uninstall was denied")
	remove(t)
	nothingIsLeft(t)
}
