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

type action int

// Actions that planSecret chooses from.
const (
	actionNone     action = iota // the Secret holds the current key and matches what is desired
	actionUpdate                 // it holds the current key, but something else differs
	actionIssueKey               // a new key is needed
	actionReject                 // a Secret of that name belongs to something else
)

// secretPlan is what to do about the Secret and the key of one app.
type secretPlan struct {
	action  action
	overlap time.Duration // actionIssueKey: how long older keys stay valid
	event   string        // actionIssueKey: the event's reason
	reason  string        // actionIssueKey: for the event's message
}

// desiredSecret is the Secret that an app should have.
type desiredSecret struct {
	object     *v1alpha1.MediaAccount
	app        account.App
	name       string
	generation int64
	overlap    time.Duration
	data       map[string]string // without the key
}

// desiredSecret returns the Secret that app should have.
func (r *Reconciler) desiredSecret(s *scope, app account.App) desiredSecret {
	want := desiredSecret{
		object: s.Object, app: app, name: v1alpha1.SecretName(s.Object.Name, app.Name),
		generation: max(s.Object.Spec.APIKeys.Generation, 1),
		overlap:    24 * time.Hour,
		data: map[string]string{
			v1alpha1.SecretBaseURL:   r.config.BaseURL,
			v1alpha1.SecretMCPURL:    r.mcpURL(),
			v1alpha1.SecretAccountID: s.account.ID.String(),
			v1alpha1.SecretApp:       app.Name,
		},
	}
	if overlap := s.Object.Spec.APIKeys.Overlap; overlap != nil {
		want.overlap = overlap.Duration
	}
	return want
}

// planSecret decides what to do about the Secret and the key of one app. keys are its valid
// keys, the current one first; existing is the Secret of that name, nil when there is none.
func planSecret(want desiredSecret, existing *corev1.Secret, keys []account.Key) secretPlan {
	switch {
	case existing != nil && !want.owns(existing):
		return secretPlan{action: actionReject}
	case len(keys) == 0:
		return secretPlan{action: actionIssueKey, event: "KeyIssued", reason: "no key existed"}
	case existing == nil:
		return secretPlan{action: actionIssueKey, event: "KeyReplaced", reason: "Secret was missing; previous key revoked"}
	}
	switch index := keyIndex(existing, keys); {
	case index < 0:
		return secretPlan{action: actionIssueKey, event: "KeyReplaced", reason: "Secret held no valid key; previous key revoked"}
	case index > 0:
		// A rotation was interrupted after the key's row was written: clients still use the
		// older key, and the newer one is lost.
		return secretPlan{action: actionIssueKey, overlap: want.overlap, event: "KeyRotated", reason: "interrupted rotation"}
	case keys[0].Generation < want.generation:
		return secretPlan{action: actionIssueKey, overlap: want.overlap, event: "KeyRotated", reason: "spec.apiKeys.generation was raised"}
	case want.differs(existing):
		return secretPlan{action: actionUpdate}
	}
	return secretPlan{action: actionNone}
}

// keyIndex returns the index of the key that the Secret holds, or -1 when it is none of keys.
func keyIndex(secret *corev1.Secret, keys []account.Key) int {
	token, ok := account.ParseKeySecret(string(secret.Data[v1alpha1.SecretAPIKey]))
	if !ok {
		return -1
	}
	hash := token.Hash()
	return slices.IndexFunc(keys, func(key account.Key) bool { return key.Hash.Equal(hash) })
}

// owns reports whether the operator may write a Secret of the desired name: this object
// controls it, or an object of this name did (it was restored from a backup), or it has no
// controller and the label names this account.
func (d desiredSecret) owns(secret *corev1.Secret) bool {
	owner := metav1.GetControllerOf(secret)
	if owner == nil {
		return secret.Labels[v1alpha1.LabelAccount] == d.object.Name
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return owner.UID == d.object.UID ||
		err == nil && group.Group == v1alpha1.GroupVersion.Group && owner.Kind == "MediaAccount" && owner.Name == d.object.Name
}

// differs reports whether anything but the key differs from what is desired. Labels,
// annotations and data added by others are ignored.
func (d desiredSecret) differs(secret *corev1.Secret) bool {
	owner := metav1.GetControllerOf(secret)
	if owner == nil || owner.UID != d.object.UID {
		return true
	}
	for name, value := range d.labels() {
		if secret.Labels[name] != value {
			return true
		}
	}
	for name, value := range d.data {
		if string(secret.Data[name]) != value {
			return true
		}
	}
	return false
}

func (d desiredSecret) labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelAccount:          d.object.Name,
		v1alpha1.LabelApp:              d.app.Name,
		"app.kubernetes.io/managed-by": "mediastack-operator",
	}
}

// secret returns the Secret to write, based on the existing one, if any.
func (d desiredSecret) secret(existing *corev1.Secret, key string) *corev1.Secret {
	next := &corev1.Secret{Type: corev1.SecretTypeOpaque}
	if existing != nil {
		next = existing.DeepCopy()
	}
	next.Namespace, next.Name = d.object.Namespace, d.name
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	maps.Copy(next.Labels, d.labels())
	next.OwnerReferences = slices.DeleteFunc(next.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Controller != nil && *owner.Controller || owner.UID == d.object.UID
	})
	yes := true
	next.OwnerReferences = append(next.OwnerReferences, metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "MediaAccount",
		Name: d.object.Name, UID: d.object.UID, Controller: &yes,
	})
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	for name, value := range d.data {
		next.Data[name] = []byte(value)
	}
	next.Data[v1alpha1.SecretAPIKey] = []byte(key)
	return next
}

// secretDrift selects the events of Secrets that may have to be repaired: a Secret that was
// deleted, that lost its label (the watch reports a deletion), or that changed. Creations are
// ignored: this controller made them, or the next reconcile finds them.
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
