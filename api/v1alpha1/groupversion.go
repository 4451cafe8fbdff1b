// Package v1alpha1 contains the custom resources: MediaAccount (a tenant), MediaSettings
// (settings pinned for a tenant), MediaWebhook (a receiver of a tenant's events) and RetainedMediaAccount (an account without a
// MediaAccount). The operator and Go clients import it; its only dependency is apimachinery.
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

// SchemeBuilder registers the types of this package.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the types of this package with a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&MediaAccount{}, &MediaAccountList{},
		&MediaSettings{}, &MediaSettingsList{},
		&MediaWebhook{}, &MediaWebhookList{},
		&RetainedMediaAccount{}, &RetainedMediaAccountList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
