package multipartform

import (
	"net/http"
	"time"

	"mediastack.dev/runtime/media"
)

// Receive makes a draft of the form in the body of a request. begin is called before the body is
// read, with the minimum size of the file, so that an upload that cannot succeed is rejected and that
// one which waits for a slot costs nothing. accept is called when the whole body has arrived, and
// returns the fields of the draft: the caller checks the credential there, which may have been
// revoked meanwhile.
func Receive(w http.ResponseWriter, r *http.Request, begin func(minSize int64) (*media.Upload, error), accept func(media.Fields) (media.Fields, error)) (media.Item, error) {
	form, err := New(r)
	if err != nil {
		return media.Item{}, err
	}
	defer form.Close()
	upload, err := begin(MinFileSize(r.ContentLength))
	if err != nil {
		return media.Item{}, err
	}
	defer upload.Close(r.Context())
	control := http.NewResponseController(w)
	upload.OnSlow(func(error) { _ = control.SetReadDeadline(time.Now()) }) // a transport without deadlines has none
	fields, err := form.Read(r.Context(), upload)
	if err != nil {
		return media.Item{}, err
	}
	if fields, err = accept(fields); err != nil {
		return media.Item{}, err
	}
	return upload.Commit(r.Context(), fields)
}
