package mediaaccount

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"mediastack.dev/api/v1alpha1"
)

// templateNames are the names of what a template set in a Secret, sorted.
type templateNames struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	Keys        []string `json:"keys,omitempty"`
}

// namesOf returns the names that a template sets.
func namesOf(template v1alpha1.SecretTemplate) templateNames {
	return templateNames{
		Labels:      slices.Sorted(maps.Keys(template.Labels)),
		Annotations: slices.Sorted(maps.Keys(template.Annotations)),
		Keys:        slices.Sorted(maps.Keys(template.Keys)),
	}
}

// record returns the value of the annotation that remembers the names; empty without any.
func (n templateNames) record() string {
	if len(n.Labels)+len(n.Annotations)+len(n.Keys) == 0 {
		return ""
	}
	text, err := json.Marshal(n)
	if err != nil {
		return "" // strings can always be encoded
	}
	return string(text)
}

// removeTemplate removes from a Secret what its annotation says that an earlier template set. An
// annotation that cannot be read removes nothing.
func removeTemplate(secret *corev1.Secret) {
	var names templateNames
	if json.Unmarshal([]byte(secret.Annotations[v1alpha1.AnnotationTemplate]), &names) != nil {
		return
	}
	for _, name := range names.Labels {
		delete(secret.Labels, name)
	}
	for _, name := range names.Annotations {
		delete(secret.Annotations, name)
	}
	for _, name := range names.Keys {
		delete(secret.Data, name)
	}
	delete(secret.Annotations, v1alpha1.AnnotationTemplate)
}
