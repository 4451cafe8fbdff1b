package webupload

import (
	"cmp"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/internal/rest/multipartform"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// errEnded is the fault of a request whose application or key has lost the access to the account, or may not have files handed over anymore.
var errEnded = fault.New(fault.Gone, "This address is not valid anymore: the application that asked for the file has lost its access.")

// show shows the page.
func (a *API) show(w http.ResponseWriter, r *http.Request) { a.showWith(w, r, nil) }

// showWith shows the page, with the error of the form that it answers; nil = none.
func (a *API) showWith(w http.ResponseWriter, r *http.Request, failure error) {
	found, signature, err := a.find(r)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	identity, err := a.requester(r, signature)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	page := pages.UploadRequestPage{ID: found.ID.String(), State: string(found.State), URL: handover.PagePath + chi.URLParam(r, "token"), Asker: identity.Actor.Name, Account: oauthhttp.AccountView(identity.Account).Name,
		FileName: found.Capability.FileName, Caption: found.Capability.Caption, Types: found.Capability.Types, MaxBytes: found.Capability.MaxSize(identity.Account.MaxUploadSize),
		ExpiresAt: found.Capability.ExpiresAt, Received: found.Received, Length: found.Length, Resumable: found.Resumable}
	if found.State == handover.Uploaded {
		item, err := a.Items.Get(r.Context(), identity.Principal, found.ItemID)
		switch {
		case fault.Is(err, fault.NotFound): // deleted meanwhile
			page.State = string(handover.Deleted)
		case err != nil:
			a.errorPage(w, r, err)
			return
		default:
			page.UploadedBytes = item.File().Bytes
			if asUploaded(item) {
				page.UploadedName = item.FileName
			}
		}
	}
	status := http.StatusOK
	if failure != nil {
		status, page.Error = httpapi.Fail(w, r, failure), errorText(failure)
	}
	oauthhttp.WriteScriptPage(w, r, status, func(to io.Writer) error { return a.Pages.UploadRequest(to, page) })
}

// asUploaded reports whether nothing of an item was changed since its upload, but for its seal. The name that an owner gives it later is not for who
// has the address of the request.
func asUploaded(item media.Item) bool {
	return item.Version == 1 || item.Version == 2 && !item.Draft()
}

// requester returns the connection that has requested the file, as it is now.
func (a *API) requester(r *http.Request, signature string) (auth.Identity, error) {
	identity, err := a.Auth.CheckRequest(r.Context(), signature)
	if fault.Is(err, fault.InvalidSignature) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Unauthenticated) {
		return auth.Identity{}, errEnded
	}
	if err == nil {
		info := httpapi.FromContext(r.Context())
		info.AccountID, info.AppID, info.KeyID = identity.Account.ID, identity.App.ID, identity.Key.ID
	}
	return identity, err
}

// submit takes the form of the page.
func (a *API) submit(w http.ResponseWriter, r *http.Request) {
	_, signature, err := a.find(r)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	answer := &withheld{ResponseWriter: w, header: http.Header{}}
	a.forms.ServeHTTP(answer, a.signed(r, signature, api.UploadRoute))
	if answer.status != http.StatusNoContent {
		failure := cmp.Or(httpapi.FromContext(r.Context()).Err(), errNotReceived)
		r, done := httpapi.AfterBody(r)
		defer done()
		a.showWith(w, r, failure)
		return
	}
	a.redirect(w, r)
}

// errNotReceived is the fault of a form whose answer says nothing.
var errNotReceived = fault.New(fault.Internal, "the form was not answered")

// receive makes an item of the form, as POST /media/create does.
func (a *API) receive(w http.ResponseWriter, r *http.Request) {
	identity := auth.FromContext(r.Context())
	_, err := multipartform.Receive(w, r, func(minSize int64) (*upload.Single, error) {
		single, err := a.Uploads.BeginWith(r.Context(), identity.Principal, identity.Capability, minSize)
		if err != nil {
			return nil, err
		}
		if keyID, check, left := a.Auth.LeaveToCommit(w, r); left {
			single.CheckAtCommit(keyID, check)
		}
		return single, nil
	}, func(fields media.Fields) (media.Fields, error) {
		if fields.FileName == "" { // as browsers send a field without a file
			return fields, fault.New(fault.Invalid, "Choose a file.")
		}
		return fields, nil
	})
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// again ends a resumable upload that is on its way, so that another one can begin: perhaps of a browser that is gone.
func (a *API) again(w http.ResponseWriter, r *http.Request) {
	found, signature, err := a.find(r)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	identity, err := a.requester(r, signature)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	if found.State == handover.Uploading && found.Resumable && found.ItemID != uuid.Nil {
		err = a.Uploads.End(r.Context(), identity.Principal, &found.Capability, found.ItemID)
		if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) { // it has ended, or is complete
			a.showWith(w, r, err)
			return
		}
	}
	a.redirect(w, r)
}

// redirect leads to the page.
func (*API) redirect(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", handover.PagePath+chi.URLParam(r, "token"))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}

// errorPage writes a page that shows nothing but an error.
func (a *API) errorPage(w http.ResponseWriter, r *http.Request, err error) {
	page := pages.ErrorPage{Title: "No file can be handed over here", Text: errorText(err), Hint: "Ask the user or the application that gave you the address for a new one."}
	if kind := fault.From(err).Kind; kind == fault.Unavailable || kind == fault.Internal || kind == fault.Busy {
		page.Title, page.Hint = "Try again in a minute", ""
	}
	status := httpapi.Fail(w, r, err)
	oauthhttp.WriteScriptPage(w, r, status, func(to io.Writer) error { return a.Pages.Error(to, page) })
}

// errorText returns the sentence that the user reads.
func errorText(err error) string {
	f := fault.From(err)
	switch f.Kind { //nolint:exhaustive // the texts of all others suffice
	case fault.Internal:
		return "The service failed. Try again in a minute."
	case fault.Unavailable:
		return "The service takes no files at the moment. Try again in a minute."
	case fault.Busy:
		return oauthhttp.WithRetry("The service is busy.", f)
	case fault.QuotaExceeded:
		return "The file does not fit: the account has no room for it. Tell the user who asked for it."
	case fault.UnsupportedType:
		return "The file is of another type than those that are asked for. Choose another one."
	case fault.TooLarge:
		return "The file is too large. Choose a smaller one."
	case fault.InvalidSignature:
		return "A file was handed over already, or is on its way, or the time is over."
	}
	return f.Public
}

// withheld is the answer of a handler of a program, of which the page keeps the status only.
type withheld struct {
	http.ResponseWriter
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (w *withheld) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *withheld) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *withheld) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), nil
}

// Unwrap is for http.ResponseController.
func (w *withheld) Unwrap() http.ResponseWriter { return w.ResponseWriter }
