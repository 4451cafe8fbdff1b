// Package exchange is one HTTP exchange as every edge of the runtime sees it: the
// record that becomes its line in the log, and the one place where answers and
// faults are turned into JSON and status codes. Middleware and handlers of rest,
// auth and delivery call it; package server begins and ends the record.
package exchange

import (
	"context"

	"github.com/google/uuid"
)

// Record gathers what the log says about a request. It belongs to the request's
// goroutine and holds no credential.
type Record struct {
	// RequestID is in every answer's X-Request-Id.
	RequestID string
	// AccountID, AppID and KeyID say who asked; zero when nobody was authenticated.
	AccountID, AppID, KeyID uuid.UUID
	// Err is the failure that was answered, private cause included.
	Err error

	fewTexts bool
}

type recordKey struct{}

// With puts a record into the context of a request.
func With(ctx context.Context, record *Record) context.Context {
	return context.WithValue(ctx, recordKey{}, record)
}

// Of gives the record of a request, or an empty one outside of any.
func Of(ctx context.Context) *Record {
	if record, ok := ctx.Value(recordKey{}).(*Record); ok {
		return record
	}
	return &Record{}
}

// FewTexts holds the request's `error` to the four texts that the specification
// has for POST /media/create.
func (r *Record) FewTexts() { r.fewTexts = true }
