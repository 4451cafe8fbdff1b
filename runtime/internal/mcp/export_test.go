package mcp

import (
	"context"
	"net/http"
)

// NotFromSDK begins the error in the log for an answer of the SDK that was replaced.
const NotFromSDK = notFromSDK

// Serve replaces the handlers behind preprocess.
func (a *API) Serve(next http.Handler) { a.handler = a.preprocess(next) }

// ServeSDK replaces the SDK's handler.
func (a *API) ServeSDK(next http.Handler) { a.handler = a.preprocess(dispatch(next)) }

// Outcome returns the label of the metric for an error.
func Outcome(ctx context.Context, err error) string { return outcome(ctx, err) }
