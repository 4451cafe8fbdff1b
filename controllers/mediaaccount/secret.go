package mediaaccount

import (
	"bytes"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
)

// Actions that decide chooses from.
const (
	keep   action = iota // the Secret carries the current key and looks as it should
	mend                 // it carries the current key, but something else differs
	issue                // a new key is needed
	refuse               // a Secret of that name is somebody else's
)

type action int

// decision is what to do about the key of one app.
type decision struct {
	action  action
	overlap time.Duration // of issue: how long older keys stay valid
	event   string        // of issue: the event's reason
	why     string        // of issue: for the event
}

// wanted is the Secret that an app should have.
type wanted struct {
	object     *v1alpha1.MediaAccount
	app        account.App
	name       string
	generation int64
	overlap    time.Duration
	data       map[string]string // all but the key
}

// wanted says what the Secret of app should be.
func (r *Reconciler) wanted(run *run, app account.App) wanted {
	want := wanted{
		object: run.object, app: app, name: v1alpha1.SecretName(run.object.Name, app.Name),
		generation: max(run.object.Spec.APIKeys.Generation, 1),
		overlap:    24 * time.Hour,
		data: map[string]string{
			v1alpha1.SecretBaseURL:   r.config.BaseURL,
			v1alpha1.SecretMCPURL:    r.mcpURL(),
			v1alpha1.SecretAccountID: run.account.ID.String(),
			v1alpha1.SecretApp:       app.Name,
		},
	}
	if overlap := run.object.Spec.APIKeys.Overlap; overlap != nil {
		want.overlap = overlap.Duration
	}
	return want
}

// decide chooses what to do about the key of one app. keys are its valid keys, the
// current one first; have is the Secret of that name, nil when there is none.
func decide(want wanted, have *corev1.Secret, keys []account.Key) decision {
	switch {
	case have != nil && !want.owns(have):
		return decision{action: refuse}
	case len(keys) == 0:
		return decision{action: issue, event: "KeyIssued", why: "it had none"}
	case have == nil:
		return decision{action: issue, event: "KeyReplaced", why: "its Secret was missing; the old key stopped"}
	}
	switch held := holds(have, keys); {
	case held < 0:
		return decision{action: issue, event: "KeyReplaced", why: "its Secret carried no valid key; the old key stopped"}
	case held > 0:
		// A rotation ended between the key's row and the Secret: clients still use the
		// older key, and nobody has the newer one.
		return decision{action: issue, overlap: want.overlap, event: "KeyRotated", why: "an interrupted rotation"}
	case keys[0].Generation < want.generation:
		return decision{action: issue, overlap: want.overlap, event: "KeyRotated", why: "spec.apiKeys.generation was raised"}
	case want.differs(have):
		return decision{action: mend}
	}
	return decision{action: keep}
}

// holds returns the index of the key that the Secret carries, -1 when it is none of them.
func holds(secret *corev1.Secret, keys []account.Key) int {
	token, ok := account.ParseToken(string(secret.Data[v1alpha1.SecretAPIKey]))
	if !ok {
		return -1
	}
	hash := token.Hash()
	return slices.IndexFunc(keys, func(key account.Key) bool { return key.Hash.Equal(hash) })
}

// owns reports whether a Secret of the wanted name is this account's to write: this
// object controls it, or one of this name did (it was restored from a backup), or
// nobody does and the label names this account.
func (w wanted) owns(secret *corev1.Secret) bool {
	owner := metav1.GetControllerOf(secret)
	if owner == nil {
		return secret.Labels[v1alpha1.LabelAccount] == w.object.Name
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return owner.UID == w.object.UID ||
		err == nil && group.Group == v1alpha1.GroupVersion.Group && owner.Kind == "MediaAccount" && owner.Name == w.object.Name
}

// differs reports whether anything but the key is not as it should be. Labels,
// annotations and data that others added are theirs to keep.
func (w wanted) differs(secret *corev1.Secret) bool {
	owner := metav1.GetControllerOf(secret)
	if owner == nil || owner.UID != w.object.UID {
		return true
	}
	for name, value := range w.labels() {
		if secret.Labels[name] != value {
			return true
		}
	}
	for name, value := range w.data {
		if string(secret.Data[name]) != value {
			return true
		}
	}
	return false
}

func (w wanted) labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelAccount:          w.object.Name,
		v1alpha1.LabelApp:              w.app.Name,
		"app.kubernetes.io/managed-by": "mediastack-operator",
	}
}

// secret returns the Secret to write, on the base of the one that is there, if any.
func (w wanted) secret(have *corev1.Secret, key string) *corev1.Secret {
	next := &corev1.Secret{Type: corev1.SecretTypeOpaque}
	if have != nil {
		next = have.DeepCopy()
	}
	next.Namespace, next.Name = w.object.Namespace, w.name
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	maps.Copy(next.Labels, w.labels())
	next.OwnerReferences = slices.DeleteFunc(next.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Controller != nil && *owner.Controller || owner.UID == w.object.UID
	})
	yes := true
	next.OwnerReferences = append(next.OwnerReferences, metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "MediaAccount",
		Name: w.object.Name, UID: w.object.UID, Controller: &yes,
	})
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	for name, value := range w.data {
		next.Data[name] = []byte(value)
	}
	next.Data[v1alpha1.SecretAPIKey] = []byte(key)
	return next
}

// secretDrift lets through what may need mending: a Secret that went, that lost its
// label (which the watch shows as a deletion), or that changed. One that appears is
// this controller's own work, or is found on the next look.
func secretDrift() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1.Secret)
			after, ok2 := e.ObjectNew.(*corev1.Secret)
			return !ok1 || !ok2 || !maps.EqualFunc(before.Data, after.Data, bytes.Equal) ||
				!maps.Equal(before.Labels, after.Labels) || !slices.EqualFunc(before.OwnerReferences, after.OwnerReferences, sameOwner)
		},
	}
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind
}
