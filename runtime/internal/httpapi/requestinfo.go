// Package httpapi is what the HTTP interfaces of the runtime share: the request info that
// becomes a line of the log (requestinfo.go), JSON answers (respond.go), and the only
// mapping of faults to status codes, error codes and texts, with its forms for REST and TUS,
// OAuth and JSON-RPC (errors.go).
package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/internal/api"
)

// RequestInfo is what the log records about a request. It belongs to the request's
// goroutine and holds no credential.
type RequestInfo struct {
	// RequestID is in every answer's X-Request-Id.
	RequestID string
	// ClientIP is the IP address of the client, for limits; it is not logged.
	ClientIP netip.Addr
	// AccountID, AppID and KeyID identify the caller; zero if the request is not authenticated.
	AccountID, AppID, KeyID uuid.UUID
	// Account is the account that the request counts towards in the metrics: that of the caller, or of
	// the file that a client may read.
	Account accountmetrics.Account
	// Waited is how long the request has waited for events, as its client asked.
	Waited time.Duration
	// Body is the body of the request as the server bounds it; nil if it has none.
	Body Body

	err             error
	legacyErrorText bool
	rpc             bool
}

// Body is the body of a request that may still arrive. Package server implements it.
type Body interface {
	// Admit counts the body towards the share of an account until all of it has arrived. It returns
	// Busy if the account has too many bodies that arrive, and Unavailable if all accounts together have.
	Admit(accountID uuid.UUID) error
	// ReadDocument sets whether what is read next is a document, such as JSON or a form, and not a
	// file. Documents have a time of their own.
	ReadDocument(document bool)
}

// AdmitBody counts the body of a request towards the share of an account. It is called once the caller is
// known, before the body is read.
func AdmitBody(ctx context.Context, accountID uuid.UUID) error {
	if body := FromContext(ctx).Body; body != nil {
		return body.Admit(accountID)
	}
	return nil
}

// ReadDocument sets whether what is read next of the body of a request is a document, and not a file.
func ReadDocument(ctx context.Context, document bool) {
	if body := FromContext(ctx).Body; body != nil {
		body.ReadDocument(document)
	}
}

// Err returns the error that the request was answered with, private cause included; nil if
// there is none.
func (i *RequestInfo) Err() error { return i.err }

type requestInfoKey struct{}

// NewContext returns a context that carries info.
func NewContext(ctx context.Context, info *RequestInfo) context.Context {
	return context.WithValue(ctx, requestInfoKey{}, info)
}

// FromContext returns the info of a request, or an empty one if ctx carries none.
func FromContext(ctx context.Context) *RequestInfo {
	if info, ok := ctx.Value(requestInfoKey{}).(*RequestInfo); ok {
		return info
	}
	return &RequestInfo{}
}

// SetError records the error that the request was answered with, for the log. WriteError
// calls it; a handler that writes an error in another form calls it itself. The last call
// counts.
func SetError(ctx context.Context, err error) { FromContext(ctx).err = err }

// NewRequestInfo returns the info of a request. The form of error responses depends on the
// request's path, so that it also applies to errors before there is a route: on POST
// /media/create the field `error` is one of the specification's four texts, and on the MCP
// endpoint errors are JSON-RPC error responses.
func NewRequestInfo(r *http.Request, id string, clientIP netip.Addr) *RequestInfo {
	return &RequestInfo{RequestID: id, ClientIP: clientIP,
		legacyErrorText: r.Method == http.MethodPost && r.URL.Path == api.UploadRoute, rpc: r.URL.Path == api.ToolsRoute}
}
