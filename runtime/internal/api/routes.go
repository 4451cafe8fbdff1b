package api

import "mediastack.dev/runtime/endpoint"

// The routes of the runtime, as patterns of the router. Those of the login pages are in
// package oauthhttp, which alone uses them.
const (
	UploadRoute          = "/media/create"
	UploadFromURLRoute   = "/media/create/url"
	URLUploadRoute       = UploadFromURLRoute + "/{jobId}"
	SealRoute            = "/media/seal/{mediaId}"
	ListRoute            = "/media/get"
	CountRoute           = "/media/get/count"
	TotalStorageRoute    = "/media/get/size"
	GetRoute             = "/media/get/{mediaId}"
	ItemRoute            = "/media/{mediaId}"
	BatchRoute           = "/media/batch"
	DeleteRoute          = "/media/delete/{mediaId}"
	ListDeletedRoute     = "/media/deleted"
	ListGroupsRoute      = "/media/groups"
	MetadataKeysRoute    = "/media/metadata/keys"
	RestoreRoute         = "/media/restore/{mediaId}"
	ListUploadsRoute     = "/media/uploads"
	EndUploadRoute       = ListUploadsRoute + "/{uploadId}"
	EventsRoute          = "/events"
	CreateSignatureRoute = "/media/signature/create"
	GetSettingsRoute     = "/settings/media/get"
	UpdateSettingsRoute  = "/settings/media/create"

	SpecRoute = "/openapi.json"

	// ResumableRoute is the collection of TUS uploads, ResumableUploadRoute one of them.
	ResumableRoute       = endpoint.Resumable
	ResumableUploadRoute = ResumableRoute + "/{uploadId}"

	// ToolsRoute is the MCP endpoint.
	ToolsRoute = endpoint.Tools
	// ServerCardRoute is the server card, at the path that MCP reserves for it.
	ServerCardRoute = ToolsRoute + "/server-card"

	// FilePath begins the URLs of files.
	FilePath = "/media/file/"

	// The OAuth endpoints that applications call. WellKnownPath begins the URLs of metadata
	// documents (RFC 8615).
	RegisterRoute = "/oauth/register"
	TokenRoute    = "/oauth/token" //nolint:gosec // G101: a path, no credential
	RevokeRoute   = "/oauth/revoke"
	WellKnownPath = "/.well-known/"
)
