package charts_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

// fullEnv adds the order in which the operator ends first, as `make test-operator` does.
const fullEnv = "MEDIASTACK_TEST_FULL"

// A release that does not keep the definitions deletes every MediaAccount, while the operator still runs or after it. The media
// stays, also that of accounts which a tenant's deletion erases at once: the same accounts are back with their files when the
// release is installed again. Helm itself chooses the order.
func TestUninstall_WithTheDefinitionsLosesNoMedia(t *testing.T) {
	t.Parallel()
	t.Run("the operator gets SIGTERM later", func(t *testing.T) { uninstallWithDefinitions(t, false) })
	if os.Getenv(fullEnv) != "" {
		t.Run("the operator gets SIGTERM at once", func(t *testing.T) { uninstallWithDefinitions(t, true) })
	}
}

func uninstallWithDefinitions(t *testing.T, atOnce bool) {
	t.Helper()
	const team = "team-a"
	plane := kubetest.New(t) // whose definitions are deleted
	c := newCluster(t, plane, namespace)
	for _, object := range kubetest.Manifests(t, "crd/bases") { // of testenv, which Helm would not take over
		must(t, c.Delete(t.Context(), object))
	}
	c.haveDefinitions(false)
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}})
	arguments := append([]string{release, chart(t), "--kubeconfig", plane.Kubeconfig(), "--namespace", namespace, "--set=crds.keep=false,uninstallCheck.enabled=false"}, c.stores()...)
	_, err := helm(t, append([]string{"install"}, arguments...)...)
	must(t, err)
	service := c.start(release)

	items := map[string]string{} // by account
	accounts := map[string]string{}
	objects := func() []*v1alpha1.MediaAccount {
		erased := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "erased-at-once"}}
		erased.Spec.DeletionPolicy, erased.Spec.DeleteAfter = v1alpha1.DeletionDelete, &metav1.Duration{}
		return []*v1alpha1.MediaAccount{erased, {ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "retained"}}}
	}
	for _, object := range objects() {
		c.provisions(object)
		accounts[object.Name] = object.Status.AccountID
		items[object.Name] = c.sealsAFile(service, object)
	}

	if atOnce {
		c.stop()
	}
	_, err = helm(t, "uninstall", release, "--kubeconfig", plane.Kubeconfig(), "--namespace", namespace)
	must(t, err)
	if !atOnce {
		began := time.Now()
		wait.Until(t, "5 s have passed since the uninstallation", func() bool { return time.Since(began) >= 5*time.Second })
		c.stop()
	}

	// An operator that starts finds what the former one left, and releases it; the definitions go with their last object.
	_, err = helm(t, append([]string{"install"}, arguments...)...)
	must(t, err)
	c.start(release)
	c.settles(team)
	_, err = helm(t, append([]string{"upgrade"}, arguments...)...)
	must(t, err)
	c.haveDefinitions(true)
	c.stop()
	service = c.start(release)
	for _, object := range objects() {
		c.provisions(object)
		if object.Status.AccountID != accounts[object.Name] {
			t.Errorf("%s has the account %s, not %s", object.Name, object.Status.AccountID, accounts[object.Name])
		}
		if text := c.calls(service, object, http.MethodGet, "/media/get/"+items[object.Name], ""); !strings.Contains(text, items[object.Name]) {
			t.Errorf("%s: the item is %s", object.Name, text)
		} else if file := c.downloads(service, text); file != "bytes" {
			t.Errorf("%s: the file is %q", object.Name, file)
		}
	}
}

// haveDefinitions waits until the definitions are there, or gone.
func (c *cluster) haveDefinitions(want bool) {
	c.t.Helper()
	wait.Until(c.t, fmt.Sprintf("the definitions exist: %t", want), func() bool {
		for _, kind := range []string{"mediaaccounts", "mediasettings", "mediawebhooks", "retainedmediaaccounts"} {
			if err := c.definition(kind + ".mediastack.dev"); apierrors.IsNotFound(err) == want {
				return false
			}
		}
		return true
	})
}

// settles waits until no MediaAccount and no definition is being deleted.
func (c *cluster) settles(namespace string) {
	c.t.Helper()
	wait.UntilNone(c.t, func() string {
		list := &v1alpha1.MediaAccountList{}
		if err := c.List(c.t.Context(), list, client.InNamespace(namespace)); err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return err.Error()
		}
		if len(list.Items) > 0 {
			return fmt.Sprintf("there are %d MediaAccounts", len(list.Items))
		}
		for _, kind := range []string{"mediaaccounts", "mediasettings", "mediawebhooks"} {
			if definition := c.terminating(kind + ".mediastack.dev"); definition {
				return kind + " is still being deleted"
			}
		}
		return ""
	})
}

// provisions creates a MediaAccount, and waits until it is Ready.
func (c *cluster) provisions(object *v1alpha1.MediaAccount) {
	c.t.Helper()
	wait.UntilNone(c.t, func() string { // the API server serves a new definition some time after it was created
		if err := c.Create(c.t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	})
	wait.UntilNone(c.t, func() string {
		must(c.t, c.Get(c.t.Context(), client.ObjectKeyFromObject(object), object))
		if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Sprintf("%s is not Ready: %+v", object.Name, object.Status.Conditions)
		}
		return ""
	})
}

// calls sends a request with the key of an account, and returns the answer.
func (c *cluster) calls(service string, object *v1alpha1.MediaAccount, method, path, body string, headers ...string) (text string) {
	c.t.Helper()
	secret := &corev1.Secret{}
	must(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: object.Namespace, Name: v1alpha1.SecretName(object.Name, "default")}, secret))
	wait.UntilNone(c.t, func() string { // the runtime knows a new key some time after its Secret has it
		request, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+service+path, strings.NewReader(body))
		must(c.t, err)
		request.Host = "media.test"
		request.Header.Set("x-service-apikey", string(secret.Data["apiKey"]))
		for i := 0; i+1 < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		must(c.t, err)
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		must(c.t, err)
		if text = string(answer); response.StatusCode >= 300 {
			return fmt.Sprintf("%s %s: %d %s", method, path, response.StatusCode, text)
		}
		return ""
	})
	return text
}

// sealsAFile uploads and seals a file of an account, and returns its id.
func (c *cluster) sealsAFile(service string, object *v1alpha1.MediaAccount) (id string) {
	c.t.Helper()
	const form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nbytes\r\n--x--\r\n"
	var created struct {
		ID string `json:"mediaId"`
	}
	must(c.t, json.Unmarshal([]byte(c.calls(service, object, http.MethodPost, "/media/create", form, "Content-Type", "multipart/form-data; boundary=x")), &created))
	c.calls(service, object, http.MethodPost, "/media/seal/"+created.ID, "")
	return created.ID
}

// downloads returns the file of an item's document.
func (c *cluster) downloads(service, document string) string {
	c.t.Helper()
	var item struct{ File string }
	must(c.t, json.Unmarshal([]byte(document), &item))
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, strings.Replace(item.File, "http://media.test", "http://"+service, 1), nil)
	must(c.t, err)
	request.Host = "media.test"
	response, err := http.DefaultClient.Do(request)
	must(c.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(c.t, err)
	return string(text)
}
