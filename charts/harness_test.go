package charts_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

// cluster is a control plane that a test installs the chart into. Nothing runs pods: the test
// starts the shipped programs with the environment of the containers and the rights of their
// service accounts.
type cluster struct {
	client.Client // of a cluster admin
	t             *testing.T
	plane         *kubetest.ControlPlane
	namespace     string
	// processes are those of the last start, the operator last.
	processes []*testenv.Process
}

func newCluster(t *testing.T, plane *kubetest.ControlPlane, namespace string) *cluster {
	t.Helper()
	c := &cluster{t: t, plane: plane, namespace: namespace}
	c.Client = c.as(plane.Kubeconfig())
	// A test that runs again finds its namespace in the shared control plane.
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}})))
	return c
}

// as returns a client with the rights of a kubeconfig.
func (c *cluster) as(kubeconfig string) client.Client {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(c.t, err)
	scheme := runtime.NewScheme()
	must(c.t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	kube, err := client.New(config, client.Options{Scheme: scheme})
	must(c.t, err)
	return kube
}

func (c *cluster) create(all ...client.Object) {
	c.t.Helper()
	for _, object := range all {
		must(c.t, c.Create(c.t.Context(), object))
	}
}

// secret creates a Secret.
func (c *cluster) secret(namespace, name string, data map[string]string) {
	c.t.Helper()
	c.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data})
}

// pod returns the pod template of a workload of the release.
func (c *cluster) pod(workload client.Object, name string) corev1.PodSpec {
	c.t.Helper()
	must(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, workload))
	switch workload := workload.(type) {
	case *appsv1.Deployment:
		return workload.Spec.Template.Spec
	case *batchv1.CronJob:
		return workload.Spec.JobTemplate.Spec.Template.Spec
	case *batchv1.Job:
		return workload.Spec.Template.Spec
	}
	c.t.Fatalf("%T has no pods", workload)
	return corev1.PodSpec{}
}

// environment returns the environment that the kubelet would give a container.
func (c *cluster) environment(container corev1.Container) (all []string) {
	c.t.Helper()
	for _, source := range container.EnvFrom {
		settings := &corev1.ConfigMap{}
		must(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: source.ConfigMapRef.Name}, settings))
		for name, value := range settings.Data {
			all = append(all, name+"="+value)
		}
	}
	for _, variable := range container.Env {
		value := variable.Value
		switch from := variable.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace":
			value = c.namespace
		case from.SecretKeyRef != nil:
			secret := &corev1.Secret{}
			err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: from.SecretKeyRef.Name}, secret)
			bytes, found := secret.Data[from.SecretKeyRef.Key]
			optional := from.SecretKeyRef.Optional != nil && *from.SecretKeyRef.Optional
			if (err != nil || !found) && optional {
				continue
			}
			must(c.t, err)
			if !found {
				c.t.Fatalf("%s: Secret %s has no key %s", variable.Name, from.SecretKeyRef.Name, from.SecretKeyRef.Key)
			}
			value = string(bytes)
		default:
			c.t.Fatalf("%s has a source that the test does not know", variable.Name)
		}
		all = append(all, variable.Name+"="+value)
	}
	return all
}

// command runs the program of a container to its end, and returns its exit code and output.
func (c *cluster) command(program string, container corev1.Container, env ...string) (int, string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Binary(c.t, program), container.Args...)
	cmd.Env = append(c.environment(container), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// start runs the migration, the operator and the runtime of a release, until the test ends. It
// returns the address of the runtime.
func (c *cluster) start(fullname string) (service string) {
	c.t.Helper()
	runtimePod := c.pod(&appsv1.Deployment{}, fullname+"-runtime")
	if code, out := c.command("mediastack-runtime", runtimePod.InitContainers[0]); code != 0 {
		c.t.Fatalf("migrate exits with %d: %s", code, out)
	}
	group, dir := testenv.Group(c.t), testenv.TempDir(c.t)
	address := func() string { return "127.0.0.1:" + strconv.Itoa(testenv.FreePort(c.t)) }
	service = address()
	admin, health := address(), address()
	c.processes = nil
	serving, err := group.Start(c.t.Context(), testenv.Spec{
		Name: "runtime", Path: testenv.Binary(c.t, "mediastack-runtime"), Args: runtimePod.Containers[0].Args, LogFile: filepath.Join(dir, "runtime.log"),
		Env:   append(c.environment(runtimePod.Containers[0]), "SERVICE_LISTEN="+service, "SERVICE_ADMIN_LISTEN="+admin, "SERVICE_DRAIN_DELAY=0s"),
		Ready: testenv.Answers("http://" + admin + "/readyz"),
	})
	must(c.t, err)
	operator := c.pod(&appsv1.Deployment{}, fullname+"-operator")
	managing, err := group.Start(c.t.Context(), testenv.Spec{
		Name: "operator", Path: testenv.Binary(c.t, "mediastack-operator"), Args: operator.Containers[0].Args, LogFile: filepath.Join(dir, "operator.log"),
		Env:   append(c.environment(operator.Containers[0]), "KUBECONFIG="+c.plane.ServiceAccountKubeconfig(c.namespace, operator.ServiceAccountName), "SERVICE_METRICS_LISTEN=0", "SERVICE_HEALTH_LISTEN="+health),
		Ready: testenv.Answers("http://" + health + "/readyz"),
	})
	must(c.t, err)
	c.processes = []*testenv.Process{serving, managing}
	return service
}

// stop ends the processes of the last start, as the kubelet does: it sends SIGTERM to all of them.
func (c *cluster) stop() {
	for _, process := range c.processes {
		process.Stop()
	}
	c.processes = nil
}

// ready creates a MediaAccount and returns when it is Ready.
func (c *cluster) ready(namespace, name string) *v1alpha1.MediaAccount {
	c.t.Helper()
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.create(object)
	wait.Until(c.t, "the MediaAccount is Ready", func() bool {
		must(c.t, c.Get(c.t.Context(), client.ObjectKeyFromObject(object), object))
		for _, condition := range object.Status.Conditions {
			if condition.Type == "Ready" {
				return condition.Status == metav1.ConditionTrue
			}
		}
		return false
	})
	return object
}

var must = check.NoError
