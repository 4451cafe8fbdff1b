// Package charts_test renders the Helm chart, compares it with the kustomizations, installs it
// into a real API server and runs the operator with the permissions that it grants.
package charts_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	release   = "mediastack"
	namespace = "mediastack-system"
)

// required are the values without a default.
var required = []string{"--set=baseURL=https://media.example.org", "--set=s3.endpoint=https://s3.example.org"}

func chart(t testing.TB) string {
	t.Helper()
	return filepath.Join(testenv.RepoRoot(t), "charts", "mediastack")
}

// helm runs Helm with directories of its own, and returns its output, or its error's text.
func helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), testenv.Helm(t), args...)
	cmd.Env = append(cmd.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), errors.New(string(exit.Stderr))
	}
	return string(out), err
}

// render renders the chart with the required values and more arguments.
func render(t testing.TB, args ...string) (string, error) {
	t.Helper()
	return helm(t, append(append([]string{"template", release, chart(t), "--namespace", namespace}, required...), args...)...)
}

// objects returns the rendered objects.
func objects(t testing.TB, args ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := render(t, args...)
	if err != nil {
		t.Fatalf("render the chart with %q: %v", args, err)
	}
	return kubetest.ParseManifests(t, text)
}

// find returns the object of a kind and name.
func find(t testing.TB, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range all {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// Every wrong value is rejected by name, and nothing is rendered.
func TestValues_WrongOnesAreRejected(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--set=baseURL=":                                           "baseURL is not set",
		"--set=baseURL=media.example.org":                          "/baseURL",
		"--set=baseURL=https://media.example.org/path":             "/baseURL",
		"--set=s3.endpoint=":                                       "s3.endpoint is not set",
		"--set=smtp.host=smtp.example.org":                         "smtp.from is not set",
		"--set=httpRoute.enabled=true":                             "httpRoute.parentRefs is empty",
		"--set=s3.endpointKey=Endpoint":                            "networkPolicy.s3.port is not set",
		"--set=unknown=1":                                          "'unknown' not allowed",
		"--set=runtime.replica=3":                                  "'replica' not allowed",
		"--set=runtime.resources.limit.memory=1Gi":                 "'limit' not allowed",
		"--set=runtime.replicas=two":                               "/runtime/replicas",
		"--set=settings.MAX_UPLOADS=1":                             "settings.MAX_UPLOADS: MAX_UPLOADS is not a setting",
		"--set=settings.SERVICE_SMTP_PASSWORD=a":                   "settings.SERVICE_SMTP_PASSWORD: use the value smtp.passwordKey instead",
		"--set=settings.SERVICE_DATABASE_URL=postgres:a":           "settings.SERVICE_DATABASE_URL: use the value database.urlKey instead",
		"--set=settings.SERVICE_BASE_URL=https://a":                "settings.SERVICE_BASE_URL: use the value baseURL instead",
		"--set=settings.SERVICE_LISTEN=:80":                        "settings.SERVICE_LISTEN: the chart sets SERVICE_LISTEN itself",
		"--set=settings.SERVICE_MAX_UPLOAD=1":                      "settings.SERVICE_MAX_UPLOAD: SERVICE_MAX_UPLOAD is not a setting",
		"--set=tls.secretName=media-tls,baseURL=http://a":          "baseURL must begin with https://",
		"--set=s3.credentials=keys":                                "/s3/credentials",
		"--set=watchNamespaces={Team}":                             "/watchNamespaces/0",
		"--set=image.runtime.digest=abc":                           "/image/runtime/digest",
		"--set=topologySpread.minNodes=0":                          "/topologySpread/minNodes",
		"--set=traces.sampleRatio=2":                               "/traces/sampleRatio",
		"--set=traces.sampleRatio=1.5":                             "/traces/sampleRatio",
		"--set=traces.secretName=collector":                        "traces.secretName is set, but traces.endpoint is not",
		"--set=runtime.imageWorkers.count=3":                       "runtime.resources.limits.memory is 2684354560 bytes: it must be at least 3221225472",
		"--set=runtime.resources.limits.memory=2G":                 "it must be at least 2415919104",
		"--set=baseURL=http://192.0.2.1:8080,ingress.enabled=true": "its host 192.0.2.1 is an IP address",
		"--set=baseURL=http://[2001:db8::1]:80,httpRoute.enabled=true,httpRoute.parentRefs[0].name=public": "its host [2001:db8::1] is an IP address",
		"--set=trial.enabled=true,ingress.enabled=true":                                                    "the credentials of the trial stores are public",
		"--set=nameOverride=Media":                                                            "/nameOverride",
		"--set=commonLabels.a=b c":                                                            "/commonLabels/a",
		"--set=commonLabels.app\\.kubernetes\\.io/name=a":                                     "commonLabels: the chart sets the label app.kubernetes.io/name itself",
		"--set=runtime.podLabels.app\\.kubernetes\\.io/component=a":                           "runtime.podLabels: the chart sets the label app.kubernetes.io/component itself",
		"--set=commonAnnotations.helm\\.sh/hook=test":                                         "commonAnnotations: the chart sets the annotation helm.sh/hook itself",
		"--set=extraHosts={files.example.org/a}":                                              "/extraHosts/0",
		"--set=extraObjects[0].kind=ConfigMap":                                                "/extraObjects/0",
		"--set=database.sslMode=on":                                                           "/database/sslMode",
		"--set=trustedCA.configMapName=a,trustedCA.secretName=b":                              "trustedCA: configMapName and secretName are both set",
		"--set=operator.serviceAccount.create=false":                                          "operator.serviceAccount.name is not set",
		"--set=runtime.serviceAccount.name=mediastack-operator":                               "operator.serviceAccount and runtime.serviceAccount have the same name",
		"--set=runtime.extraEnv[0].value=a":                                                   "/runtime/extraEnv/0",
		"--set=runtime.extraEnv[0].name=SERVICE_SECRET":                                       "runtime.extraEnv: SERVICE_SECRET: use the value serverSecret.key instead",
		"--set=runtime.extraEnv[0].name=SERVICE_MAX_UPLOADS":                                  "runtime.extraEnv: SERVICE_MAX_UPLOADS: use the value settings.SERVICE_MAX_UPLOADS instead",
		"--set=runtime.extraEnv[0].name=SERVICE_LISTEN":                                       "runtime.extraEnv: SERVICE_LISTEN: the chart sets it itself",
		"--set=operator.extraEnv[0].name=SERVICE_NO":                                          "operator.extraEnv: SERVICE_NO is not a setting",
		"--set=operator.extraEnv[0].name=PGSSLMODE":                                           "operator.extraEnv: PGSSLMODE: use the value database.sslMode instead",
		"--set=operator.extraVolumes[0].name=tls":                                             "operator.extraVolumes: the chart has a volume tls itself",
		"--set=runtime.extraVolumeMounts[0].name=a":                                           "/runtime/extraVolumeMounts/0",
		"--set=runtime.extraVolumeMounts[0].name=a,runtime.extraVolumeMounts[0].mountPath=/a": "runtime.extraVolumeMounts: runtime.extraVolumes has no volume a",
		"--set=runtime.podDisruptionBudget.maxUnavailable=most":                               "/runtime/podDisruptionBudget/maxUnavailable",
		"--set=runtime.podDisruptionBudget.maxUnavailable=null":                               "runtime.podDisruptionBudget: neither maxUnavailable nor minAvailable is set",
		"--set=runtime.probes.liveness.timeoutSeconds=0":                                      "/runtime/probes/liveness/timeoutSeconds",
		"--set=topologySpread.zones=Always":                                                   "/topologySpread/zones",
		"--set=nodeFailure.tolerationSeconds=-1":                                              "/nodeFailure/tolerationSeconds",
		"--set=service.trafficDistribution=Local":                                             "/service/trafficDistribution",
		"--set=topologySpread.constraints[0].topologyKey=rack":                                "/topologySpread/constraints/0",
		"--set=topologySpread.constraints[0].topologyKey=kubernetes.io/hostname,topologySpread.constraints[0].maxSkew=1,topologySpread.constraints[0].whenUnsatisfiable=ScheduleAnyway": "topologySpread.constraints: the chart has a constraint of kubernetes.io/hostname itself",
		"--set=ingress.controller=apache":         "/ingress/controller",
		"--set=httpRoute.backendTLS.enabled=true": "httpRoute.backendTLS.enabled: httpRoute.enabled is false",
		"--set=httpRoute.backendTLS.enabled=true,httpRoute.enabled=true,httpRoute.parentRefs[0].name=a":         "httpRoute.backendTLS.enabled: tls.secretName is not set",
		"--set=certificate.create=true,certificate.issuerRef.name=a":                                            "certificate.create: neither tls.secretName nor ingress.tlsSecretName is set",
		"--set=certificate.create=true,tls.secretName=a":                                                        "certificate.issuerRef.name is not set",
		"--set=certificate.create=true,certificate.issuerRef.name=a,tls.secretName=a,baseURL=https://192.0.2.1": "the host 192.0.2.1 of baseURL is an IP address",
		"--set=certificate.duration=90d":                                                                        "/certificate/duration",
		"--set=networkPolicy.dns.ports={}":                                                                      "/networkPolicy/dns/ports",
		"--set=monitoring.serviceMonitors=true,monitoring.scrapeTimeout=1m":                                     "monitoring.scrapeTimeout is 1m: it must not be longer than monitoring.interval, 30s",
		"--set=metrics.tls.enabled=true":                                                                        "metrics.tokenSecretName is not set",
		"--set=metrics.tokenSecretName=a":                                                                       "metrics: tls.enabled is false",
		"--set=metrics.tls.issuerRef.name=a":                                                                    "metrics: tls.enabled is false",
		"--set=metrics.tls.readers[0].name=a":                                                                   "/metrics/tls/readers/0",
		"--set=operator.extraVolumes[0].name=metrics-tls":                                                       "operator.extraVolumes: the chart has a volume metrics-tls itself",
		"--set=settings.SERVICE_METRICS_TOKEN_FILE=/a":                                                          "settings.SERVICE_METRICS_TOKEN_FILE: use the value metrics.tokenSecretName instead",
	} {
		if out, err := render(t, args); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Values that others of the same kind are rejected for.
func TestValues_RightOnesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--set=traces.endpoint=http://collector:4318,traces.sampleRatio=0.01", // a string: --set has no fractions
		"--set=runtime.imageWorkers.count=3,runtime.resources.limits.memory=3Gi",
		"--set=runtime.imageWorkers.count=3,runtime.resources.limits.memory=3221225472",
		"--set=runtime.imageWorkers.count=3,settings.SERVICE_IMAGE_ENABLED=false",
		"--set=runtime.imageWorkers.count=3,runtime.resources.limits.memory=null",
		"--set=baseURL=http://[2001:db8::1]:8080",
	} {
		if _, err := render(t, args); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// With --reuse-values Helm renders the chart with the values of the last one: a section that is new
// is missing.
func TestValues_MissingSectionsAreNamed(t *testing.T) {
	t.Parallel()
	values, err := helm(t, "show", "values", chart(t))
	must(t, err)
	for name, value := range kubetest.ParseManifests(t, values)[0].Object {
		if _, section := value.(map[string]any); !section || name == "settings" {
			continue
		}
		if _, err := render(t, "--set="+name+"=null"); err == nil || !strings.Contains(err.Error(), "the values have no section "+name+": ") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for _, name := range []string{"runtime.serviceAccount", "operator.probes", "runtime.probes.startup", "networkPolicy.dns"} {
		if _, err := render(t, "--set="+name+"=null"); err == nil || !strings.Contains(err.Error(), "the values have no section "+name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// The notes have the arithmetic of docs/reference/configuration.md, with the values of the release.
func TestNotes_CountTheConnectionsToPostgreSQL(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"runtime.replicas=5": "PostgreSQL must allow 78 connections: (5 replicas + 1 during a rollout) x (8 + 2),\n2 x 8 for the operator, 2 for the purge.",
		"runtime.autoscaling.enabled=true,runtime.autoscaling.maxReplicas=9,settings.SERVICE_DATABASE_MAX_CONNS=4": "PostgreSQL must allow 70 connections: (9 replicas + 1 during a rollout) x (4 + 2),\n2 x 4 for the operator",
	} {
		out, err := helm(t, append([]string{"install", release, chart(t), "--dry-run=client", "--set=" + values}, required...)...)
		if err != nil || !strings.Contains(out, want) {
			_, notes, _ := strings.Cut(out, "NOTES:")
			t.Errorf("%s: %v%s", values, err, notes)
		}
	}
}

// What pods wait for and nothing makes is named in the notes, so that nobody has to look for it.
func TestNotes_NameWhatIsToBeMadeByHand(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"default":       required,
		"everything":    append(append(slices.Clone(required), renderings["everything"]...), "--set-json=runtime.extraVolumes=[]", "--set-json=runtime.extraVolumeMounts=[]"),
		"trial":         append(slices.Clone(required), "--set=trial.enabled=true"),
		"own authority": append(slices.Clone(required), "--set=trustedCA.secretName=pg-ca"),
		"metrics":       append(slices.Clone(required), "--set=metrics.tls.enabled=true,metrics.tokenSecretName=scrape,tls.secretName=media-tls"),
	} {
		out, err := helm(t, append([]string{"install", release, chart(t), "--namespace", namespace, "--dry-run=client"}, args...)...)
		must(t, err)
		_, manifest, _ := strings.Cut(out, "\nMANIFEST:\n")
		manifest, notes, ok := strings.Cut(manifest, "\nNOTES:\n")
		if !ok {
			t.Fatalf("%s: there are no notes", name)
		}
		made, needed := map[string]bool{}, map[string]bool{}
		for _, object := range kubetest.ParseManifests(t, manifest) {
			switch object.GetKind() {
			case "Secret", "ConfigMap":
				made[object.GetName()] = true
			case "Certificate":
				secret, _, err := unstructured.NestedString(object.Object, "spec", "secretName")
				must(t, err)
				made[secret] = true
			}
			if spec, ok := podSpec(t, object); ok {
				for _, one := range demanded(spec) {
					needed[one] = true
				}
			}
		}
		for one := range needed {
			if !made[one] && !strings.Contains(notes, "\n  "+one+": ") {
				t.Errorf("%s: the notes do not name %s:\n%s", name, one, notes)
			}
		}
		if len(needed) < 1 {
			t.Errorf("%s: the pods need nothing", name)
		}
	}
}

// demanded returns the names of the Secrets and ConfigMaps without which a pod does not start.
func demanded(spec corev1.PodSpec) (all []string) {
	must := func(name string, optional *bool) {
		if optional == nil || !*optional {
			all = append(all, name)
		}
	}
	for _, volume := range spec.Volumes {
		if volume.Secret != nil {
			must(volume.Secret.SecretName, volume.Secret.Optional)
		}
		if volume.ConfigMap != nil {
			must(volume.ConfigMap.Name, volume.ConfigMap.Optional)
		}
	}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, variable := range container.Env {
			if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil {
				must(from.SecretKeyRef.Name, from.SecretKeyRef.Optional)
			}
			if from := variable.ValueFrom; from != nil && from.ConfigMapKeyRef != nil {
				must(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Optional)
			}
		}
		for _, from := range container.EnvFrom {
			if from.SecretRef != nil {
				must(from.SecretRef.Name, from.SecretRef.Optional)
			}
			if from.ConfigMapRef != nil {
				must(from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
			}
		}
	}
	return all
}

// The message about a setting that has its own value names one that exists.
func TestValues_OfSettingsExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(chart(t), "files", "settings.json"))
	must(t, err)
	var settings struct{ ValueOf map[string]string }
	must(t, json.Unmarshal(text, &settings))
	values, err := helm(t, "show", "values", chart(t))
	must(t, err)
	defaults := kubetest.ParseManifests(t, values)[0].Object
	named := 0
	for setting, value := range settings.ValueOf {
		if value == "" {
			continue
		}
		named++
		if _, found, err := unstructured.NestedFieldNoCopy(defaults, strings.Split(value, ".")...); err != nil || !found {
			t.Errorf("%s: there is no value %s", setting, value)
		}
	}
	if named < 20 {
		t.Errorf("%d settings have a value of their own only", named)
	}
}

// passedOn are the values that are maps of the user, or parts of the Kubernetes API.
var passedOn = []string{"affinity", "annotations", "behavior", "commonAnnotations", "commonLabels", "containerSecurityContext", "global", "labels", "limits", "nodeSelector", "podAnnotations", "podLabels", "podSecurityContext", "requests", "serviceAccountAnnotations", "settings"}

// The schema has exactly the values that values.yaml has, and rejects any other.
func TestValues_SchemaIsClosed(t *testing.T) {
	t.Parallel()
	if out, err := helm(t, append([]string{"lint", "--strict", chart(t)}, required...)...); err != nil {
		t.Errorf("lint: %v%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(chart(t), "values.schema.json"))
	must(t, err)
	var schema map[string]any
	must(t, json.Unmarshal(text, &schema))
	definitions, _ := schema["$defs"].(map[string]any)
	var compare func(path string, values, schema map[string]any)
	compare = func(path string, values, schema map[string]any) {
		if name, ok := schema["$ref"].(string); ok {
			schema, _ = definitions[strings.TrimPrefix(name, "#/$defs/")].(map[string]any)
		}
		properties, _ := schema["properties"].(map[string]any)
		if schema["additionalProperties"] != false {
			t.Errorf("%s is open to values that do not exist", path)
		}
		for name, value := range values {
			property, ok := properties[name].(map[string]any)
			if !ok {
				t.Errorf("the schema lacks %s.%s", path, name)
				continue
			}
			if child, ok := value.(map[string]any); ok && !slices.Contains(passedOn, name) {
				compare(path+"."+name, child, property)
			}
		}
		for name := range properties {
			if _, ok := values[name]; !ok && !slices.Contains(passedOn, name) {
				t.Errorf("values.yaml lacks %s.%s", path, name)
			}
		}
	}
	values, err := helm(t, "show", "values", chart(t))
	must(t, err)
	compare("", kubetest.ParseManifests(t, values)[0].Object, schema)
}
