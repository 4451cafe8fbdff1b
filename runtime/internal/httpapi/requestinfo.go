// Package httpapi is one HTTP exchange as every edge of the runtime sees it: the
// record that becomes its line in the log, and the one place where answers and
// faults are turned into JSON and status codes. Middleware and handlers of rest,
// auth and delivery call it; package server begins and ends the record.
package httpapi

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/google/uuid"
)

// Record gathers what the log says about a request. It belongs to the request's
// goroutine and holds no credential.
type Record struct {
	// RequestID is in every answer's X-Request-Id.
	RequestID string
	// Address is where the request comes from, for limits; it is not logged.
	Address netip.Addr
	// AccountID, AppID and KeyID say who asked; zero when nobody was authenticated.
	AccountID, AppID, KeyID uuid.UUID
	// Err is the failure that was answered, private cause included.
	Err error

	fewTexts bool
	rpc      bool
}

type recordKey struct{}

// With puts a record into the context of a request.
func With(ctx context.Context, record *Record) context.Context {
	return context.WithValue(ctx, recordKey{}, record)
}

// Of returns the record of a request, or an empty one outside of any.
func Of(ctx context.Context) *Record {
	if record, ok := ctx.Value(recordKey{}).(*Record); ok {
		return record
	}
	return &Record{}
}

// UploadRoute is the route whose errors the specification writes out, and ToolsRoute the
// MCP endpoint, whose errors are JSON-RPC error responses.
const (
	UploadRoute = "/media/create"
	ToolsRoute  = "/mcp"
)

// Begin makes the record of a request. It holds the field `error` of every answer to
// POST /media/create to the specification's four texts, also of those that are given
// before there is a route, and every answer of ToolsRoute to JSON-RPC.
func Begin(r *http.Request, id string, address netip.Addr) *Record {
	return &Record{RequestID: id, Address: address,
		fewTexts: r.Method == http.MethodPost && r.URL.Path == UploadRoute, rpc: r.URL.Path == ToolsRoute}
}
