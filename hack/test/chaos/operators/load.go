package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/test/chaos/faults"
)

const (
	defaultApp = "default"
	webApp     = "web"
	// retryPause is the pause after a request to an API server that is away.
	retryPause = 200 * time.Millisecond
	// persistTimeout is longer than any outage of the API server.
	persistTimeout = time.Minute
	// resumeLag bounds how long the runtime may deny an account that was resumed: PostgreSQL may
	// be away, and with it the notification.
	resumeLag = 30 * time.Second
)

// worker is a client that changes some of the MediaAccounts and uses their keys.
type worker struct {
	env     *environment
	model   *model
	draw    *rand.Rand
	tenants []*tenant
	http    *http.Client
}

// operation is one thing that clients do with a MediaAccount that is open.
type operation struct {
	name   string
	weight int
	run    func(w *worker, ctx context.Context, t *tenant) error
}

var operations = []operation{
	{"read the keys", 40, (*worker).readKeys},
	{"upload", 14, (*worker).upload},
	{"rotate", 16, (*worker).rotate},
	{"change the apps", 6, (*worker).changeApps},
	{"suspend or resume", 4, (*worker).toggleSuspended},
	{"delete", 14, (*worker).remove},
}

// startLoad starts the clients.
func (e *environment) startLoad(ctx context.Context, m *model, clients int, seed uint64, all *sync.WaitGroup) {
	for n := range clients {
		w := &worker{env: e, model: m, draw: rand.New(rand.NewPCG(seed, uint64(100+n))), http: newHTTP()}
		for i := n; i < len(m.tenants); i += clients {
			w.tenants = append(w.tenants, m.tenants[i])
		}
		all.Go(func() { w.work(ctx) })
	}
}

func newHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
}

// work creates every MediaAccount, and then goes on with a random one.
func (w *worker) work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		t := w.tenants[w.draw.IntN(len(w.tenants))]
		if n < len(w.tenants) {
			t = w.tenants[n]
		}
		w.step(ctx, t)
		faults.Sleep(ctx, faults.Duration(w.draw, 5*time.Millisecond, 60*time.Millisecond))
	}
}

// step does one thing. What it needs from the random source does not depend on answers.
func (w *worker) step(ctx context.Context, t *tenant) {
	next, draw := w.pick(), w.draw
	w.draw = rand.New(rand.NewPCG(draw.Uint64(), 2))
	defer func() { w.draw = draw }()
	name, run := next.name, next.run
	switch t.state {
	case absent, retained:
		name, run = "create", (*worker).create
	case deleting:
		name, run = "look at a deletion", (*worker).awaitGone
	case open:
	}
	switch err := run(w, ctx, t); {
	case err == nil:
		w.model.count(name)
	case ctx.Err() == nil:
		w.model.wrong(t, "%s: %v", name, err)
	}
}

func (w *worker) pick() operation {
	sum := 0
	for _, o := range operations {
		sum += o.weight
	}
	n := w.draw.IntN(sum)
	for _, o := range operations {
		if n -= o.weight; n < 0 {
			return o
		}
	}
	return operations[0]
}

// persist repeats a request until the API server answers it, also when the clients are stopped
// meanwhile: the model must know what became of it.
func persist(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), persistTimeout)
	defer cancel()
	for {
		err := request(ctx)
		if err == nil || ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return err
		}
		faults.Sleep(ctx, retryPause)
	}
}

func (t *tenant) object() *v1alpha1.MediaAccount {
	return &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: t.name}}
}

func (w *worker) create(ctx context.Context, t *tenant) error {
	t.generation, t.suspended, t.web, t.usable, t.keys = 1, false, w.draw.IntN(3) == 0, false, map[string][]string{}
	object := t.object()
	object.Spec.DeletionPolicy, object.Spec.Apps = v1alpha1.DeletionRetain, t.apps()
	err := persist(ctx, func(ctx context.Context) error { return w.env.admin.Create(ctx, object) })
	if err != nil && !apierrors.IsAlreadyExists(err) { // of an attempt that was not answered
		return err
	}
	t.note(w.model, "created, to restore: %t", t.state == retained)
	t.state = open
	return nil
}

func (t *tenant) apps() []v1alpha1.AppSpec {
	if t.web {
		return []v1alpha1.AppSpec{{Name: webApp}}
	}
	return nil
}

// change patches the spec.
func (w *worker) change(ctx context.Context, t *tenant, change func(*v1alpha1.MediaAccountSpec)) error {
	return persist(ctx, func(ctx context.Context) error {
		object := t.object()
		if err := w.env.admin.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		base := object.DeepCopy()
		change(&object.Spec)
		return w.env.admin.Patch(ctx, object, client.MergeFrom(base))
	})
}

func (w *worker) rotate(ctx context.Context, t *tenant) error {
	overlap := metav1.Duration{Duration: time.Hour}
	if w.draw.IntN(3) == 0 {
		overlap.Duration, t.keys = 0, map[string][]string{}
	}
	t.generation++
	t.note(w.model, "rotate to generation %d, overlap %s", t.generation, overlap.Duration)
	return w.change(ctx, t, func(spec *v1alpha1.MediaAccountSpec) {
		spec.APIKeys.Generation, spec.APIKeys.Overlap = t.generation, &overlap
	})
}

func (w *worker) changeApps(ctx context.Context, t *tenant) error {
	t.web = !t.web
	delete(t.keys, webApp)
	t.note(w.model, "app web: %t", t.web)
	return w.change(ctx, t, func(spec *v1alpha1.MediaAccountSpec) { spec.Apps = t.apps() })
}

func (w *worker) toggleSuspended(ctx context.Context, t *tenant) error {
	t.suspended, t.usable = !t.suspended, false
	t.note(w.model, "suspended: %t", t.suspended)
	return w.change(ctx, t, func(spec *v1alpha1.MediaAccountSpec) { spec.Suspended = t.suspended })
}

// remove deletes the MediaAccount: mostly its account is retained, sometimes erased.
func (w *worker) remove(ctx context.Context, t *tenant) error {
	policy := v1alpha1.DeletionRetain
	t.erases = w.draw.IntN(3) == 0
	if t.erases {
		policy = v1alpha1.DeletionDelete
	}
	t.usable, t.keys = false, map[string][]string{}
	if err := w.change(ctx, t, func(spec *v1alpha1.MediaAccountSpec) {
		spec.DeletionPolicy, spec.DeleteAfter = policy, &metav1.Duration{}
	}); err != nil {
		return err
	}
	object := t.object()
	if err := persist(ctx, func(ctx context.Context) error {
		return w.env.admin.Get(ctx, client.ObjectKeyFromObject(object), object)
	}); err != nil {
		return err
	}
	if t.erases && object.Status.AccountID == "" {
		t.note(w.model, "deleted, perhaps before it had its account")
		t.forget()
	}
	err := persist(ctx, func(ctx context.Context) error { return w.env.admin.Delete(ctx, object) })
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	t.note(w.model, "delete with policy %s", policy)
	t.state = deleting
	return nil
}

// awaitGone looks whether a deletion has completed.
func (w *worker) awaitGone(ctx context.Context, t *tenant) error {
	object := t.object()
	err := persist(ctx, func(ctx context.Context) error {
		return w.env.admin.Get(ctx, client.ObjectKeyFromObject(object), object)
	})
	if !apierrors.IsNotFound(err) {
		return err
	}
	t.note(w.model, "the object is gone")
	if !t.erases {
		t.state = retained
		w.model.count("retained")
		return nil
	}
	t.state = absent
	w.model.count("erased")
	if t.accountID != "" {
		w.model.erase(t.accountID, t.name)
	}
	t.forget()
	return nil
}

// ready returns the object if this generation of it is Ready.
func (w *worker) ready(ctx context.Context, t *tenant) (*v1alpha1.MediaAccount, error) {
	object := t.object()
	err := persist(ctx, func(ctx context.Context) error {
		return w.env.admin.Get(ctx, client.ObjectKeyFromObject(object), object)
	})
	if err != nil || object.Status.ObservedGeneration != object.Generation || !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady) {
		return nil, err
	}
	return object, nil
}

// readKeys reads the Secrets of a MediaAccount that is Ready: its keys, and those that it had
// before, must work from now on.
func (w *worker) readKeys(ctx context.Context, t *tenant) error {
	object, err := w.ready(ctx, t)
	if err != nil || object == nil {
		return err
	}
	w.identify(t, object)
	for _, spec := range append([]v1alpha1.AppSpec{{Name: defaultApp}}, t.apps()...) {
		app := spec.Name
		secret := &corev1.Secret{}
		err := persist(ctx, func(ctx context.Context) error {
			return w.env.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.SecretName(t.name, app)}, secret)
		})
		if err != nil {
			return fmt.Errorf("it is Ready, but the Secret of app %s: %w", app, err)
		}
		key := string(secret.Data[v1alpha1.SecretAPIKey])
		if !slices.Contains(t.keys[app], key) {
			t.keys[app] = append(t.keys[app], key)
			t.note(w.model, "read key %s... of app %s", key[:min(len(key), 10)], app)
		}
	}
	t.usable = !t.suspended
	w.checkKeys(ctx, t)
	return nil
}

// identify compares the account with the one that the MediaAccount had before.
func (w *worker) identify(t *tenant, object *v1alpha1.MediaAccount) {
	id := object.Status.AccountID
	switch {
	case w.model.wasErased(id):
		w.model.wrong(t, "it is Ready with account %s, which was erased", id)
	case t.accountID != "" && t.accountID != id:
		w.model.wrong(t, "it is Ready with account %s, and had account %s", id, t.accountID)
	case t.accountID == "":
		t.note(w.model, "account %s", id)
	}
	t.accountID = id
}

// checkKeys uses every key that must work.
func (w *worker) checkKeys(ctx context.Context, t *tenant) {
	if !t.usable {
		return
	}
	since := time.Now()
	for app, keys := range t.keys {
		for _, key := range keys {
			got := w.ask(ctx, key, http.MethodGet, "/media/get/count", nil, "")
			for got.Status == http.StatusForbidden && time.Since(since) < resumeLag && ctx.Err() == nil {
				faults.Sleep(ctx, retryPause)
				got = w.ask(ctx, key, http.MethodGet, "/media/get/count", nil, "")
			}
			switch {
			case got.Status == http.StatusOK:
				w.model.count("keys accepted")
			case got.Status >= 400 && got.Status < 500 && ctx.Err() == nil:
				w.model.wrong(t, "key %s... of app %s must work, and was answered %d %s", key[:min(len(key), 10)], app, got.Status, got.Body)
			}
		}
	}
}

// ask sends a request to the runtime; the status is 0 when it did not answer.
func (w *worker) ask(ctx context.Context, key, method, path string, body []byte, contentType string) exchange.Answer {
	got, err := exchange.Send(context.WithoutCancel(ctx), w.http, method, w.env.runtime.BaseURL+path, bytes.NewReader(body), "x-service-apikey", key, "Content-Type", contentType)
	if err != nil {
		return exchange.Answer{}
	}
	return got
}

// upload uploads a small file and seals it. What was acknowledged must come back with the account.
func (w *worker) upload(ctx context.Context, t *tenant) error {
	if !t.usable || len(t.keys[defaultApp]) == 0 {
		return nil
	}
	key := t.keys[defaultApp][len(t.keys[defaultApp])-1]
	form, contentType := exchange.Form("note.txt", fmt.Appendf(nil, "a note of %s, %d", t.name, w.draw.Uint64()))
	made := w.ask(ctx, key, http.MethodPost, "/media/create", form, contentType)
	var document struct {
		MediaID string `json:"mediaId"`
	}
	if made.Status != http.StatusCreated || json.Unmarshal(made.Body, &document) != nil {
		return nil // an outage
	}
	if sealed := w.ask(ctx, key, http.MethodPost, "/media/seal/"+document.MediaID, nil, ""); sealed.Status == http.StatusOK {
		t.items = append(t.items, document.MediaID)
		t.note(w.model, "sealed item %s", document.MediaID)
		w.model.count("items sealed")
	}
	return nil
}
