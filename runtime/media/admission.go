package media

import "sync"

// NotAdmitted is the error of work that the request which began it was not admitted to. Other requests that wait for the
// work may be admitted.
type NotAdmitted struct{ error }

// Unwrap returns the reason.
func (e NotAdmitted) Unwrap() error { return e.error }

// AdmitOnce returns admit that is called once, at the first call; nil admits. Its error is a NotAdmitted.
func AdmitOnce(admit func() error) func() error {
	return sync.OnceValue(func() error {
		if admit != nil {
			if err := admit(); err != nil {
				return NotAdmitted{err}
			}
		}
		return nil
	})
}

// MaxRejections is how many rejections of other requests a request waits for before it asks for itself. Of many requests
// over their limit, each would otherwise be woken by each of the others.
const MaxRejections = 2
