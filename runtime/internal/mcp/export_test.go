package mcp

import "net/http"

// NotFromSDK begins the log's error for an answer of the SDK that was replaced.
const NotFromSDK = notFromSDK

// Serve puts another handler of the protocol behind everything that stands in front of
// the service's own.
func (a *API) Serve(next http.Handler) { a.handler = a.preprocess(next) }

// ServeSDK puts a handler in the place of the SDK's.
func (a *API) ServeSDK(next http.Handler) { a.handler = a.preprocess(dispatch(next)) }
