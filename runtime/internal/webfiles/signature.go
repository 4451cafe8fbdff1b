package webfiles

import (
	"net/http"
	"net/url"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// SignatureTTL is how long an upload can begin with a signature of the page. An owner who loses the account, or logs out, can begin none after that.
const SignatureTTL = 10 * time.Minute

// Signatures issues upload signatures for the script of the page. It returns the header that has one.
type Signatures func(r *http.Request, p account.Principal, seal bool) (header, signature string, expires time.Time, err error)

// scriptSignature is what the script of the page needs for uploads.
type scriptSignature struct {
	Header    string    `json:"header"`
	Signature string    `json:"signature"`
	Path      string    `json:"path"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// signUploads answers the script of the page with an upload signature, by which resumable uploads run: what is on its way then goes on when the
// session has ended, and needs no CSRF token, since the browser does not send a signature by itself.
func (a *API) signUploads(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	o, err := a.findFileOwner(w, r, session, form.Get("account"))
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	seal := form.Get("draft") != "1"
	if err = a.checkOperation(o.principal, account.UploadMedia); err == nil && seal {
		err = a.checkOperation(o.principal, account.SealMedia)
	}
	var answer scriptSignature
	if err == nil {
		answer.Header, answer.Signature, answer.ExpiresAt, err = a.Signatures(r, o.principal, seal)
	}
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	answer.Path = api.ResumableRoute
	w.Header().Set("Cache-Control", "no-store")
	httpapi.WriteJSON(w, r, http.StatusOK, answer)
}

// uploadScript returns what the script of uploads needs; nil = the user may not upload.
func (a *API) uploadScript(o fileOwner, page *pages.FilesPage) *pages.UploadScript {
	if page.UploadDraftURL == "" {
		return nil
	}
	return &pages.UploadScript{SignatureURL: o.url(signaturePath, nil), ListURL: o.url(filesPath, nil), Draft: page.UploadURL == ""}
}
