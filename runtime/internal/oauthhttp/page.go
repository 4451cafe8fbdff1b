package oauthhttp

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// sources are the origins that a page may use besides its own, as lists for the
// Content-Security-Policy. Each origin follows a space.
type sources struct {
	forms string // where a form may lead
	files string // of pictures and recordings
	// scripts permits the scripts of the service, and that they send requests to it and play files.
	scripts bool
}

// setSecurityHeaders sets the headers that protect every page: no frames, no caches, no scripts but those of the
// service on pages that have one, and no content of other origins than those of the page.
func setSecurityHeaders(w http.ResponseWriter, allowed sources) {
	header := w.Header()
	scripts := ""
	if allowed.scripts {
		scripts = "; script-src 'self'; connect-src 'self'; media-src 'self'" + allowed.files
	}
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'"+allowed.files+scripts+"; form-action 'self'"+allowed.forms+"; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would hide the origin of our own forms
	header.Set("Cache-Control", "no-store")
}

// page writes a page. redirectURI, if not empty, is where a form of the page may lead.
func (a *API) page(w http.ResponseWriter, r *http.Request, status int, redirectURI string, render func(io.Writer) error) {
	allowed := sources{}
	if redirectURI != "" {
		allowed.forms = originSource(redirectURI)
	}
	a.pageWith(w, r, status, allowed, render)
}

// WritePage writes a page of an account, which may have scripts. pictures are URLs, from whose origins it may show files.
func (a *API) WritePage(w http.ResponseWriter, r *http.Request, status int, pictures []string, render func(io.Writer) error) {
	var allowed []string
	for _, picture := range pictures {
		allowed = append(allowed, originSource(picture))
	}
	a.pageWith(w, r, status, sources{files: strings.Join(slices.Compact(allowed), ""), scripts: true}, render)
}

// WriteScriptPage writes a page of nobody's login, which may have scripts and uses no other origin.
func WriteScriptPage(w http.ResponseWriter, r *http.Request, status int, render func(io.Writer) error) {
	pageWith(w, r, status, sources{scripts: true}, render)
}

// pageWith writes a page that uses other origins.
func (a *API) pageWith(w http.ResponseWriter, r *http.Request, status int, allowed sources, render func(io.Writer) error) {
	pageWith(w, r, status, allowed, render)
}

func pageWith(w http.ResponseWriter, r *http.Request, status int, allowed sources, render func(io.Writer) error) {
	var body bytes.Buffer
	if err := render(&body); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	setSecurityHeaders(w, allowed)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // if the browser is gone, the log line has the number of bytes written
}

// ErrorPage writes a page that shows an error, with a link to where the user may begin again.
func (a *API) ErrorPage(w http.ResponseWriter, r *http.Request, err error) {
	a.errorPage(w, r, err, nil)
}

// errorPage writes an error page, which gives back what the user typed.
func (a *API) errorPage(w http.ResponseWriter, r *http.Request, err error, typed []pages.Typed) {
	to := a.interrupted(r)
	page := pages.ErrorPage{Title: "Request failed", Text: errorText(err), Hint: "If an application sent you here, start again there.", Typed: typed,
		Links: []pages.PageLink{{Text: "Authorized applications", URL: appsDestination.again()}}}
	if a.Files != nil {
		page.Links = append([]pages.PageLink{{Text: "Your files", URL: destination{page: a.Files.Home}.again()}}, page.Links...)
	}
	if strings.HasPrefix(r.URL.Path, AccountPaths) {
		page.Hint = ""
	}
	switch fault.From(err).Kind { //nolint:exhaustive // all others have the default texts
	case fault.NotFound:
		page.Title = "Login expired"
		if strings.HasPrefix(r.URL.Path, AccountPaths) {
			page.Links = []pages.PageLink{{Text: "Log in again", URL: to.again()}}
			page.Hint = "Nothing was changed. After the login you come back to where you were."
		}
	case fault.Unavailable, fault.Internal:
		page.Title, page.Text, page.Hint = "Server error", "The service is temporarily unavailable.", "Try again in a minute."
	}
	status := httpapi.Fail(w, r, err)
	a.page(w, r, status, "", func(to io.Writer) error { return a.Pages.Error(to, page) })
}

// errorText returns the sentence that the user reads, with the time after which to retry.
func errorText(err error) string {
	f := fault.From(err)
	text, ok := pages.ErrorText(err)
	if !ok {
		text = f.Public
	}
	return WithRetry(text, f)
}

// WithRetry returns a sentence about a fault with the time after which to retry.
func WithRetry(text string, f *fault.Error) string {
	if f.RetryAfter <= 0 {
		return text
	}
	n, unit := int(math.Ceil(f.RetryAfter.Seconds())), "second"
	if f.RetryAfter >= time.Minute {
		n, unit = int(math.Ceil(f.RetryAfter.Minutes())), "minute"
	}
	if n > 1 {
		unit += "s"
	}
	return fmt.Sprintf("%s Try again in %d %s.", text, n, unit)
}

// isFieldError reports whether a page shows the error beside a field. Other errors end the login.
func isFieldError(err error) bool { return fault.Is(err, fault.Invalid) || fault.Is(err, fault.Busy) }

// applicationView returns the application as the pages show it, or nil without a request.
func applicationView(request *oauth.AuthorizationRequest) *pages.Application {
	if request == nil {
		return nil
	}
	view := &pages.Application{Name: request.ClientName, Website: request.Website, Verified: request.Verified}
	if uri, err := url.Parse(request.RedirectURI); err == nil {
		view.Host = uri.Host
		switch {
		case isLoopback(uri):
			view.Loopback = true
		case uri.Scheme != "https":
			view.Scheme = uri.Scheme
		}
	}
	return view
}
