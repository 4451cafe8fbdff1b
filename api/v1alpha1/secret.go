package v1alpha1

// Keys of the data of a Secret with an API key.
const (
	// SecretAPIKey is the key in plain text: "msk_", three digits that name the installation, and 43 characters.
	SecretAPIKey = "apiKey"
	// SecretBaseURL is the base URL of the REST endpoints.
	SecretBaseURL = "baseURL"
	// SecretMCPURL is the URL of the MCP endpoint.
	SecretMCPURL = "mcpURL"
	// SecretAccountID is the account's id.
	SecretAccountID = "accountID"
	// SecretApp is the name of the app.
	SecretApp = "app"
	// SecretProof proves that the operator issued the key for this account and app: a MAC over
	// account, app, sequence and hash. A restored database or a rebuilt cluster accepts the key
	// by it.
	SecretProof = "proof"
	// SecretType, SecretProvider and SecretURI are the entries of the Service Binding
	// specification: the constant "mediastack" twice, and the base URL.
	SecretType     = "type"
	SecretProvider = "provider"
	SecretURI      = "uri"
)

// SecretName returns the name of the Secret with the API key of an app: the account's name,
// the app's name and "media", joined by dots ("demo.default.media"). Neither name contains a
// dot, so that the names of two Secrets of a namespace always differ.
func SecretName(account, app string) string { return account + "." + app + ".media" }

// Entries of the data of a Secret that signs the deliveries of a webhook.
const (
	// SecretWebhook is the secret: "whsec_" and the base64 of its bytes.
	SecretWebhook = "secret"
	// SecretWebhookPrevious is the one before, while it signs, too.
	SecretWebhookPrevious = "previous"
	// SecretWebhookPreviousUntil is when the previous one ends (RFC 3339). Secrets of the operator's making have it.
	SecretWebhookPreviousUntil = "previousUntil"
)

// WebhookSecretName returns the name of the Secret that the operator makes for a MediaWebhook: "site.webhook.media". The Secret of an app
// "webhook" of an account of the same name has that name, too: the second one of the two is Stalled.
func WebhookSecretName(webhook string) string { return webhook + ".webhook.media" }
