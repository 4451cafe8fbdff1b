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

// registrationLongest bounds what an application sends to register.
const registrationLongest = 8 << 10

// register keeps an application that describes itself (RFC 7591, section 3). All are
// public clients, whatever they ask for; what they may not have is left out of the answer.
func (a *API) register(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, registrationLongest))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		a.refuse(w, r, http.StatusRequestEntityTooLarge, "invalid_client_metadata", fault.Wrap(err, fault.TooLarge, "the description must be at most 8 KiB"))
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.refuse(w, r, http.StatusRequestTimeout, "invalid_client_metadata", fault.Wrap(err, fault.Invalid, "the description did not arrive in time"))
		return
	case err != nil:
		a.refuse(w, r, http.StatusBadRequest, "invalid_client_metadata", fault.Wrap(err, fault.Invalid, "the description was cut short"))
		return
	}
	var sent document
	if err := json.Unmarshal(body, &sent); err != nil {
		a.refuse(w, r, http.StatusBadRequest, "invalid_client_metadata", fault.Wrap(err, fault.Invalid, "the description must be a JSON object (RFC 7591)"))
		return
	}
	client, err := a.clientOf(sent)
	if err != nil {
		a.refuse(w, r, http.StatusBadRequest, "invalid_redirect_uri", err)
		return
	}
	if client, err = a.Logins.Register(r.Context(), client, networkOf(r)); err != nil {
		a.refuse(w, r, 0, "temporarily_unavailable", err)
		return
	}
	answer := map[string]any{
		"client_id": client.ID, "client_id_issued_at": client.CreatedAt.Unix(), "client_name": client.Name,
		"redirect_uris": client.RedirectURIs, "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": "none", "scope": scopeText(scopes),
	}
	if client.Website != "" {
		answer["client_uri"] = client.Website
	}
	w.Header().Set("Cache-Control", "no-store")
	httpapi.WriteJSON(w, r, http.StatusCreated, answer)
}

// clientOf takes what may be taken of an application's words. One redirect URI that is
// not allowed does not spoil the others.
func (a *API) clientOf(sent document) (oauth.Client, error) {
	client := oauth.Client{ID: sent.ClientID, Name: cleaned(sent.Name), Website: sent.Website}
	if len(sent.RedirectURIs) > mostRedirects {
		return oauth.Client{}, fault.New(fault.Invalid, "there must be at most %d redirect_uris", mostRedirects)
	}
	for _, uri := range sent.RedirectURIs {
		if a.redirectAllowed(uri) {
			client.RedirectURIs = append(client.RedirectURIs, uri)
		}
	}
	if len(client.RedirectURIs) == 0 {
		return oauth.Client{}, fault.New(fault.Invalid, "redirect_uris must hold an https URI, or an http one of localhost, 127.0.0.1 or [::1]; none has a fragment or user information")
	}
	if uri, err := url.Parse(client.Website); err != nil || uri.Scheme != "https" || !redirectForm(client.Website, uri) {
		client.Website = ""
	}
	if client.Name == "" {
		uri, _ := url.Parse(client.RedirectURIs[0]) // which is allowed, so it can be read
		client.Name = uri.Hostname()
	}
	return client, nil
}

// cleaned makes a name fit to be shown: one line, without characters that change how
// others look. A name that nobody would see is none.
func cleaned(name string) string {
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
	if runes := []rune(name); len(runes) > longestName {
		name = strings.TrimSpace(string(runes[:longestName]))
	}
	if !pages.Visible(name) {
		return ""
	}
	return name
}
