// Package mediastack is the client of the mediastack media storage service.
package mediastack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mediastack.dev/clients/go/api"
)

// The documents of the service.
type (
	// Item is a media file with its metadata, as a draft or sealed.
	Item = api.MediaItem
	// Access is who may read the file of a sealed item.
	Access = api.Access
	// Settings are the effective settings of the account.
	Settings = api.Settings
	// SettingsChange has the settings to change.
	SettingsChange = api.SettingsChange
	// Signature is an upload signature, with the URLs for it.
	Signature = api.Signature
	// SignatureRequest has the restrictions of an upload signature.
	SignatureRequest = api.SignatureRequest
	// Patch has the members to change: access, caption, fileName, group and metadata. nil removes a value; members
	// that are absent stay as they are.
	Patch = api.MediaPatch
	// Deleted is the answer to a delete. ExpiresAt is until when the item can be restored at least; nil if it cannot.
	Deleted = api.Deleted
	// RunningUpload is a resumable upload that is not complete.
	RunningUpload = api.RunningUpload
	// DeletedItem is a deleted item that can be restored.
	DeletedItem = api.DeletedItem
	// URLUpload is the state of an upload from a URL. api.URLUploadStateDone and api.URLUploadStateFailed are final.
	URLUpload = api.URLUpload
	// BatchRequest is an operation on up to 100 items.
	BatchRequest = api.BatchRequest
	// BatchResult is the result of one of them.
	BatchResult = api.BatchResult
	// Event is one change, as the journal has it.
	Event = api.Event
	// Count is a number of items.
	Count = api.Count
	// Totals are the bytes of the account's sealed items, and its cap.
	Totals = api.Totals
)

// Values of Access.
const (
	Public  = api.Public
	Private = api.Private
)

// Client is a client of one app, or of uploads with a signature. It is safe for concurrent use.
type Client struct {
	// API has every route of the OpenAPI document. It retries as the methods of the client do, and returns *Error.
	API *api.ClientWithResponses

	transport *transport
}

// Options are optional.
type Options struct {
	// HTTPClient sends the requests, one attempt each. Its CheckRedirect applies to files only. Default: a copy
	// of http.DefaultClient.
	HTTPClient *http.Client
	// Retry limits the attempts.
	Retry Retry
	// Brand is the word in the header names of the service (SERVICE_BRAND). Default: service.
	Brand string
}

// Retry limits the attempts of a request after 429, 503 and failed connections. Zero values are the defaults.
type Retry struct {
	// Attempts of a request, the first one included. 1 disables retries. Default 5.
	Attempts int
	// UploadAttempts of a resumable upload without progress in between. Default 12.
	UploadAttempts int
	// MaxDelay is the longest wait between two attempts. A longer Retry-After ends the request. Default 30 s.
	MaxDelay time.Duration
	// Wait waits until the time has passed or the context ends; tests replace it.
	Wait func(ctx context.Context, delay time.Duration) error
}

// Credential is what a client is authorized by.
type Credential struct {
	header func(brand string) string
	prefix string
	value  func(context.Context) (string, error)
	upload bool
}

// APIKey is the credential of an app.
func APIKey(key string) Credential {
	return Credential{header: func(brand string) string { return "x-" + brand + "-apikey" }, value: func(context.Context) (string, error) { return key, nil }}
}

// AccessToken is the credential of a login. The function returns a valid token for each request, as
// oauth2.TokenSource does.
func AccessToken(token func(context.Context) (string, error)) Credential {
	return Credential{header: func(string) string { return "Authorization" }, prefix: "Bearer ", value: token}
}

// UploadSignature permits uploads only. The function returns a valid signature for each request.
func UploadSignature(signature func(context.Context) (string, error)) Credential {
	return Credential{header: func(brand string) string { return "x-" + brand + "-signature" }, value: signature, upload: true}
}

// NewOfSignature returns a client for the uploads that a signature permits, from the answer to CreateSignature.
func NewOfSignature(created Signature, options Options) (*Client, error) {
	baseURL := strings.TrimSuffix(strings.TrimRight(created.ResumableURL, "/"), resumablePath)
	return New(baseURL, UploadSignature(func(context.Context) (string, error) { return created.Signature, nil }), options)
}

// New returns a client of the service at a base URL.
func New(baseURL string, credential Credential, options Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(baseURL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("mediastack: the base URL %q is not an http or https URL", baseURL)
	}
	if credential.value == nil {
		return nil, errors.New("mediastack: the credential is missing: use APIKey, AccessToken or UploadSignature")
	}
	t, err := newTransport(base, credential, options)
	if err != nil {
		return nil, err
	}
	generated, err := api.NewClientWithResponses(base.String(), api.WithHTTPClient(t))
	if err != nil {
		return nil, err
	}
	return &Client{API: generated, transport: t}, nil
}
