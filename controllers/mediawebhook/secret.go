package mediawebhook

import (
	"crypto/rand"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/webhook"
)

const (
	// secretPrefix and the sizes are those of Standard Webhooks.
	secretPrefix                 = "whsec_"
	minSecretSize, maxSecretSize = 24, 64 // bytes
	// newSecretSize is that of a secret of the operator's making, in bytes.
	newSecretSize = 32
	// defaultOverlap is that of the CRD's schema, and maxOverlap its bound.
	defaultOverlap = 24 * time.Hour
	maxOverlap     = 168 * time.Hour
)

// newSecret returns a new secret as text.
func newSecret() string {
	raw := make([]byte, newSecretSize)
	_, _ = rand.Read(raw) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(raw)
}

// parseSecret returns the bytes of a secret.
func parseSecret(text string) ([]byte, bool) {
	encoded, prefixed := strings.CutPrefix(text, secretPrefix)
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	// The decoder ignores line breaks, which other decoders do not.
	if !prefixed || err != nil || strings.ContainsAny(encoded, "\r\n") || len(raw) < minSecretSize || len(raw) > maxSecretSize {
		return nil, false
	}
	return raw, true
}

// secretState is what a Secret of the operator's making holds.
type secretState struct {
	generation int64
	secret     string
	previous   string    // empty = none
	until      time.Time // of previous
}

// stateOf reads a Secret. What cannot be used is left out. A Secret without a generation has that of the spec: nothing says that it is to
// be rotated.
func stateOf(secret *corev1.Secret, generation int64) secretState {
	state := secretState{generation: generation}
	if secret == nil {
		return state
	}
	if recorded, err := strconv.ParseInt(secret.Annotations[v1alpha1.AnnotationSecretGeneration], 10, 64); err == nil && recorded > 0 {
		state.generation = recorded
	}
	if text := string(secret.Data[v1alpha1.SecretWebhook]); isSecret(text) {
		state.secret = text
	}
	text := string(secret.Data[v1alpha1.SecretWebhookPrevious])
	until, err := time.Parse(time.RFC3339, string(secret.Data[v1alpha1.SecretWebhookPreviousUntil]))
	if err == nil && isSecret(text) {
		state.previous, state.until = text, until
	}
	return state
}

func isSecret(text string) bool {
	_, valid := parseSecret(text)
	return valid
}

// next returns what the Secret should hold: a new secret if there is none, or the generation was raised, and the previous one until the
// overlap is over.
func (s secretState) next(generation int64, overlap time.Duration, now time.Time, generate func() string) secretState {
	next := s
	if next.previous != "" && (!next.until.After(now) || next.until.After(now.Add(maxOverlap))) {
		next.previous, next.until = "", time.Time{}
	}
	switch {
	case next.secret == "":
		next.secret, next.generation = generate(), max(generation, s.generation)
	case generation > next.generation:
		next.previous, next.until = next.secret, now.Add(overlap).Truncate(time.Second)
		if overlap < time.Second { // the entry has seconds
			next.previous, next.until = "", time.Time{}
		}
		next.secret, next.generation = generate(), generation
	}
	return next
}

// keys returns the keys that sign, the current one first.
func (s secretState) keys() []webhook.Secret {
	current, _ := parseSecret(s.secret)
	keys := []webhook.Secret{{Key: current}}
	if previous, valid := parseSecret(s.previous); valid {
		keys = append(keys, webhook.Secret{Key: previous, Until: s.until})
	}
	return keys
}

// data returns the entries of the Secret.
func (s secretState) data() map[string][]byte {
	data := map[string][]byte{v1alpha1.SecretWebhook: []byte(s.secret)}
	if s.previous != "" {
		data[v1alpha1.SecretWebhookPrevious] = []byte(s.previous)
		data[v1alpha1.SecretWebhookPreviousUntil] = []byte(s.until.UTC().Format(time.RFC3339))
	}
	return data
}

// labelsOf returns the labels of the Secret of an object.
func labelsOf(object *v1alpha1.MediaWebhook) map[string]string {
	return map[string]string{
		v1alpha1.LabelAccount: object.AccountName(), v1alpha1.LabelWebhook: object.Name, "app.kubernetes.io/managed-by": "mediastack-operator",
	}
}

// desired returns the Secret to write, based on the existing one, if any. Labels, annotations and entries of others stay.
func desired(object *v1alpha1.MediaWebhook, existing *corev1.Secret, state secretState) *corev1.Secret {
	next := &corev1.Secret{Type: corev1.SecretTypeOpaque}
	if existing != nil {
		next = existing.DeepCopy()
	}
	next.Namespace, next.Name = object.Namespace, v1alpha1.WebhookSecretName(object.Name)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	maps.Copy(next.Labels, labelsOf(object))
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[v1alpha1.AnnotationSecretGeneration] = strconv.FormatInt(state.generation, 10)
	next.OwnerReferences = slices.DeleteFunc(next.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Controller != nil && *owner.Controller || owner.UID == object.UID
	})
	next.OwnerReferences = append(next.OwnerReferences, metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "MediaWebhook", Name: object.Name, UID: object.UID, Controller: new(true),
	})
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	delete(next.Data, v1alpha1.SecretWebhookPrevious)
	delete(next.Data, v1alpha1.SecretWebhookPreviousUntil)
	maps.Copy(next.Data, state.data())
	return next
}

// owns reports whether the operator may write a Secret: this object controls it, or an object of this name did (it was restored from a
// backup).
func owns(object *v1alpha1.MediaWebhook, secret *corev1.Secret) bool {
	owner := metav1.GetControllerOf(secret)
	if owner == nil {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return owner.UID == object.UID || err == nil && group.Group == v1alpha1.GroupVersion.Group && owner.Kind == "MediaWebhook" && owner.Name == object.Name
}

// secretChanges selects the events of Secrets that may have to be repaired. Creations are ignored: this controller made them. Reads of
// the list that a watch begins with are no changes.
func secretChanges() predicate.Predicate {
	return predicate.And[client.Object](predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}, predicate.ResourceVersionChangedPredicate{})
}
