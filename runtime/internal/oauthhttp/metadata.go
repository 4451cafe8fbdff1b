package oauthhttp

import (
	"net/http"

	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/oauth"
)

// scopes are the scopes that can be granted. offline_access is not needed: every grant has
// refresh tokens.
var scopes = oauth.Scopes()

// metadataCacheControl permits caching for an hour: metadata changes with the configuration only.
const metadataCacheControl = "public, max-age=3600"

// resourceMetadata returns the protected resource metadata (RFC 9728, section 2).
func (a *API) resourceMetadata(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", metadataCacheControl)
	httpapi.WriteJSON(w, r, http.StatusOK, withLinks(map[string]any{
		"resource":                 a.issuer + resourcePath,
		"resource_name":            a.Name,
		"authorization_servers":    []string{a.issuer},
		"scopes_supported":         scopes,
		"bearer_methods_supported": []string{"header"},
	}, map[string]string{"resource_policy_uri": a.Privacy, "resource_tos_uri": a.Terms}))
}

// serverMetadata returns the authorization server metadata (RFC 8414, section 2).
func (a *API) serverMetadata(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", metadataCacheControl)
	httpapi.WriteJSON(w, r, http.StatusOK, withLinks(map[string]any{
		"issuer":                                         a.issuer,
		"authorization_endpoint":                         a.issuer + authorizePath,
		"token_endpoint":                                 a.issuer + tokenPath,
		"registration_endpoint":                          a.issuer + registerPath,
		"revocation_endpoint":                            a.issuer + revokePath,
		"scopes_supported":                               scopes,
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token"},
		"token_endpoint_auth_methods_supported":          []string{"none"},
		"revocation_endpoint_auth_methods_supported":     []string{"none"},
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported":          a.cfg.ClientMetadataDocuments,
	}, map[string]string{"op_policy_uri": a.Privacy, "op_tos_uri": a.Terms}))
}

// withLinks adds the links that are configured.
func withLinks(document map[string]any, links map[string]string) map[string]any {
	for name, link := range links {
		if link != "" {
			document[name] = link
		}
	}
	return document
}
