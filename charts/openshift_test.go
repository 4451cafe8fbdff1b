package charts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"mediastack.dev/hack/testenv/kubetest"
)

// The users and groups that OpenShift gives a namespace, in its annotations openshift.io/sa.scc.uid-range and
// openshift.io/sa.scc.supplemental-groups.
const (
	firstID = 1_000_680_000
	lastID  = firstID + 9_999
)

// restrictedV2 returns what the SecurityContextConstraints restricted-v2 of OpenShift 4.11 and later reject in a pod,
// before they fill in what the pod leaves open: host features, users and groups outside of the namespace's range, any
// capability but NET_BIND_SERVICE, other seccomp profiles, SELinux options, and other kinds of volumes.
func restrictedV2(spec corev1.PodSpec) (rejected []string) {
	reject := func(format string, args ...any) { rejected = append(rejected, fmt.Sprintf(format, args...)) }
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		reject("the pod uses a namespace of the host")
	}
	inRange := func(what string, id *int64) {
		if id != nil && (*id < firstID || *id > lastID) {
			reject("%s %d is not in the range of the namespace", what, *id)
		}
	}
	profile := func(profile *corev1.SeccompProfile) {
		if profile != nil && profile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			reject("the seccomp profile %s", profile.Type)
		}
	}
	if pod := spec.SecurityContext; pod != nil {
		inRange("the user", pod.RunAsUser)
		inRange("the group of volumes", pod.FSGroup)
		profile(pod.SeccompProfile)
		if pod.SELinuxOptions != nil {
			reject("the pod has SELinux options")
		}
		if len(pod.Sysctls) > 0 {
			reject("the pod has sysctls")
		}
	}
	for _, volume := range spec.Volumes {
		source := volume.VolumeSource
		if source.ConfigMap == nil && source.Secret == nil && source.EmptyDir == nil && source.Projected == nil && source.DownwardAPI == nil &&
			source.PersistentVolumeClaim == nil && source.CSI == nil && source.Ephemeral == nil {
			reject("the kind of the volume %s", volume.Name)
		}
	}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, port := range container.Ports {
			if port.HostPort != 0 {
				reject("%s has a port of the host", container.Name)
			}
		}
		context := container.SecurityContext
		if context == nil {
			continue // filled in
		}
		inRange("the user", context.RunAsUser)
		profile(context.SeccompProfile)
		if ptr.Deref(context.Privileged, false) || ptr.Deref(context.AllowPrivilegeEscalation, false) {
			reject("%s is privileged", container.Name)
		}
		if context.SELinuxOptions != nil {
			reject("%s has SELinux options", container.Name)
		}
		for _, capability := range ptr.Deref(context.Capabilities, corev1.Capabilities{}).Add {
			if capability != "NET_BIND_SERVICE" {
				reject("%s adds the capability %s", container.Name, capability)
			}
		}
	}
	return rejected
}

// podsOf returns the pods of a rendering by the names of their objects.
func podsOf(t *testing.T, text string) map[string]corev1.PodSpec {
	t.Helper()
	pods := map[string]corev1.PodSpec{}
	for _, object := range kubetest.ParseManifests(t, text) {
		if spec, ok := podSpec(t, object); ok {
			pods[object.GetName()] = spec
		}
	}
	return pods
}

// With the values for OpenShift no pod asks for more than what every user of a cluster may have, also with the trial stores.
func TestOpenShift_RestrictedV2AdmitsThePods(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--set=trial.enabled=true,ingress.enabled=false"}} {
		text, err := template(t, release, namespace, valuesFor(t, "openshift", args...)...)
		must(t, err)
		pods := podsOf(t, text)
		if len(pods) < 5 {
			t.Errorf("%q: there are %d pods only", args, len(pods))
		}
		for name, spec := range pods {
			if rejected := restrictedV2(spec); rejected != nil {
				t.Errorf("%q: %s: %s", args, name, strings.Join(rejected, "; "))
			}
			if spec.SecurityContext.RunAsUser != nil || !ptr.Deref(spec.SecurityContext.RunAsNonRoot, false) {
				t.Errorf("%q: %s: the security context is %v", args, name, spec.SecurityContext)
			}
		}
	}
}

// The policy of the test rejects what OpenShift rejects: the default values with their fixed user, and each other feature.
func TestOpenShift_RestrictedV2RejectsFixedUsersAndMore(t *testing.T) {
	t.Parallel()
	text, err := template(t, release, namespace, required...)
	must(t, err)
	for name, spec := range podsOf(t, text) {
		if rejected := restrictedV2(spec); !slices.Contains(rejected, "the user 65532 is not in the range of the namespace") {
			t.Errorf("%s with the default values: %q", name, rejected)
		}
	}
	for values, want := range map[string]string{
		"podSecurityContext.fsGroup=1":                                           "the group of volumes 1",
		"podSecurityContext.seccompProfile.type=Unconfined":                      "the seccomp profile Unconfined",
		"podSecurityContext.seLinuxOptions.level=s0":                             "the pod has SELinux options",
		"containerSecurityContext.privileged=true":                               "runtime is privileged",
		"containerSecurityContext.allowPrivilegeEscalation=true":                 "runtime is privileged",
		"containerSecurityContext.runAsUser=0":                                   "the user 0",
		"containerSecurityContext.capabilities.add={SYS_ADMIN}":                  "adds the capability SYS_ADMIN",
		"runtime.extraVolumes[0].name=a,runtime.extraVolumes[0].hostPath.path=/": "the kind of the volume a",
	} {
		text, err := template(t, release, namespace, valuesFor(t, "openshift", "--set="+values)...)
		must(t, err)
		if rejected := strings.Join(restrictedV2(podsOf(t, text)["mediastack-runtime"]), "; "); !strings.Contains(rejected, want) {
			t.Errorf("%s: %q, want %q", values, rejected, want)
		}
	}
}
