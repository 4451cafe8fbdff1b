// Package endpoint holds the paths below the base URL that the operator publishes in the
// status and the Secrets of a MediaAccount, and that the runtime serves.
package endpoint

const (
	// Resumable is the path of resumable uploads (TUS).
	Resumable = "/media/create/resumable"
	// Tools is the path of the MCP endpoint.
	Tools = "/mcp"
)
