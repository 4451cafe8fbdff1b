//go:build cluster

package cluster

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
)

// In the order of the guide: everything goes, and the files stay for the next installation.
func TestUninstall_InOrderKeepsTheFiles(t *testing.T) {
	install(t)
	c := outside(t, "node1")
	data := randomBytes(50_000)
	kept, err := c.upload(t.Context(), "kept.bin", data)
	must(t, err)
	if _, err := c.seal(t.Context(), kept.MediaID); err != nil {
		t.Fatal(err)
	}

	// The chart denies it while accounts exist, and removes nothing.
	if _, err := helm(t, "uninstall", release, "--namespace", namespace); err == nil {
		t.Fatal("helm uninstall went on although a MediaAccount exists")
	}
	if _, err := c.seal(t.Context(), kept.MediaID); err != nil {
		t.Errorf("after helm uninstall was denied, the service does not work: %v", err)
	}

	kubectl(t, "-n", namespace, "exec", "deploy/mediastack-operator", "--", "mediastack-operator", "uninstall", "--confirm")
	if _, err := helm(t, "uninstall", release, "--namespace", namespace, "--wait", "--timeout", "2m"); err != nil {
		t.Fatal(err)
	}
	installed = false
	deleteNamespace(t)
	deleteDefinitions(t)
	nothingIsLeft(t)

	install(t)
	c = outside(t, "node1")
	found, err := c.document(t.Context(), 200, "GET", "/media/get/"+kept.MediaID, nil)
	if err != nil {
		t.Fatalf("after a new installation: %v", err)
	}
	if err := c.has(t.Context(), found, data); err != nil {
		t.Errorf("after a new installation: %v", err)
	}
}

// other is a tenant whose namespace is deleted, too.
const other = `
apiVersion: v1
kind: Namespace
metadata: {name: team-b}
---
apiVersion: mediastack.dev/v1alpha1
kind: MediaAccount
metadata: {name: demo, namespace: team-b}
spec: {displayName: Team B, deletionPolicy: Delete}
`

// The wrong order: the operator goes first, so that nothing removes the finalizers of tenants' objects.
func TestUninstall_OperatorFirstIsFreedFromOutside(t *testing.T) {
	install(t)
	apply(t, other)
	kubectl(t, "-n", "team-b", "wait", "--for=condition=Ready", "--timeout=90s", "mediaaccount/demo")
	kubectl(t, "-n", namespace, "delete", "deployment/mediastack-operator")
	installed = false
	wait.UntilNone(t, func() string {
		return kubectl(t, "-n", namespace, "get", "pods", "--selector=app.kubernetes.io/component=operator", "--output=name")
	})
	manifest, err := helm(t, "get", "manifest", release, "--namespace", namespace)
	must(t, err)
	if _, err := try(t, manifest, "kubectl", "delete", "--ignore-not-found", "--wait=false", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "delete", "namespace", "team-b", "--wait=false")
	for _, stuck := range []string{tenant, "team-b"} {
		wait.UntilNone(t, func() string {
			if kubectl(t, "-n", stuck, "get", "mediaaccount/demo", "--output=jsonpath={.metadata.deletionTimestamp}") == "" {
				return "the account in " + stuck + " is Terminating"
			}
			return ""
		})
	}

	// As the guide says, from outside of the cluster's pods.
	run(t, "env", "SERVICE_DATABASE_URL="+env.DatabaseURL, env.operator, "uninstall", "--confirm")
	kubectl(t, "wait", "--for=delete", "--timeout=1m", "namespace/team-b")
	wait.UntilNone(t, func() string { return strings.Join(definitions(t), " ") })
	deleteNamespace(t)
	nothingIsLeft(t)

	// The accounts of the namespaces that exist are bound again.
	install(t)
}

// deleteNamespace deletes the product's namespace when its pods are gone: for as long as they are not,
// Kubernetes looks again only after half of their termination grace period, 150 s.
func deleteNamespace(t *testing.T) {
	t.Helper()
	wait.UntilNoneWithin(t, 2*time.Minute, func() string { return kubectl(t, "-n", namespace, "get", "pods", "--output=name") })
	kubectl(t, "delete", "namespace", namespace, "--timeout=1m")
}

// definitions are the names of the product's custom resource definitions that exist.
func definitions(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range strings.Fields(kubectl(t, "get", "customresourcedefinitions", "--output=name")) {
		if strings.HasSuffix(name, ".mediastack.dev") {
			found = append(found, name)
		}
	}
	return found
}

// deleteDefinitions deletes what Helm keeps, so that no release deletes the accounts of all tenants.
func deleteDefinitions(t *testing.T) {
	t.Helper()
	kept := definitions(t)
	if len(kept) != 3 {
		t.Errorf("helm uninstall has kept the definitions %q, not 3", kept)
	}
	kubectl(t, append([]string{"delete", "--timeout=1m"}, kept...)...)
}

// nothingIsLeft checks that no object of the product exists outside of namespaces, and none of its namespaces.
func nothingIsLeft(t *testing.T) {
	t.Helper()
	kinds := []string{
		"namespaces", "customresourcedefinitions", "clusterroles", "clusterrolebindings", "priorityclasses",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
	}
	for _, name := range strings.Fields(kubectl(t, "get", strings.Join(kinds, ","), "--output=name")) {
		if strings.Contains(name, "mediastack") {
			t.Errorf("%s is left", name)
		}
	}
}
