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

// AnnotationTemplate is an annotation of a Secret with an API key: the names of the labels,
// annotations and entries that spec.apiKeys.secretTemplate set, as JSON, so that they are removed
// when the template does not have them any more.
const AnnotationTemplate = "mediastack.dev/template"

// Annotations of a MediaAccount by which a cluster admin accepts a loss. Their value is the id of
// the account, so that a copied manifest has no effect on another account.
const (
	// AnnotationAcknowledgeMediaLoss makes the operator create the bucket again, although the
	// account has items whose files are lost.
	AnnotationAcknowledgeMediaLoss = "mediastack.dev/acknowledge-media-loss"
	// AnnotationAbandon releases a MediaAccount that is being deleted, although its store cannot
	// be reached. A RetainedMediaAccount is left.
	AnnotationAbandon = "mediastack.dev/abandon"
)
