package charts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
)

var (
	tryBlock = regexp.MustCompile("(?ms)^```sh TestTry_TheCommandsFitTheChartAndTheRelease\n(.*?)^```$")
	loading  = regexp.MustCompile(`mediastack-\$name-(v[0-9.]+)-linux-(?:amd64|arm64)\.tar`)
)

// tryCommands returns the lines of the commands of try-on-kind.md.
func tryCommands(t *testing.T) (page string, lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "guides", "try-on-kind.md"))
	must(t, err)
	for _, block := range tryBlock.FindAllStringSubmatch(string(text), -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	return string(text), lines
}

// line returns the one line that begins so.
func line(t *testing.T, lines []string, prefix string) string {
	t.Helper()
	var found []string
	for _, one := range lines {
		if strings.HasPrefix(strings.TrimSpace(one), prefix) {
			found = append(found, strings.TrimSpace(one))
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d lines begin with %q: %q", len(found), prefix, found)
	}
	return found[0]
}

// kind and minikube cannot be had here. What their commands name must be what a release and the chart have.
func TestTry_TheCommandsFitTheChartAndTheRelease(t *testing.T) {
	t.Parallel()
	page, lines := tryCommands(t)
	for _, one := range lines {
		program := strings.Fields(one)[0]
		if !slices.Contains([]string{"kind", "minikube", "helm", "kubectl", "curl", "echo", "eval", "for", "done"}, program) {
			t.Errorf("the page runs %s, which it does not say to have", program)
		}
	}

	// Both load the archives of the images of the version whose chart is installed.
	install := strings.Fields(line(t, lines, "helm install "))
	version := "v" + strings.TrimSuffix(strings.TrimPrefix(install[3], "mediastack-"), ".tgz")
	for _, prefix := range []string{"kind load image-archive ", "minikube image load "} {
		if match := loading.FindStringSubmatch(line(t, lines, prefix)); match == nil || match[1] != version {
			t.Errorf("%q does not load the images of %s", line(t, lines, prefix), version)
		}
	}
	loaded := map[string]bool{}
	for _, one := range lines {
		if names, ok := strings.CutPrefix(one, "for name in "); ok {
			names, _, _ = strings.Cut(names, ";")
			for name := range strings.FieldsSeq(names) {
				loaded["mediastack/"+name+":devel"] = true
			}
		}
	}

	args := install[2:]
	if args[0] != "mediastack" {
		t.Fatalf("the release is called %s", args[0])
	}
	// The flags of helm install alone are left out.
	var rest []string
	for i := 2; i < len(args); i++ {
		switch args[i] {
		case "--create-namespace", "--wait":
		case "--timeout":
			i++
		case "--values":
			i++
			rest = append(rest, "--values", filepath.Join(testenv.RepoRoot(t), "docs", "examples", "clusters", args[i]))
		default:
			rest = append(rest, args[i])
		}
	}
	out, err := helm(t, append([]string{"template", args[0], chart(t)}, rest...)...)
	must(t, err)
	all := kubetest.ParseManifests(t, out)
	pods := 0
	for _, object := range all {
		if object.GetKind() != "Deployment" {
			continue
		}
		pods++
		var deployment appsv1.Deployment
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment))
		if *deployment.Spec.Replicas != 1 {
			t.Errorf("%s has %d replicas on one node", object.GetName(), *deployment.Spec.Replicas)
		}
		for _, container := range slices.Concat(deployment.Spec.Template.Spec.InitContainers, deployment.Spec.Template.Spec.Containers) {
			checkTryImage(t, page, object.GetName(), container, loaded)
		}
	}
	if pods != 4 {
		t.Errorf("there are %d Deployments, not operator, runtime and two stores", pods)
	}

	forward := strings.Fields(line(t, lines, "kubectl -n mediastack-system port-forward "))
	service := find(t, all, "Service", strings.TrimPrefix(forward[4], "svc/"))
	local, remote, _ := strings.Cut(forward[5], ":")
	var typed corev1.Service
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(service.Object, &typed))
	if typed.Namespace != forward[2] || len(typed.Spec.Ports) != 1 || remote != "80" || typed.Spec.Ports[0].Port != 80 {
		t.Errorf("%q leads to %s/%s with the ports %v", forward, typed.Namespace, typed.Name, typed.Spec.Ports)
	}
	if settings := find(t, all, "ConfigMap", "mediastack"); !strings.Contains(settings.Object["data"].(map[string]any)["SERVICE_BASE_URL"].(string), "://localhost:"+local) {
		t.Errorf("the base URL is not that of the forwarded port %s: %v", local, settings.Object["data"])
	}
}

// checkTryImage checks that an image is on the node, or can be downloaded to it and is named on the page.
func checkTryImage(t *testing.T, page, name string, container corev1.Container, loaded map[string]bool) {
	t.Helper()
	switch {
	case loaded[container.Image]:
		// With Always the kubelet would ask a registry, which does not have it.
		if container.ImagePullPolicy == corev1.PullAlways {
			t.Errorf("%s: the image %s is loaded, and pulled always", name, container.Image)
		}
	case !strings.Contains(page, "`"+container.Image+"`"):
		t.Errorf("%s: the page neither loads nor names the image %s", name, container.Image)
	case container.ImagePullPolicy == corev1.PullNever:
		t.Errorf("%s: nothing loads the image %s, and it is never pulled", name, container.Image)
	}
}

// The commands of the first file are those that another page has and a test runs.
func TestTry_TheFirstFileIsThatOfTheFirstTenant(t *testing.T) {
	t.Parallel()
	_, lines := tryCommands(t)
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "guides", "first-tenant.md"))
	must(t, err)
	from := slices.Index(lines, "kubectl create namespace first-tenant")
	if from < 0 || !strings.Contains(string(text), "```sh TestGuides_RunOnADevelopmentStack\n"+strings.Join(lines[from:from+5], "\n")+"\n```") {
		t.Errorf("they are not the five commands of first-tenant.md: %q", lines)
	}
}
