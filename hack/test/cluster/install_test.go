//go:build cluster

package cluster

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv/wait"
)

const (
	namespace = "mediastack-system"
	tenant    = "team-a"
	release   = "mediastack"
	// service is the runtime's Service, which pods reach by name.
	service = "mediastack-runtime"
	baseURL = "http://" + service + "." + namespace + ".svc.cluster.local"
	// nodePort leads from each node to the Service.
	nodePort = "30080"
	// owner may log in to the tenant's account.
	owner = "owner@team-a.example"
)

// namespaces are made before the installation. Both enforce the Pod Security Standard "restricted".
const namespaces = `
apiVersion: v1
kind: Namespace
metadata: {name: mediastack-system, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {pod-security.kubernetes.io/enforce: restricted}}
`

// account is the tenant's. The service deletes the files of such an account with it.
const account = `
apiVersion: mediastack.dev/v1alpha1
kind: MediaAccount
metadata: {name: demo, namespace: team-a}
spec:
  displayName: Team A
  storage: {maxStorage: 1Gi}
  deletionPolicy: Delete
  owners: [` + owner + `]
`

// installed reports whether the product is installed: the tests that need it install it, unless an
// earlier one did, and those that uninstall it leave none.
var installed bool

// secret is the server secret of every installation.
var secret = servers.RandomSecret(32)

// helm runs Helm with directories of its own.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	return try(t, "", "env", append([]string{"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home, env.helm}, args...)...)
}

// install installs the product as the guide says, makes an account, and waits until both are ready.
func install(t *testing.T) {
	t.Helper()
	describeFailure(t)
	if installed {
		return
	}
	apply(t, namespaces)
	credentials := run(t, "kubectl", "-n", namespace, "create", "secret", "generic", service, "--dry-run=client", "--output=yaml",
		"--from-literal=SERVICE_DATABASE_URL="+env.DatabaseURL,
		"--from-literal=SERVICE_S3_ACCESS_KEY="+env.S3.AccessKey, "--from-literal=SERVICE_S3_SECRET_KEY="+env.S3.SecretKey,
		"--from-literal=SERVICE_SECRET="+secret)
	apply(t, credentials)
	mailHost, mailPort, err := net.SplitHostPort(env.SMTP)
	must(t, err)
	begun := time.Now()
	_, err = helm(t, "install", release, filepath.Join(env.root, "charts", "mediastack"), "--namespace", namespace,
		"--set", "baseURL="+baseURL, "--set", "s3.endpoint="+env.S3.Endpoint, "--set", "image.tag="+imageTag,
		"--set", "smtp.host="+mailHost, "--set", "smtp.port="+mailPort, "--set", "smtp.tls=none", "--set", "smtp.from=login@e2e.example",
		"--set-string", "purge.schedule=* * * * *", "--wait", "--timeout", "3m")
	must(t, err)
	installed = true
	apply(t, account)
	kubectl(t, "-n", tenant, "wait", "--for=condition=Ready", "--timeout=90s", "mediaaccount/demo")
	t.Logf("from helm install to a ready account: %s", time.Since(begun).Round(100*time.Millisecond))
}

// accountSecret returns an entry of the Secret that the operator has made for the tenant.
func accountSecret(t *testing.T, name string) string {
	t.Helper()
	return kubectl(t, "-n", tenant, "get", "secret", secretName(t), "--output=go-template={{.data."+name+" | base64decode}}")
}

func secretName(t *testing.T) string {
	t.Helper()
	return kubectl(t, "-n", tenant, "get", "mediaaccount/demo", "--output=jsonpath={.status.keys[0].secretName}")
}

// describeFailure prints what runs in the cluster when the test has failed.
func describeFailure(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, args := range []string{
			"get pods,jobs,mediaaccounts,namespaces --all-namespaces --output=wide",
			"-n mediastack-system get events --sort-by=.lastTimestamp",
			"-n mediastack-system logs --tail=40 --prefix --all-containers --selector=app.kubernetes.io/name=mediastack",
		} {
			output, _ := exec.Command("kubectl", strings.Fields(args)...).CombinedOutput() // t.Context() has ended
			t.Logf("kubectl %s\n%s", args, output)
		}
	})
}

func TestInstallation_PodsFitRestricted(t *testing.T) {
	install(t)
	for component, want := range map[string]int{"operator": 2, "runtime": 2} {
		running := kubectl(t, "-n", namespace, "get", "pods", "--selector=app.kubernetes.io/component="+component,
			"--field-selector=status.phase=Running", "--output=jsonpath={.items[*].spec.nodeName}")
		nodes := strings.Fields(running)
		if len(nodes) != want || nodes[0] == nodes[1] {
			t.Errorf("the pods of the %s run on the nodes %q, not on two", component, nodes)
		}
	}
	// The namespace enforces: a pod that is less restricted is rejected.
	_, err := try(t, "", "kubectl", "-n", namespace, "run", "root", "--image", program, "--dry-run=server")
	if err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		t.Errorf("a pod that may run as root: %v", err)
	}
}

// A NetworkPolicy selects the pods of each program. TestNetworkPolicies_AllowWhatIsNeeded tries them.
func TestInstallation_HasNetworkPolicies(t *testing.T) {
	install(t)
	for _, component := range []string{"operator", "runtime", "purge"} {
		policy := "networkpolicy/mediastack-" + component
		selected := kubectl(t, "-n", namespace, "get", policy, `--output=jsonpath={.spec.podSelector.matchLabels.app\.kubernetes\.io/component}`)
		types := kubectl(t, "-n", namespace, "get", policy, "--output=jsonpath={.spec.policyTypes[*]}")
		if selected != component || types != "Ingress Egress" {
			t.Errorf("%s selects %q and limits %q", policy, selected, types)
		}
	}
}

func TestRuntime_HasNoServiceAccountToken(t *testing.T) {
	install(t)
	roots := programRoots(t, "/usr/local/bin/mediastack-runtime\x00serve")
	if len(roots) != 2 {
		t.Fatalf("%d processes of the runtime run, not 2", len(roots))
	}
	for _, root := range roots {
		if entries, err := os.ReadDir(filepath.Join(root, "var/run/secrets")); !os.IsNotExist(err) {
			t.Errorf("a container of the runtime has secrets: %v, %v", entries, err)
		}
	}
	// The operator's, which has a token, shows that this looks at the right place.
	for _, root := range programRoots(t, "/usr/local/bin/mediastack-operator\x00") {
		if _, err := os.Stat(filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount/token")); err != nil {
			t.Errorf("the operator has no token where it should be: %v", err)
		}
	}
}

// programRoots returns the root directories, seen from outside, of the containers whose first process has
// a command line that begins so, in pods of this cluster.
func programRoots(t *testing.T, commandLine string) []string {
	t.Helper()
	mine, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	found, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	var roots []string
	for _, process := range found {
		line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		network, _ := os.Readlink(filepath.Join(process, "ns/net"))
		groups, _ := os.ReadFile(filepath.Join(process, "cgroup"))
		if strings.HasPrefix(string(line), commandLine) && network != mine && strings.Contains(string(groups), env.Cgroups) {
			roots = append(roots, filepath.Join(process, "root"))
		}
	}
	return roots
}

func TestService_ServesPodsOfTenants(t *testing.T) {
	install(t)
	pod := `
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: team-a}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: client
      image: ` + program + `
      env:
        - {name: ` + clientEnv + `, valueFrom: {secretKeyRef: {name: SECRET, key: apiKey}}}
        - {name: ` + urlEnv + `, valueFrom: {secretKeyRef: {name: SECRET, key: baseURL}}}
        - {name: ` + mcpEnv + `, valueFrom: {secretKeyRef: {name: SECRET, key: mcpURL}}}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`
	apply(t, strings.ReplaceAll(pod, "SECRET", secretName(t)))
	phase := ended(t, tenant, "client")
	if phase != "Succeeded" {
		t.Errorf("the client failed: %s", kubectl(t, "-n", tenant, "logs", "client"))
	}
	kubectl(t, "-n", tenant, "delete", "pod/client", "--now")
}

// nodeService leads from each node to the runtime, as a load balancer before the cluster would use it.
const nodeService = `
apiVersion: v1
kind: Service
metadata: {name: e2e-node, namespace: mediastack-system}
spec:
  type: NodePort
  selector: {app.kubernetes.io/name: mediastack, app.kubernetes.io/component: runtime}
  ports: [{port: 80, targetPort: http, nodePort: ` + nodePort + `}]
`

// outside returns a client outside of the pods, which reaches the service through a node.
func outside(t *testing.T, node string) client {
	t.Helper()
	apply(t, nodeService)
	address := net.JoinHostPort(env.Nodes[node], nodePort)
	wait.UntilNone(t, func() string { // kube-proxy learns of a new Service a moment later
		if err := servers.Accepts(address)(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
	transport := through(address)
	t.Cleanup(transport.CloseIdleConnections)
	return client{
		url: baseURL, mcp: accountSecret(t, "mcpURL"), key: accountSecret(t, "apiKey"),
		http: &http.Client{Transport: retrying{transport}, Timeout: requestTimeout},
	}
}

func TestService_ServesThroughEachNode(t *testing.T) {
	install(t)
	for node := range env.Nodes {
		if err := outside(t, node).story(t.Context()); err != nil {
			t.Errorf("through %s: %v", node, err)
		}
	}
}
