package multipartform

import (
	"net/http"
	"time"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// Receive makes a draft of the form in the body of a request. begin is called before the body is
// read, with the minimum size of the file, so that an upload that cannot succeed is rejected and that
// one which waits for a slot costs nothing. accept is called when the whole body has arrived, and
// returns the fields of the draft: the caller checks the credential there, which may have been
// revoked meanwhile.
func Receive(w http.ResponseWriter, r *http.Request, begin func(minSize int64) (*upload.Single, error), accept func(media.Fields) (media.Fields, error)) (media.Item, error) {
	form, err := New(r)
	if err != nil {
		return media.Item{}, err
	}
	defer form.Close()
	return form.receive(w, r, begin, accept)
}

// ReceiveTyped is Receive for a page that shows the form again: with an error it also returns the fields
// that were sent before the file, as they were sent, even if begin rejected the upload.
func ReceiveTyped(w http.ResponseWriter, r *http.Request, begin func(minSize int64) (*upload.Single, error), accept func(media.Fields) (media.Fields, error)) (media.Item, media.Fields, error) {
	form, err := New(r)
	if err != nil {
		return media.Item{}, media.Fields{}, err
	}
	defer form.Close()
	item, err := form.receive(w, r, func(minSize int64) (*upload.Single, error) {
		single, err := begin(minSize)
		if err != nil {
			form.readBeforeFile()
		}
		return single, err
	}, accept)
	return item, form.fields, err
}

func (f *Form) receive(w http.ResponseWriter, r *http.Request, begin func(minSize int64) (*upload.Single, error), accept func(media.Fields) (media.Fields, error)) (media.Item, error) {
	single, err := begin(MinFileSize(r.ContentLength))
	if err != nil {
		return media.Item{}, err
	}
	defer single.Close(r.Context())
	control := http.NewResponseController(w)
	single.OnSlow(func(error) { _ = control.SetReadDeadline(time.Now()) }) // a transport without deadlines has none
	fields, err := f.Read(r.Context(), single)
	if err != nil {
		return media.Item{}, err
	}
	if fields, err = accept(fields); err != nil {
		return media.Item{}, err
	}
	return single.Commit(r.Context(), fields)
}
