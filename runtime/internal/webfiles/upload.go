package webfiles

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"unicode"
	"unicode/utf8"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/rest/multipartform"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/upload"
)

// uploadFile uploads a file, and seals it unless the user keeps it as a draft. The session, its CSRF
// token and the account are in the URL of the form, so that nothing of the body is read before they
// were checked: a request without them is one without a credential, whose body has little time.
func (a *API) uploadFile(w http.ResponseWriter, r *http.Request) {
	began := a.Now()
	o, err := a.uploader(w, r)
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	keepDraft := r.URL.Query().Get("draft") == "1"
	item, typed, err := a.receiveFile(w, r, o, keepDraft)
	if err != nil {
		var done context.CancelFunc
		r, done = httpapi.AfterBody(r)
		defer done()
	}
	o.session = a.Login.ExtendLogin(w, r, o.session, began) // a long upload is use
	if err == nil && !keepDraft {
		if item, err = a.Media.Seal(r.Context(), o.principal, item.ID); err != nil && !fault.Is(err, fault.Rejected) {
			a.writeFilesPage(w, r, o, url.Values{"state": {draftFiles}}, filesMessage{err: err, text: "The file was uploaded, but could not be kept. Keep it here."})
			return
		}
	}
	var reason oauth.Reason
	if errors.As(err, &reason) || fault.Is(err, fault.Internal) { // the user does not own the account any more, or the service failed
		a.Login.ErrorPage(w, r, err)
		return
	}
	if err != nil {
		a.writeFilesPage(w, r, o, url.Values{}, filesMessage{err: err, upload: true, typed: typed})
		return
	}
	next := url.Values{"done": {"uploaded"}}
	switch {
	case keepDraft:
		next = url.Values{"done": {"drafted"}, "state": {draftFiles}}
	case item.Draft():
		next = url.Values{"done": {"checking"}, "state": {draftFiles}}
	}
	a.Login.SeeOther(w, o.url(filesPath, next))
}

// uploader checks the origin of an upload form, its session and its CSRF token, and returns the owner.
func (a *API) uploader(w http.ResponseWriter, r *http.Request) (fileOwner, error) {
	query := r.URL.Query()
	session, err := a.Login.CheckForm(r, query)
	if err != nil {
		return fileOwner{}, err
	}
	return a.findFileOwner(w, r, session, query.Get("account"))
}

// receiveFile makes a draft of the form, as POST /media/create does. The account is checked again
// when the whole body has arrived: the owner may have been removed meanwhile. The session may have
// expired by then. With an error it returns what the user typed.
func (a *API) receiveFile(w http.ResponseWriter, r *http.Request, o fileOwner, keepDraft bool) (media.Item, media.Fields, error) {
	check := func(p account.Principal) error {
		err := a.checkOperation(p, account.UploadMedia)
		if err == nil && !keepDraft {
			err = a.checkOperation(p, account.SealMedia)
		}
		return err
	}
	return multipartform.ReceiveTyped(w, r, func(minSize int64) (*upload.Single, error) {
		if err := check(o.principal); err != nil {
			return nil, err
		}
		return a.Uploads.Begin(r.Context(), o.principal, minSize)
	}, func(fields media.Fields) (media.Fields, error) {
		if fields.FileName == "" { // as browsers send a field without a file
			return fields, fault.New(fault.Invalid, "Choose a file.")
		}
		current, err := a.OAuth.Principal(r.Context(), o.session, o.principal.Account.ID, o.app())
		if err == nil {
			err = check(current)
		}
		return fields, err
	})
}

// fileErrorText returns the sentence that the user reads for an error about a file.
func fileErrorText(of account.Account, err error) string {
	f := fault.From(err)
	switch f.Kind { //nolint:exhaustive // the texts of all others suffice
	case fault.TooLarge:
		return fmt.Sprintf("The file is too large. A file may have %s.", media.HumanBytes(min(of.MaxUploadSize, of.MaxStorage)))
	case fault.QuotaExceeded:
		return fmt.Sprintf("The file does not fit: the account may store %s in all. Delete files, also those that are not kept yet, or cancel running uploads, to make room.", media.HumanBytes(of.MaxStorage))
	case fault.NotFound:
		return "There is no such file. It may have been deleted."
	case fault.Unavailable:
		return "The service cannot change files at the moment. Try again in a minute."
	}
	return oauthhttp.WithRetry(sentence(f.Public), f)
}

// sentence returns a text with a capital letter and a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return "The service failed."
	}
	text = string(unicode.ToUpper(first)) + text[size:]
	if last := text[len(text)-1]; last != '.' && last != '!' && last != '?' {
		text += "."
	}
	return text
}
