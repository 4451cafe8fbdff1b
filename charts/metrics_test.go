package charts_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

// scraped is a program whose metrics are served by TLS.
type scraped struct {
	t       *testing.T
	address string
	client  *http.Client
	expires time.Time // the certificate
}

// get returns the status and the body of a path, and the protocol's error.
func (s *scraped) get(path, token string) (int, string, error) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "https://"+s.address+path, nil)
	must(s.t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// is fails the test if a path is not answered with a status.
func (s *scraped) is(want int, path, token string) string {
	s.t.Helper()
	status, body, err := s.get(path, token)
	if err != nil || status != want {
		s.t.Errorf("%s is answered %d (%v), want %d: %.100s", path, status, err, want, body)
	}
	return body
}

// mounted writes what a Secret of the certificate would mount, and returns a program at an address with a client that trusts it alone.
func mounted(t *testing.T, dir, host, address string) *scraped {
	t.Helper()
	expires := time.Now().Add(time.Hour)
	certificate, key := testenv.Certificate(t, host, expires)
	must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}}}
	return &scraped{t, address, client, expires}
}

// shows fails the test if metrics lack the time at which the certificate expires.
func (s *scraped) shows(metric, metrics string) {
	s.t.Helper()
	if line := fmt.Sprintf("\n%s %v\n", metric, float64(s.expires.Unix())); !strings.Contains(metrics, line) {
		s.t.Errorf("the metrics have no line %q", line)
	}
}

// token returns a token of a service account, as its pod has one.
func (c *cluster) token(name string) string {
	c.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	c.create(account)
	request := &authenticationv1.TokenRequest{}
	must(c.t, c.SubResource("token").Create(c.t.Context(), account, request))
	return request.Status.Token
}

// With the rights of the chart alone, the operator asks the API server who may read its metrics, and the
// runtime, which has no access to the API server, compares a token.
func TestMetrics_ByTLSAreForThoseThatMayReadThem(t *testing.T) {
	t.Parallel()
	plane := kubetest.New(t) // it is stopped
	c := newCluster(t, plane, "scraped")
	const fullname = "scraped-mediastack"
	reader, other := c.token("prometheus"), c.token("other")
	_, err := helm(t, append([]string{
		"install", "scraped", chart(t), "--kubeconfig", plane.Kubeconfig(), "--namespace", c.namespace,
		"--set=crds.install=false,metrics.tls.enabled=true,metrics.tokenSecretName=scrape",
		"--set=metrics.tls.readers[0].namespace=" + c.namespace + ",metrics.tls.readers[0].name=prometheus",
	}, c.stores()...)...)
	must(t, err)
	managing := c.managing(fullname)
	serving := c.serving(fullname)

	managing.is(http.StatusUnauthorized, "/metrics", "")
	managing.is(http.StatusUnauthorized, "/metrics", "not-a-token")
	managing.is(http.StatusForbidden, "/metrics", other)
	managing.shows("mediastack_operator_tls_certificate_not_after_timestamp_seconds", managing.is(http.StatusOK, "/metrics", reader))

	first, second := strings.Repeat("a", 16), strings.Repeat("b", 32)
	serving.is(http.StatusOK, "/readyz", "")
	serving.is(http.StatusUnauthorized, "/metrics", "")
	serving.is(http.StatusUnauthorized, "/metrics", reader)
	serving.is(http.StatusUnauthorized, "/metrics", second)
	serving.shows("mediastack_admin_tls_certificate_not_after_timestamp_seconds", serving.is(http.StatusOK, "/metrics", first))
	serving.rotate(first + "\n" + second)
	serving.is(http.StatusOK, "/metrics", first)
	serving.is(http.StatusOK, "/metrics", second)
	serving.rotate("")
	serving.is(http.StatusServiceUnavailable, "/metrics", first)
	serving.rotate(second)
	serving.is(http.StatusUnauthorized, "/metrics", first)
	serving.is(http.StatusOK, "/metrics", second)

	// Metrics are needed most while the API server is away.
	plane.KillAPIServer()
	managing.is(http.StatusOK, "/metrics", reader)
	managing.is(http.StatusUnauthorized, "/metrics", "")
	managing.is(http.StatusServiceUnavailable, "/metrics", other)
}

// certificateIn returns the environment of a container whose certificate is in a folder.
func certificateIn(t *testing.T, container corev1.Container, dir string) (all []string) {
	t.Helper()
	for _, variable := range container.Env {
		if file, found := strings.CutPrefix(variable.Value, "/etc/mediastack/metrics-tls/"); found {
			all = append(all, variable.Name+"="+filepath.Join(dir, file))
		}
	}
	if len(all) != 2 {
		t.Fatalf("the container has the files %q, not a certificate and its key", all)
	}
	return all
}

// managing starts the operator of a release.
func (c *cluster) managing(fullname string) *scraped {
	c.t.Helper()
	dir := testenv.TempDir(c.t)
	s := mounted(c.t, dir, fullname+"-operator-metrics.scraped.svc", "127.0.0.1:"+strconv.Itoa(testenv.FreePort(c.t)))
	pod := c.pod(&appsv1.Deployment{}, fullname+"-operator")
	container := pod.Containers[0]
	_, err := testenv.Group(c.t).Start(c.t.Context(), testenv.Spec{
		Name: "operator", Path: testenv.Binary(c.t, "mediastack-operator"), Args: container.Args, LogFile: filepath.Join(dir, "operator.log"),
		Env: append(append(c.environment(container), certificateIn(c.t, container, dir)...),
			"KUBECONFIG="+c.plane.ServiceAccountKubeconfig(c.namespace, pod.ServiceAccountName), "SERVICE_METRICS_LISTEN="+s.address, "SERVICE_HEALTH_LISTEN=0"),
		Ready: s.answers("/metrics"),
	})
	must(c.t, err)
	return s
}

// rotating is a runtime whose token changes.
type rotating struct {
	*scraped
	file string
}

// rotate replaces the token, as the kubelet does.
func (r *rotating) rotate(token string) {
	r.t.Helper()
	must(r.t, os.WriteFile(r.file+".new", []byte(token+"\n"), 0o600))
	must(r.t, os.Rename(r.file+".new", r.file))
}

// serving migrates the database, and starts the runtime of a release.
func (c *cluster) serving(fullname string) *rotating {
	c.t.Helper()
	dir := testenv.TempDir(c.t)
	pod := c.pod(&appsv1.Deployment{}, fullname+"-runtime")
	if code, out := c.command("mediastack-runtime", pod.InitContainers[0]); code != 0 {
		c.t.Fatalf("migrate exits with %d: %s", code, out)
	}
	container := pod.Containers[0]
	for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe} {
		if probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
			c.t.Errorf("the %s probe speaks %s to a port of HTTPS", name, probe.HTTPGet.Scheme)
		}
	}
	admin := "127.0.0.1:" + strconv.Itoa(testenv.FreePort(c.t))
	r := &rotating{mounted(c.t, dir, fullname+"-runtime-metrics.scraped.svc", admin), filepath.Join(dir, "token")}
	r.rotate(strings.Repeat("a", 16))
	_, err := testenv.Group(c.t).Start(c.t.Context(), testenv.Spec{
		Name: "runtime", Path: testenv.Binary(c.t, "mediastack-runtime"), Args: container.Args, LogFile: filepath.Join(dir, "runtime.log"),
		Env: append(append(c.environment(container), certificateIn(c.t, container, dir)...), "SERVICE_METRICS_TOKEN_FILE="+r.file,
			"SERVICE_LISTEN=127.0.0.1:"+strconv.Itoa(testenv.FreePort(c.t)), "SERVICE_ADMIN_LISTEN="+admin, "SERVICE_DRAIN_DELAY=0s"),
		Ready: r.answers("/healthz"),
	})
	must(c.t, err)
	wait.Until(c.t, "the runtime is ready", func() bool {
		status, _, err := r.get("/readyz", "")
		return err == nil && status == http.StatusOK
	})
	return r
}

// answers returns what waits until a path is answered, with whatever status.
func (s *scraped) answers(path string) func(context.Context) error {
	return func(context.Context) error {
		_, _, err := s.get(path, "")
		return err
	}
}

// Prometheus speaks HTTPS, verifies the name of the Service, and has the token that each program wants.
func TestMetrics_ServiceMonitorsFitThePrograms(t *testing.T) {
	t.Parallel()
	const on = "--set=monitoring.serviceMonitors=true,metrics.tls.enabled=true,metrics.tokenSecretName=scrape"
	endpoint := func(all []*unstructured.Unstructured, component string) map[string]any {
		endpoints, _, err := unstructured.NestedSlice(find(t, all, "ServiceMonitor", "mediastack-"+component+"-metrics").Object, "spec", "endpoints")
		must(t, err)
		one, _ := endpoints[0].(map[string]any)
		return one
	}
	for component, token := range map[string]string{"runtime": "scrape token", "operator": "own own-token"} {
		one := endpoint(objects(t, on, "--set=metrics.tls.readerToken.secretName=own,metrics.tls.readerToken.key=own-token"), component)
		server, _, _ := unstructured.NestedString(one, "tlsConfig", "serverName")
		ca, _, _ := unstructured.NestedStringMap(one, "tlsConfig", "ca", "secret")
		name, _, _ := unstructured.NestedString(one, "authorization", "credentials", "name")
		key, _, _ := unstructured.NestedString(one, "authorization", "credentials", "key")
		got := fmt.Sprint(one["scheme"], " ", server, " ", ca["name"], " ", ca["key"], " ", name, " ", key, " ", one["bearerTokenFile"])
		want := fmt.Sprintf("https mediastack-%s-metrics.mediastack-system.svc mediastack-%s-metrics ca.crt %s <nil>", component, component, token)
		if got != want {
			t.Errorf("the endpoint of the %s is %q, want %q", component, got, want)
		}
	}
	if one := endpoint(objects(t, on), "operator"); one["bearerTokenFile"] == nil || one["authorization"] != nil {
		t.Errorf("the endpoint of the operator has no token of Prometheus' pod: %v", one)
	}
	if one := endpoint(objects(t, "--set=monitoring.serviceMonitors=true"), "operator"); one["scheme"] != nil || one["tlsConfig"] != nil || one["bearerTokenFile"] != nil {
		t.Errorf("without TLS the endpoint of the operator is %v", one)
	}
}
