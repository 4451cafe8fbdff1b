package charts_test

import (
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

var update = flag.Bool("update", false, "write the golden files")

// everything has every optional part on, with values that are not the default.
var everything = []string{"--values=testdata/everything-values.yaml"}

// renderings are the ways to install the chart.
var renderings = map[string][]string{
	"default":    {"--set=crds.install=false"},
	"namespaced": {"--set=crds.install=false,watchNamespaces={team-a,team-b}"},
	"everything": append(everything, "--set=crds.install=false"),
	"trial":      {"--set=crds.install=false,trial.enabled=true"},
	"identity":   {"--set=crds.install=false,s3.credentials=iam", `--set-json=operator.serviceAccountAnnotations={"eks.amazonaws.com/role-arn":"arn:aws:iam::1:role/operator"}`, `--set-json=runtime.serviceAccountAnnotations={"eks.amazonaws.com/role-arn":"arn:aws:iam::1:role/runtime"}`},
}

// clusters are the kinds of clusters that docs/examples/clusters has values for.
var clusters = []string{"kind", "eks", "gke", "openshift", "air-gap"}

// valuesFor returns the arguments of Helm with the values for a kind of clusters.
func valuesFor(t testing.TB, name string, args ...string) []string {
	t.Helper()
	values := filepath.Join(testenv.RepoRoot(t), "docs", "examples", "clusters", name+".yaml")
	return append([]string{"--values=" + values, "--set=crds.install=false"}, args...)
}

// template renders the chart with nothing but the arguments.
func template(t testing.TB, name, namespace string, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", name, chart(t), "--namespace", namespace}, args...)...)
}

// A change of the chart shows in the golden files, for review.
func TestRender_IsAsTheGoldenFiles(t *testing.T) {
	t.Parallel()
	wanted := map[string][]string{}
	for _, name := range []string{"default", "namespaced", "everything"} {
		wanted[name] = append(slices.Clone(required), renderings[name]...)
	}
	for _, name := range clusters {
		wanted[name] = valuesFor(t, name)
	}
	for name, args := range wanted {
		got, err := template(t, release, namespace, args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		path := filepath.Join("testdata", name+".yaml")
		if *update {
			must(t, os.WriteFile(path, []byte(got), 0o600))
		}
		want, err := os.ReadFile(path)
		must(t, err)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: the chart renders (+) not what %s has (-); `go test ./charts -run GoldenFiles -update` writes it:\n%s", name, path, diff)
		}
	}
}

// defineForeign defines the kinds of other projects that the chart has objects of: HTTPRoute of the
// Gateway API 1.2.1 and BackendTLSPolicy of 1.4.0, ServiceMonitor and PrometheusRule of the Prometheus
// operator 0.85.0, Certificate of cert-manager 1.18.2, ExternalSecret of the External Secrets Operator
// 0.19.2. The file has the definitions of these releases.
func defineForeign(t *testing.T, c *cluster) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "foreign-crds.yaml.gz"))
	must(t, err)
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	must(t, err)
	text, err := io.ReadAll(unzipped)
	must(t, err)
	for _, object := range kubetest.ParseManifests(t, string(text)) {
		must(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("charts-test"), client.ForceOwnership))
		wait.Until(c.t, object.GetName()+" is established", func() bool {
			must(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // null at first
			return slices.ContainsFunc(conditions, func(condition any) bool {
				fields, _ := condition.(map[string]any)
				return fields["type"] == "Established" && fields["status"] == "True"
			})
		})
	}
}

// A field that does not exist is rejected, in the kinds of other projects, too.
func TestRender_IsAcceptedByAnAPIServer(t *testing.T) {
	t.Parallel()
	defineForeign(t, newCluster(t, kubetest.Shared(t), "render"))
	all := map[string][]string{}
	for name, args := range renderings {
		all[name] = append(slices.Clone(required), args...)
	}
	for _, name := range clusters {
		all[name] = valuesFor(t, name)
	}
	all["try"] = valuesFor(t, "kind", "--set=trial.enabled=true") // docs/guides/try-on-kind.md
	// `everything` has its monitors in this namespace.
	must(t, client.IgnoreAlreadyExists(newCluster(t, kubetest.Shared(t), "render").Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}})))
	for name, args := range all {
		c := newCluster(t, kubetest.Shared(t), "render-"+name)
		if name == "namespaced" {
			for _, watched := range []string{"team-a", "team-b"} { // the control plane is shared: another test may have one of that name
				must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}})))
			}
		}
		text, err := template(t, "render-"+name, c.namespace, append(args, "--set=priorityClass.create=false,priorityClass.name=")...)
		must(t, err)
		pods := 0
		for _, object := range kubetest.ParseManifests(t, text) {
			err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.DryRunAll, client.FieldOwner("charts-test"))
			if err != nil && object.GetKind() != "Pod" { // a pod needs its service account, which is not there in a dry run
				t.Errorf("%s: %s %s: %v", name, object.GetKind(), object.GetName(), err)
			}
			if spec, ok := podSpec(t, object); ok {
				pods++
				spec.ServiceAccountName = ""
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: object.GetName()}, Spec: spec}
				if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
					t.Errorf("%s: a pod of %s %s: %v", name, object.GetKind(), object.GetName(), err)
				}
				if token := spec.AutomountServiceAccountToken; (token == nil || *token) != strings.Contains(object.GetName(), "-operator") && !strings.Contains(object.GetName(), "-uninstall") {
					t.Errorf("%s: %s %s: mounts a token: %t", name, object.GetKind(), object.GetName(), token == nil || *token)
				}
			}
		}
		if pods < 5 {
			t.Errorf("%s: there are %d pods only", name, pods)
		}
	}
}

// podSpec returns the specification of the pods of a workload.
func podSpec(t *testing.T, object *unstructured.Unstructured) (corev1.PodSpec, bool) {
	t.Helper()
	var err error
	convert := func(into any) {
		err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true)
	}
	var spec corev1.PodSpec
	switch object.GetKind() {
	case "Deployment":
		var workload appsv1.Deployment
		convert(&workload)
		spec = workload.Spec.Template.Spec
	case "CronJob":
		var workload batchv1.CronJob
		convert(&workload)
		spec = workload.Spec.JobTemplate.Spec.Template.Spec
	case "Job":
		var workload batchv1.Job
		convert(&workload)
		spec = workload.Spec.Template.Spec
	case "Pod":
		var pod corev1.Pod
		convert(&pod)
		spec = pod.Spec
	default:
		return spec, false
	}
	must(t, err)
	return spec, true
}

// A changed setting changes the pods of the operator and the runtime, so that they are rolled.
func TestRender_SettingsRollThePods(t *testing.T) {
	t.Parallel()
	before, after := objects(t), objects(t, "--set=settings.SERVICE_LOG_LEVEL=DEBUG")
	for _, name := range []string{"mediastack-operator", "mediastack-runtime"} {
		if cmp.Equal(find(t, before, "Deployment", name).Object, find(t, after, "Deployment", name).Object) {
			t.Errorf("%s is not rolled", name)
		}
	}
}

// An Ingress controller speaks HTTPS to the pods by an annotation of its own, if the runtime listens for HTTPS.
func TestRoutes_IngressControllersSpeakHTTPSToTheRuntime(t *testing.T) {
	t.Parallel()
	for controller, want := range map[string][3]string{
		"nginx":   {"Ingress", "nginx.ingress.kubernetes.io/backend-protocol", "HTTPS"},
		"haproxy": {"Ingress", "haproxy.org/server-ssl", "true"},
		"traefik": {"Service", "traefik.ingress.kubernetes.io/service.serversscheme", "https"},
		"contour": {"Service", "projectcontour.io/upstream-protocol.tls", "http"},
	} {
		for _, tls := range []string{"", "media-tls"} {
			all := objects(t, "--set=ingress.enabled=true,ingress.controller="+controller, "--set=tls.secretName="+tls)
			value := want[2]
			if tls == "" {
				value = ""
			}
			if got := find(t, all, want[0], "mediastack-runtime").GetAnnotations()[want[1]]; got != value {
				t.Errorf("%s with tls.secretName %q: the annotation is %q, want %q", controller, tls, got, value)
			}
		}
	}
	// One of the user has precedence.
	all := objects(t, "--set=ingress.enabled=true,ingress.controller=nginx,tls.secretName=a", `--set=ingress.annotations.nginx\.ingress\.kubernetes\.io/backend-protocol=GRPCS`)
	if got := find(t, all, "Ingress", "mediastack-runtime").GetAnnotations()["nginx.ingress.kubernetes.io/backend-protocol"]; got != "GRPCS" {
		t.Errorf("the annotation of the user is %q", got)
	}
}

// How long replicas are left on a node that failed is what the values say, unless a toleration of the user covers it.
func TestRender_ReplicasOfAFailedNodeAreReplacedSoon(t *testing.T) {
	t.Parallel()
	const notReady, unreachable = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
	for args, want := range map[string]map[string]int64{
		"--set=runtime.replicas=2":                 {notReady: 10, unreachable: 10},
		"--set=nodeFailure.tolerationSeconds=0":    {notReady: 0, unreachable: 0},
		"--set=nodeFailure.tolerationSeconds=null": {},
		"--set=nodeFailure.tolerationSeconds=60,runtime.tolerations[0].key=infra,runtime.tolerations[0].operator=Exists":                           {notReady: 60, unreachable: 60},
		"--set=runtime.tolerations[0].key=" + unreachable + ",runtime.tolerations[0].operator=Exists,runtime.tolerations[0].tolerationSeconds=120": {notReady: 10, unreachable: 120},
		"--set=runtime.tolerations[0].key=" + unreachable + ",runtime.tolerations[0].operator=Exists,runtime.tolerations[0].effect=NoSchedule":     {notReady: 10, unreachable: 10},
		"--set=runtime.tolerations[0].operator=Exists": {},
	} {
		spec, ok := podSpec(t, find(t, objects(t, args), "Deployment", "mediastack-runtime"))
		if !ok {
			t.Fatalf("%s: the runtime has no pods", args)
		}
		got := map[string]int64{}
		for _, toleration := range spec.Tolerations {
			if toleration.TolerationSeconds != nil {
				got[toleration.Key] = *toleration.TolerationSeconds
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the seconds on a failed node (-want +got):\n%s", args, diff)
		}
	}
}

// What the API server takes of a PodDisruptionBudget: one of its two fields.
func TestRender_PodDisruptionBudgetHasOneBound(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"runtime.podDisruptionBudget.maxUnavailable=25%": "maxUnavailable: 25%",
		"runtime.podDisruptionBudget.minAvailable=2":     "minAvailable: 2",
		"runtime.podDisruptionBudget.minAvailable=0":     "minAvailable: 0",
		"runtime.podDisruptionBudget.enabled=false":      "",
	} {
		text, err := render(t, "--set="+values, "--show-only=templates/runtime.yaml")
		must(t, err)
		got := []string{}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "maxUnavailable: ") && line != "maxUnavailable: 0" || strings.HasPrefix(line, "minAvailable: ") {
				got = append(got, line) // the strategy of the Deployment has maxUnavailable: 0
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", values, got, want)
		}
	}
}

// The runtime reaches the internet only if a setting needs it.
func TestNetworkPolicy_UploadsFromAURLOpenPublicAddresses(t *testing.T) {
	t.Parallel()
	// As the runtime reads it.
	for setting, want := range map[string]bool{"true": true, "True": true, "1": true, "yes": true, "false": false, "0": false, "no": false} {
		got, err := render(t, "--set=crds.install=false", "--set-string=settings.SERVICE_FETCH_ENABLED="+setting)
		must(t, err)
		if strings.Contains(got, "cidr: 0.0.0.0/0") != want || !strings.Contains(got, `SERVICE_FETCH_ENABLED: "`+setting+`"`) {
			t.Errorf("SERVICE_FETCH_ENABLED=%s: the public addresses are open: %t", setting, !want)
		}
	}
}

// Webhooks open the public addresses, and the networks of receivers inside of the cluster, only for what the values say.
func TestNetworkPolicy_WebhooksOpenTheirReceivers(t *testing.T) {
	t.Parallel()
	const setting = "--set-string=settings.SERVICE_WEBHOOKS_ALLOW_NETWORKS="
	for name, c := range map[string]struct {
		flags  []string
		public bool
		inside []string
	}{
		"nothing":             {},
		"public receivers":    {flags: []string{"--set=networkPolicy.webhooks=true"}, public: true},
		"no networks":         {flags: []string{setting}},
		"one network":         {flags: []string{setting + "10.1.0.0/16"}, inside: []string{"10.1.0.0/16"}},
		"networks and spaces": {flags: []string{setting + `10.1.0.0/16\, fd00:1::/64\,`}, inside: []string{"10.1.0.0/16", "fd00:1::/64"}},
		"both":                {flags: []string{"--set=networkPolicy.webhooks=true", setting + "10.2.0.0/16"}, public: true, inside: []string{"10.2.0.0/16"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := objects(t, c.flags...)
			public, inside := receivers(t, find(t, all, "NetworkPolicy", "mediastack-runtime"))
			if public != c.public || !slices.Equal(inside, c.inside) {
				t.Errorf("public %t, inside %q", public, inside)
			}
			if public, inside = receivers(t, find(t, all, "NetworkPolicy", "mediastack-operator")); public || inside != nil {
				t.Errorf("the operator sends no webhooks: public %t, inside %q", public, inside)
			}
		})
	}
}

// receivers returns what a policy opens to addresses: whether port 443 of all public ones, and the networks of which it opens every port.
func receivers(t *testing.T, policy *unstructured.Unstructured) (public bool, inside []string) {
	t.Helper()
	var spec networkingv1.NetworkPolicySpec
	object, _, err := unstructured.NestedMap(policy.Object, "spec")
	must(t, err)
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object, &spec))
	for _, rule := range spec.Egress {
		for _, to := range rule.To {
			switch {
			case to.IPBlock == nil:
			case len(rule.Ports) == 0:
				inside = append(inside, to.IPBlock.CIDR)
			case len(rule.Ports) == 1 && rule.Ports[0].Port.IntValue() == 443 && to.IPBlock.CIDR == "0.0.0.0/0" && len(to.IPBlock.Except) > 0:
				public = true
			default:
				if to.IPBlock.CIDR != "::/0" {
					t.Errorf("a rule that no webhook needs: %+v", rule)
				}
			}
		}
	}
	return public, inside
}
