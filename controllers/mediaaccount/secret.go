package mediaaccount

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// defaultOverlap is that of the CRD's schema.
const defaultOverlap = 24 * time.Hour

// desiredSecret is the Secret that an app should have.
type desiredSecret struct {
	object     *v1alpha1.MediaAccount
	app        account.App
	name       string
	generation int64 // of the spec
	// newGeneration is that of a new key: the one of the spec, or the highest of the account's
	// keys, if the one of the spec was lowered.
	newGeneration int64
	overlap       time.Duration
	rotateEvery   time.Duration // 0 = never
	template      v1alpha1.SecretTemplate
	proofKey      account.ProofKey
	data          map[string]string // without the key and its proof
}

// desiredSecret returns the Secret that app should have.
func (r *Reconciler) desiredSecret(s *scope, app account.App, keys account.AccountKeys) desiredSecret {
	spec := s.Object.Spec.APIKeys
	want := desiredSecret{
		object: s.Object, app: app, name: v1alpha1.SecretName(s.Object.Name, app.Name),
		generation: specGeneration(s.Object), newGeneration: max(specGeneration(s.Object), highestGeneration(keys)),
		overlap: defaultOverlap, proofKey: keys.ProofKey,
		data: map[string]string{
			v1alpha1.SecretBaseURL:   r.config.BaseURL,
			v1alpha1.SecretMCPURL:    r.mcpURL(),
			v1alpha1.SecretAccountID: s.account.ID.String(),
			v1alpha1.SecretApp:       app.Name,
			v1alpha1.SecretType:      bindingType,
			v1alpha1.SecretProvider:  bindingType,
			v1alpha1.SecretURI:       r.config.BaseURL,
		},
	}
	if spec.Overlap != nil {
		want.overlap = spec.Overlap.Duration
	}
	if spec.RotateEvery != nil {
		want.rotateEvery = spec.RotateEvery.Duration
	}
	if spec.SecretTemplate != nil {
		want.template = *spec.SecretTemplate
	}
	return want
}

// bindingType is the type and the provider of the Service Binding specification.
const bindingType = "mediastack"

// owns reports whether the operator may write a Secret of the desired name: this object
// controls it, or an object of this name did (it was restored from a backup), or it has no
// controller and the label names this account.
func (d desiredSecret) owns(secret *corev1.Secret) bool {
	owner := metav1.GetControllerOf(secret)
	if owner == nil {
		return recordOf(secret).account == d.object.Name
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return owner.UID == d.object.UID ||
		err == nil && group.Group == v1alpha1.GroupVersion.Group && owner.Kind == "MediaAccount" && owner.Name == d.object.Name
}

// differs reports whether anything but the key differs from what is desired. Labels,
// annotations and data added by others are ignored.
func (d desiredSecret) differs(secret *corev1.Secret, key account.Key) bool {
	owner, record := metav1.GetControllerOfNoCopy(secret), recordOf(secret)
	template := namesOf(d.template).record()
	if owner == nil || owner.UID != d.object.UID || !includes(record, labelEntry, d.labels()) || !includes(record, annotationEntry, d.template.Annotations) ||
		record.templated != (template != "") || record.templated && !record.has(annotationEntry, v1alpha1.AnnotationTemplate, valueSum(template)) {
		return true
	}
	for name, value := range entries(d, record.key, key, valueSum) {
		if !record.has(dataEntry, name, value) {
			return true
		}
	}
	return false
}

// labels returns the labels of the Secret: the operator's own replace those of the template.
func (d desiredSecret) labels() map[string]string {
	labels := withAll(map[string]string{}, d.template.Labels)
	labels[v1alpha1.LabelAccount] = d.object.Name
	labels[v1alpha1.LabelApp] = d.app.Name
	labels["app.kubernetes.io/managed-by"] = "mediastack-operator"
	return labels
}

// entries returns the data of the Secret that holds a key. That of the key's plain text is token, and convert
// converts the other values.
func entries[V any](d desiredSecret, token V, key account.Key, convert func(string) V) map[string]V {
	own := make(map[string]V, len(d.data)+2)
	for name, value := range d.data {
		own[name] = convert(value)
	}
	own[v1alpha1.SecretAPIKey] = token
	own[v1alpha1.SecretProof] = convert(d.proofKey.Sign(d.app.AccountID, d.app.Name, key))
	all := maps.Clone(own)
	for name, source := range d.template.Keys {
		if _, taken := own[name]; !taken {
			all[name] = own[string(source)]
		}
	}
	return all
}

// secret returns the Secret to write, based on the existing one, if any.
func (d desiredSecret) secret(existing *corev1.Secret, token string, key account.Key) *corev1.Secret {
	next := &corev1.Secret{Type: corev1.SecretTypeOpaque}
	if existing != nil {
		next = existing.DeepCopy()
	}
	next.Namespace, next.Name = d.object.Namespace, d.name
	removeTemplate(next)
	next.Labels = withAll(next.Labels, d.labels())
	next.Annotations = withAll(next.Annotations, d.template.Annotations)
	if record := namesOf(d.template).record(); record != "" {
		next.Annotations = withAll(next.Annotations, map[string]string{v1alpha1.AnnotationTemplate: record})
	}
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
	maps.Copy(next.Data, entries(d, []byte(token), key, func(value string) []byte { return []byte(value) }))
	return next
}

// withAll sets the entries of more in all, which may be nil.
func withAll[V ~string](all map[string]string, more map[string]V) map[string]string {
	if all == nil && len(more) > 0 {
		all = make(map[string]string, len(more))
	}
	for name, value := range more {
		all[name] = string(value)
	}
	return all
}

// secretDrift selects the events of Secrets that may have to be repaired: a Secret that was
// deleted, that lost its label (the watch reports a deletion), that changed, or that is being
// deleted and kept by finalizers. Creations are
// ignored: this controller made them, or the next reconcile finds them.
func secretDrift() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1.Secret)
			after, ok2 := e.ObjectNew.(*corev1.Secret)
			return !ok1 || !ok2 || recordOf(before) != recordOf(after) || !sameController(before, after) ||
				isTerminating(after) && (!isTerminating(before) || !slices.Equal(before.Finalizers, after.Finalizers))
		},
	}
}

func sameController(a, b *corev1.Secret) bool {
	before, after := metav1.GetControllerOfNoCopy(a), metav1.GetControllerOfNoCopy(b)
	if before == nil || after == nil {
		return before == after
	}
	return before.UID == after.UID && before.Name == after.Name && before.Kind == after.Kind
}

// isTerminating reports whether the Secret was deleted and finalizers keep it.
func isTerminating(secret *corev1.Secret) bool {
	return secret != nil && !secret.DeletionTimestamp.IsZero()
}

// keptSecret returns the failure for a Secret that was deleted and is kept by finalizers: no other
// one can have its name meanwhile. Its removal is an event.
func keptSecret(want desiredSecret, secret *corev1.Secret, valid []account.Key) *reconcile.StepError {
	next := fmt.Sprintf("the current key of app %s stays valid until it is gone and is revoked then", want.app.Name)
	if len(valid) > 0 && valid[0].ReplacesSecret {
		next = fmt.Sprintf("the current key of app %s stays valid; the new one is delivered when it is gone", want.app.Name)
	}
	return reconcile.NewError(reconcile.Kubernetes, fault.New(fault.Conflict,
		"Secret %s is being deleted, but finalizers keep it: %s; %s", want.name, reconcile.Finalizers(secret), next))
}
