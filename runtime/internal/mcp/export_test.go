package mcp

import "net/http"

// Serve puts another handler of the protocol behind everything that stands in front of
// the service's own.
func (a *API) Serve(next http.Handler) { a.handler = a.behind(next) }
