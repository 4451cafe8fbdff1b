package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIKeysSpec controls the rotation of the account's API keys.
type APIKeysSpec struct {
	// Generation of the keys. Increasing it issues a new key for every app. Decreasing it, as a
	// git revert does, issues no key: the condition KeysReady says so.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`

	// Overlap is how long the previous keys stay valid after a rotation, from 0s to 720h.
	//
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(h|m|s|ms))+$') && duration(self) <= duration('720h')",message="must be a duration from 0s to 720h, such as 24h or 1h30m"
	Overlap *metav1.Duration `json:"overlap,omitempty"`

	// RotateEvery issues a new key for an app when its current key has this age, from 1h to
	// 8784h (366 days). If it is omitted, keys are rotated by generation only.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,6})?(h|m|s|ms))+$') && duration(self) >= duration('1h') && duration(self) <= duration('8784h')",message="must be a duration from 1h to 8784h, such as 720h"
	RotateEvery *metav1.Duration `json:"rotateEvery,omitempty"`

	// SecretTemplate configures the Secrets that hold the keys.
	//
	// +optional
	SecretTemplate *SecretTemplate `json:"secretTemplate,omitempty"`
}

// SecretTemplate configures the Secrets of an account: metadata that other controllers read,
// and the names of the entries.
type SecretTemplate struct {
	// Labels of every Secret, in addition to the operator's own, which cannot be changed.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('mediastack.dev/') && k != 'app.kubernetes.io/managed-by')",message="must not set labels of mediastack.dev or app.kubernetes.io/managed-by"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$') && k.indexOf('/') <= 253)",message="must have names of labels, such as team or example.org/team"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// Annotations of every Secret.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('mediastack.dev/'))",message="must not set annotations of mediastack.dev"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$') && k.indexOf('/') <= 253)",message="must have names of annotations, such as team or example.org/team"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// Keys adds entries to every Secret: the name of the new entry, and the entry whose value it
	// has, such as MEDIA_API_KEY: apiKey. The entries of the operator stay.
	// What this template set is removed when the template does not have it any more.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$') && k != '.' && !k.startsWith('..') && !(k in ['apiKey', 'baseURL', 'mcpURL', 'accountID', 'app', 'proof', 'type', 'provider', 'uri']))",message="must be names of Secret entries that the operator does not use itself"
	Keys map[string]SecretEntry `json:"keys,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?)?$`
type LabelValue string

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// SecretEntry is the name of an entry that the operator writes into the Secret of an app.
//
// +kubebuilder:validation:Enum=apiKey;baseURL;mcpURL;accountID;app
type SecretEntry string

// KeyStatus describes the API key of one app. The key itself is in the Secret only.
type KeyStatus struct {
	// App that the key belongs to.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	App string `json:"app"`

	// SecretName is the name of the Secret, in this namespace, with the key.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`

	// Generation of spec.apiKeys that the key was issued for.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`

	// CreatedAt is when the key was issued.
	//
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// PreviousExpiresAt is when the last of the previous keys expires. It is absent if no
	// previous key is valid.
	//
	// +optional
	PreviousExpiresAt *metav1.Time `json:"previousExpiresAt,omitempty"`

	// LastUsedAt is when the key, or a login based on it, was last used. It is refreshed
	// together with the usage.
	//
	// +optional
	LastUsedAt *metav1.Time `json:"lastUsedAt,omitempty"`
}
