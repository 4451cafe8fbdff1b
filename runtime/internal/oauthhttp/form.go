package oauthhttp

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/redact"
)

// maxForm bounds the body of every form, in bytes.
const maxForm = 8 << 10

// MaxTextForm bounds the body of a form with the texts of a file, in bytes: 24 pairs of metadata, each with three bytes for one of a text.
const MaxTextForm = 256 << 10

// parseForm reads a form of up to maxForm bytes.
func parseForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	return parseFormUpTo(w, r, maxForm)
}

// parseFormUpTo reads a form of up to limit bytes from the body. Parameters in the URL are ignored, parameters may not
// be repeated (RFC 6749, section 3.2), and their values must be text.
func parseFormUpTo(w http.ResponseWriter, r *http.Request, limit int64) (url.Values, error) {
	if contentType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || contentType != "application/x-www-form-urlencoded" {
		return nil, fault.New(fault.Invalid, "send a form: application/x-www-form-urlencoded")
	}
	httpapi.ReadDocument(r.Context(), true)
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	if err := r.ParseForm(); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fault.New(fault.Invalid, "the form did not arrive in time")
	} else if err != nil {
		return nil, fault.Wrap(errors.New("unreadable form"), fault.Invalid, "the form cannot be read, or is longer than %d KiB", limit>>10)
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			return nil, fault.New(fault.Invalid, "send %q once", sanitizeName(name))
		}
		// PostgreSQL cannot store such text, so no value of ours has it.
		if len(values) == 1 && (!utf8.ValidString(values[0]) || strings.Contains(values[0], "\x00")) {
			return nil, fault.New(fault.Invalid, "%q cannot be read", sanitizeName(name))
		}
	}
	return r.PostForm, nil
}

// FormHandler handles a form that was submitted from a page of its login session.
type FormHandler func(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values)

// CSRFProtected calls next if the form was submitted from this origin, by the browser of the
// login session, and with its CSRF token.
func (a *API) CSRFProtected(next FormHandler) http.HandlerFunc {
	return a.CSRFProtectedUpTo(maxForm, next)
}

// CSRFProtectedUpTo is CSRFProtected for a form of up to limit bytes.
func (a *API) CSRFProtectedUpTo(limit int64, next FormHandler) http.HandlerFunc {
	return a.csrfProtectedOr(limit, next, func(w http.ResponseWriter, r *http.Request, _ url.Values, err error) { a.ErrorPage(w, r, err) })
}

// CSRFProtectedText is CSRFProtected for a form of up to MaxTextForm bytes. If its session has ended, the page shows what the user typed: typed
// returns it. The form came from a page of the service, so nobody else chose the text. One with a credential is left out: it was typed into the
// wrong field.
func (a *API) CSRFProtectedText(next FormHandler, typed func(url.Values) []pages.Typed) http.HandlerFunc {
	return a.csrfProtectedOr(MaxTextForm, next, func(w http.ResponseWriter, r *http.Request, form url.Values, err error) {
		texts := slices.DeleteFunc(typed(form), func(one pages.Typed) bool { return redact.Secret(one.Name) || redact.Secret(one.Text) })
		a.errorPage(w, r, err, texts)
	})
}

// csrfProtectedOr is CSRFProtected with another answer to a form whose session has ended.
func (a *API) csrfProtectedOr(limit int64, next FormHandler, ended func(http.ResponseWriter, *http.Request, url.Values, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := a.checkOrigin(r); err != nil {
			a.ErrorPage(w, r, err)
			return
		}
		form, err := parseFormUpTo(w, r, limit)
		if err != nil {
			a.ErrorPage(w, r, err)
			return
		}
		session, err := a.checkToken(r, form.Get("request"), form.Get("csrf"))
		switch {
		case fault.Is(err, fault.NotFound):
			ended(w, r, form, err)
			return
		case err != nil:
			a.ErrorPage(w, r, err)
			return
		}
		next(w, r, a.ExtendLogin(w, r, session, a.Now()), form)
	}
}

// CheckForm returns the login session of a form that was submitted from this origin, by the browser of the
// session, with the fields of FormFields as parameters. A form whose body is large has them in its URL, so that
// they are checked before anything of the body is read.
func (a *API) CheckForm(r *http.Request, parameters url.Values) (oauth.LoginSession, error) {
	if err := a.checkOrigin(r); err != nil {
		return oauth.LoginSession{}, err
	}
	return a.checkToken(r, parameters.Get("request"), parameters.Get("csrf"))
}

// checkOrigin rejects a form that was submitted from a page of another origin.
func (a *API) checkOrigin(r *http.Request) error {
	return fault.Wrap(a.csrf.Check(r), fault.Forbidden, "The form came from another site.")
}

// checkToken returns the login session of a form if the browser has its cookie and the form its CSRF
// token.
func (a *API) checkToken(r *http.Request, request, token string) (oauth.LoginSession, error) {
	session, err := a.loginSession(r, request)
	if err == nil && !a.OAuth.VerifyCSRFToken(session, token) {
		err = fault.New(fault.Forbidden, "The form is from before you logged in, or not from this site.")
	}
	return session, err
}

// FormFields returns the hidden fields of the forms of a session.
func (a *API) FormFields(session oauth.LoginSession) pages.Form {
	return pages.Form{Request: session.ID.String(), CSRF: a.OAuth.CSRFToken(session)}
}
