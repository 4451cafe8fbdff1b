// Package v1alpha1 holds the resources that a cluster admin or a GitOps pipeline
// writes: MediaAccount (a tenant) and MediaSettings (settings fixed for a tenant).
// The operator, and whoever builds such objects in Go, imports it; it needs
// apimachinery and nothing heavier.
//
// +kubebuilder:object:generate=true
// +groupName=mediastack.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "mediastack.dev", Version: "v1alpha1"}

// SchemeBuilder collects what AddToScheme registers.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the types of this package, so that a client knows them.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&MediaAccount{}, &MediaAccountList{},
		&MediaSettings{}, &MediaSettingsList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
