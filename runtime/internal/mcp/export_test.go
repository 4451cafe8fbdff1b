package mcp

import (
	"context"
	"net/http"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
)

// NotFromSDK begins the error in the log for an answer of the SDK that was replaced.
const NotFromSDK = notFromSDK

// Serve replaces the handlers behind preprocess.
func (a *API) Serve(next http.Handler) { a.handler = a.preprocess(next) }

// ServeSDK replaces the SDK's handler.
func (a *API) ServeSDK(next http.Handler) { a.handler = a.preprocess(dispatch(next)) }

// Outcome returns the label of the metric for an error.
func Outcome(ctx context.Context, err error) string { return outcome(ctx, err) }

// AfterView runs a function after each picture that is made for a model, before the call goes on.
func (a *API) AfterView(do func()) { a.deps.Views = hookedViews{a.deps.Views, do} }

type hookedViews struct {
	Views
	after func()
}

// View makes the picture, and runs the function.
func (h hookedViews) View(ctx context.Context, item media.Item, owner media.Owner, size rendition.ViewSize) (rendition.View, error) {
	view, err := h.Views.View(ctx, item, owner, size)
	h.after()
	return view, err
}
