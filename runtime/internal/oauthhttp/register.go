package oauthhttp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// Bounds of client metadata.
const (
	maxRegistrationBody = 8 << 10
	maxRedirectURIs     = 10
	maxClientName       = 100 // characters
)

// register is the registration endpoint (RFC 7591, section 3). All clients are public,
// whatever they request. Metadata that is not accepted is left out of the response.
func (a *API) register(w http.ResponseWriter, r *http.Request) {
	metadata, rejected := readRegistration(w, r)
	if rejected != nil {
		rejected.write(w, r)
		return
	}
	client, err := a.newClient(metadata)
	if err != nil {
		badRequest("invalid_redirect_uri", err).write(w, r)
		return
	}
	if client, err = a.OAuth.RegisterClient(r.Context(), client, clientPrefix(r)); err != nil {
		badRequest("temporarily_unavailable", err).write(w, r)
		return
	}
	body := map[string]any{
		"client_id": client.ID, "client_id_issued_at": client.CreatedAt.Unix(), "client_name": client.Name,
		"redirect_uris": client.RedirectURIs, "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": "none", "scope": oauth.JoinScopes(scopes),
	}
	if client.Website != "" {
		body["client_uri"] = client.Website
	}
	w.Header().Set("Cache-Control", "no-store")
	httpapi.WriteJSON(w, r, http.StatusCreated, body)
}

// readRegistration reads the metadata from the body of a registration request.
func readRegistration(w http.ResponseWriter, r *http.Request) (clientMetadata, *endpointError) {
	const code = "invalid_client_metadata"
	httpapi.ReadDocument(r.Context(), true)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRegistrationBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return clientMetadata{}, &endpointError{http.StatusRequestEntityTooLarge, code, fault.Wrap(err, fault.TooLarge, "the client metadata must be at most 8 KiB")}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return clientMetadata{}, &endpointError{http.StatusRequestTimeout, code, fault.Wrap(err, fault.Invalid, "the client metadata did not arrive in time")}
	case err != nil:
		return clientMetadata{}, badRequest(code, fault.Wrap(err, fault.Invalid, "the client metadata is incomplete"))
	}
	var metadata clientMetadata
	if err := json.Unmarshal(body, &metadata); err != nil {
		return clientMetadata{}, badRequest(code, fault.Wrap(err, fault.Invalid, "the client metadata must be a JSON object (RFC 7591)"))
	}
	return metadata, nil
}

// newClient returns the client with the acceptable part of its metadata. Redirect URIs that
// are not allowed are left out, unless no other remains.
func (a *API) newClient(metadata clientMetadata) (oauth.Client, error) {
	client := oauth.Client{ID: metadata.ClientID, Name: sanitizeName(metadata.Name), Website: metadata.Website}
	if len(metadata.RedirectURIs) > maxRedirectURIs {
		return oauth.Client{}, fault.New(fault.Invalid, "there must be at most %d redirect_uris", maxRedirectURIs)
	}
	for _, uri := range metadata.RedirectURIs {
		if a.redirectAllowed(uri) {
			client.RedirectURIs = append(client.RedirectURIs, uri)
		}
	}
	if len(client.RedirectURIs) == 0 {
		return oauth.Client{}, fault.New(fault.Invalid, "redirect_uris must hold an https URI, or an http one of localhost, 127.0.0.1 or [::1]; none has a fragment or user information")
	}
	if uri, err := url.Parse(client.Website); err != nil || uri.Scheme != "https" || !isWellFormedURI(client.Website, uri) {
		client.Website = ""
	}
	if client.Name == "" {
		uri, _ := url.Parse(client.RedirectURIs[0]) // an allowed URI can be parsed
		client.Name = uri.Hostname()
	}
	return client, nil
}

// sanitizeName returns a display name as one line without format characters, or an empty
// string if no character of it is visible.
func sanitizeName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	name = strings.Join(strings.Fields(name), " ")
	if runes := []rune(name); len(runes) > maxClientName {
		name = strings.TrimSpace(string(runes[:maxClientName]))
	}
	if !pages.HasVisible(name) {
		return ""
	}
	return name
}
