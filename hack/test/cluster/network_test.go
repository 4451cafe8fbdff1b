//go:build cluster

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// reachArgument makes this program try the addresses of the arguments after it, which have
	// yes= or no= before them.
	reachArgument = "reach"
	reachTimeout  = 2 * time.Second
	// policyDelay is how long the rules for a new pod may take.
	policyDelay = 30 * time.Second
)

// reach tries addresses until each is reached, or not reached, as it should be.
func reach(ctx context.Context, addresses []string) error {
	ctx, cancel := context.WithTimeout(ctx, policyDelay)
	defer cancel()
	for {
		wrong := tryAll(ctx, addresses)
		if wrong == nil {
			return nil
		}
		select {
		case <-time.After(time.Second): //nolint:forbidigo // this runs in a pod, without a test
		case <-ctx.Done():
			return wrong
		}
	}
}

func tryAll(ctx context.Context, addresses []string) error {
	outcomes := make(chan error, len(addresses))
	for _, one := range addresses {
		go func() {
			expected, address, _ := strings.Cut(one, "=")
			dialer := net.Dialer{Timeout: reachTimeout}
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				_ = conn.Close()
			}
			if (err == nil) != (expected == "yes") {
				outcomes <- fmt.Errorf("%s: should it be reached: %s; the connection: %s", address, expected, fmt.Sprint(err))
				return
			}
			outcomes <- nil
		}()
	}
	var wrong []error
	for range addresses {
		wrong = append(wrong, <-outcomes)
	}
	return errors.Join(wrong...)
}

// A pod of a tenant reaches the API of the service and no metrics, only the monitoring reaches these, and the
// pods of the runtime reach their stores and the mail server and nothing else.
func TestNetworkPolicies_AllowWhatIsNeeded(t *testing.T) {
	install(t)
	apply(t, strings.ReplaceAll(strings.ReplaceAll(namespaces, "mediastack-system", "monitoring"), "team-a", "bystanders"))
	defer kubectl(t, "delete", "namespace", "monitoring", "bystanders", "--wait=false")
	runtimes := strings.Fields(kubectl(t, "-n", namespace, "get", "pods", "--selector=app.kubernetes.io/component=runtime", "--field-selector=status.phase=Running", "--output=jsonpath={.items[*].status.podIP}"))
	operators := strings.Fields(kubectl(t, "-n", namespace, "get", "pods", "--selector=app.kubernetes.io/component=operator", "--field-selector=status.phase=Running", "--output=jsonpath={.items[*].status.podIP}"))
	stores := storeAddresses(t)
	var asTenant, asMonitoring []string
	for _, address := range runtimes {
		asTenant = append(asTenant, "yes="+address+":8080", "no="+address+":8081")
		asMonitoring = append(asMonitoring, "yes="+address+":8080", "yes="+address+":8081")
	}
	asTenant = append(asTenant, "yes="+service+"."+namespace+":80")
	for _, address := range operators {
		asTenant, asMonitoring = append(asTenant, "no="+address+":8080"), append(asMonitoring, "yes="+address+":8080")
	}
	var asRuntime []string
	for _, address := range stores {
		asRuntime = append(asRuntime, "yes="+address)
	}
	asRuntime = append(asRuntime, "no=kubernetes.default.svc:443", "no="+operators[0]+":8080", "no="+runtimes[0]+":8080")

	for _, c := range []struct {
		name, namespace string
		labels          map[string]string
		addresses       []string
	}{
		{"a pod of a tenant", tenant, nil, asTenant},
		{"a pod of the monitoring", "monitoring", nil, asMonitoring},
		{"a pod of the runtime", namespace, runtimeLabels(t), asRuntime},
		// The addresses that the runtime does not reach are there.
		{"a pod of another namespace", "bystanders", nil, []string{"yes=kubernetes.default.svc:443", "yes=" + runtimes[0] + ":8080"}},
	} {
		t.Run(c.name, func(t *testing.T) { tryFromPod(t, c.namespace, c.labels, c.addresses) })
	}
}

// storeAddresses are those of PostgreSQL, S3 and the mail server.
func storeAddresses(t *testing.T) []string {
	t.Helper()
	addresses := []string{env.SMTP}
	for _, text := range []string{env.DatabaseURL, env.S3.Endpoint} {
		parsed, err := url.Parse(text)
		must(t, err)
		addresses = append(addresses, parsed.Host)
	}
	return addresses
}

// runtimeLabels are those that policies and the Service select the pods of the runtime by.
func runtimeLabels(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	text := kubectl(t, "-n", namespace, "get", "networkpolicy/mediastack-runtime", "--output=jsonpath={.spec.podSelector.matchLabels}")
	must(t, json.Unmarshal([]byte(text), &found))
	return found
}

// tryFromPod runs this program in a pod that is never Ready, so that no Service leads to it.
func tryFromPod(t *testing.T, in string, labels map[string]string, addresses []string) {
	t.Helper()
	describeFailure(t)
	self, err := os.Executable()
	must(t, err)
	never, restricted := false, true
	user := int64(65532)
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "reach", Namespace: in, Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &never,
			ReadinessGates:  []corev1.PodReadinessGate{{ConditionType: "e2e.mediastack.dev/never"}},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &restricted, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "reach", Image: program, Command: append([]string{"/" + filepath.Base(self), reachArgument}, addresses...),
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &never, ReadOnlyRootFilesystem: &restricted, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
	manifest, err := json.Marshal(pod)
	must(t, err)
	apply(t, string(manifest))
	defer kubectl(t, "-n", in, "delete", "pod/reach", "--now")
	if phase := ended(t, in, "reach"); phase != "Succeeded" {
		t.Error(kubectl(t, "-n", in, "logs", "reach"))
	}
}
