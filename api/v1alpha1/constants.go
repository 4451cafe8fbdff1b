package v1alpha1

// Finalizer keeps a MediaAccount or a MediaSettings until what was created for it outside the
// cluster has been removed.
const Finalizer = "mediastack.dev/finalizer"

// Labels of the Secrets with API keys.
const (
	// LabelAccount is the name of the MediaAccount that the Secret belongs to. The operator
	// watches Secrets with this label and no others.
	LabelAccount = "mediastack.dev/account"
	// LabelApp is the name of the app that the key belongs to.
	LabelApp = "mediastack.dev/app"
)
