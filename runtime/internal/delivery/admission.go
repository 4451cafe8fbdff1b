package delivery

import (
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
)

// pictureLimit is the limit of a client IP for pictures that have to be made, which every response for a picture shows. A client that may
// fetch the files of an account could otherwise keep the account's share of the image workers busy, by asking for
// every picture of every item once. What is stored, or is being made, does not count.
type pictureLimit struct {
	limits *ratelimit.Limiter
	client netip.Addr
	// counted is the last decision, nil before one.
	counted atomic.Pointer[ratelimit.Decision]
	// The headers have these lines of other limits.
	policies, states []string
}

// Names of the headers in their canonical form.
const (
	policyHeader = "Ratelimit-Policy"
	limitHeader  = "Ratelimit"
)

// pictureLimitOf returns the limit of a request for the address of a picture; nil for another file.
func (d *Delivery) pictureLimitOf(w http.ResponseWriter, r *http.Request) *pictureLimit {
	variant, _ := variantOf(r)
	if _, isPicture := parseAddress(variant); !isPicture || d.images == nil {
		return nil
	}
	return d.newPictureLimit(w, r)
}

// newPictureLimit returns the limit of a request for which a picture may have to be made.
func (d *Delivery) newPictureLimit(w http.ResponseWriter, r *http.Request) *pictureLimit {
	return &pictureLimit{limits: d.limits, client: httpapi.FromContext(r.Context()).ClientIP,
		policies: slices.Clone(w.Header()[policyHeader]), states: slices.Clone(w.Header()[limitHeader])}
}

// admit is rendition.Request.Admit.
func (l *pictureLimit) admit() error {
	decision := l.limits.AllowPicture(l.client)
	l.counted.Store(&decision)
	return decision.Err()
}

// count is admit for a client that is admitted in any case: who has the signed URL of a picture was given it by the tenant,
// whose share of the image workers bounds what is made. It takes a token if there is one.
func (l *pictureLimit) count() error {
	decision := l.limits.PeekPicture(l.client)
	if !decision.Limited {
		decision = l.limits.AllowPicture(l.client)
	}
	l.counted.Store(&decision)
	return nil
}

// show sets the headers of a response that follows, also after an earlier call.
func (l *pictureLimit) show(header http.Header) {
	if l == nil {
		return
	}
	header.Del(policyHeader)
	header.Del(limitHeader)
	for name, values := range map[string][]string{policyHeader: l.policies, limitHeader: l.states} {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	if counted := l.counted.Load(); counted != nil {
		counted.AddHeaders(header)
		return
	}
	l.limits.PeekPicture(l.client).AddHeaders(header)
}
