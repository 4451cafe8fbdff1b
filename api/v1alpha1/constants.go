package v1alpha1

// Finalizer keeps a MediaAccount, a MediaSettings or a MediaWebhook until what was created for it outside the
// cluster has been removed.
const Finalizer = "mediastack.dev/finalizer"

// Labels of the Secrets that the operator writes.
const (
	// LabelAccount is the name of the MediaAccount that the Secret belongs to; empty for a MediaWebhook of all accounts. The
	// operator watches Secrets with this label and no others.
	LabelAccount = "mediastack.dev/account"
	// LabelApp is the name of the app that the key belongs to.
	LabelApp = "mediastack.dev/app"
	// LabelWebhook is the name of the MediaWebhook whose deliveries the Secret signs.
	LabelWebhook = "mediastack.dev/webhook"
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

// AnnotationSecretGeneration is an annotation of a Secret that signs deliveries: the generation of spec.secret that it was made for.
const AnnotationSecretGeneration = "mediastack.dev/secret-generation" //nolint:gosec // G101: the name of an annotation

// Annotations of a MediaWebhook by which an admin asks for something once. The value is a token of the admin's choice: another one is another
// request.
const (
	// AnnotationSendTestEvent asks for a test event. The status shows the token in tested when it is sent.
	AnnotationSendTestEvent = "mediastack.dev/send-test-event"
	// AnnotationReplay asks to send events again: AnnotationReplaySince or AnnotationReplayEvents says which. The status shows the token in
	// replayed.
	AnnotationReplay = "mediastack.dev/replay"
	// AnnotationReplaySince is the time (RFC 3339) from which on events are sent again.
	AnnotationReplaySince = "mediastack.dev/replay-since"
	// AnnotationReplayEvents are the ids of up to 100 events that are sent again, with commas between them.
	AnnotationReplayEvents = "mediastack.dev/replay-events"
	// AnnotationShowLog asks for the last attempts, which the status shows in log while the annotation is there.
	AnnotationShowLog = "mediastack.dev/show-log"
)
