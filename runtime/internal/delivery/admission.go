package delivery

import (
	"net/http"
	"sync/atomic"

	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
)

// makeCounted makes the picture of a file. If it has to be made, it counts towards the limit of the client IP: a client that may
// fetch the files of an account could otherwise keep the account's share of the image workers busy, by asking for
// every picture of every item once. What is stored, or is being made, does not count.
func (d *Delivery) makeCounted(w http.ResponseWriter, r *http.Request, file *resolvedFile) error {
	client := httpapi.FromContext(r.Context()).ClientIP
	var counted atomic.Pointer[ratelimit.Decision]
	file.picture.admit = func() error {
		decision := d.limits.AllowPicture(client)
		counted.Store(&decision)
		return decision.Err()
	}
	err := d.makePicture(r, file)
	if decision := counted.Load(); decision != nil {
		decision.AddHeaders(w.Header())
	}
	return err
}
