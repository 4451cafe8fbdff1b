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

// maxRegistrationBody bounds what an application sends to register.
const maxRegistrationBody = 8 << 10

// register keeps an application that describes itself (RFC 7591, section 3). All are
// public clients, whatever they ask for; what they may not have is left out of the answer.
func (a *API) register(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRegistrationBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		a.writeOAuthError(w, r, http.StatusRequestEntityTooLarge, "invalid_client_metadata", fault.Wrap(err, fault.TooLarge, "the description must be at most 8 KiB"))
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.writeOAuthError(w, r, http.StatusRequestTimeout, "invalid_client_metadata", fault.Wrap(err, fault.Invalid, "the description did not arrive in time"))
		return
	case err != nil:
		a.writeOAuthError(w, r, http.StatusBadRequest, "invalid_client_metadata", fault.Wrap(err, fault.Invalid, "the description was cut short"))
		return
	}
	var metadata clientMetadata
	if err := json.Unmarshal(body, &metadata); err != nil {
		a.writeOAuthError(w, r, http.StatusBadRequest, "invalid_client_metadata", fault.Wrap(err, fault.Invalid, "the description must be a JSON object (RFC 7591)"))
		return
	}
	client, err := a.newClient(metadata)
	if err != nil {
		a.writeOAuthError(w, r, http.StatusBadRequest, "invalid_redirect_uri", err)
		return
	}
	if client, err = a.OAuth.RegisterClient(r.Context(), client, clientPrefix(r)); err != nil {
		a.writeOAuthError(w, r, 0, "temporarily_unavailable", err)
		return
	}
	response := map[string]any{
		"client_id": client.ID, "client_id_issued_at": client.CreatedAt.Unix(), "client_name": client.Name,
		"redirect_uris": client.RedirectURIs, "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": "none", "scope": joinScopes(scopes),
	}
	if client.Website != "" {
		response["client_uri"] = client.Website
	}
	w.Header().Set("Cache-Control", "no-store")
	httpapi.WriteJSON(w, r, http.StatusCreated, response)
}

// newClient takes what may be taken of an application's words. One redirect URI that is
// not allowed does not spoil the others.
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
		uri, _ := url.Parse(client.RedirectURIs[0]) // which is allowed, so it can be read
		client.Name = uri.Hostname()
	}
	return client, nil
}

// sanitizeName makes a name fit to be shown: one line, without characters that change how
// others look. A name that nobody would see is none.
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
