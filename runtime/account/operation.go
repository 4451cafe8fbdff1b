package account

import "slices"

// Operation is something that can be done with an account's media. REST routes, TUS uploads
// and MCP tools perform operations, and permissions are granted by operation. An MCP tool
// has the name of its operation.
type Operation string

// The operations.
const (
	ListMedia             Operation = "list_media"
	GetMedia              Operation = "get_media"
	GetMediaCount         Operation = "get_media_count"
	GetTotalStorage       Operation = "get_total_storage"
	SealMedia             Operation = "seal_media"
	DeleteMedia           Operation = "delete_media"
	UploadMedia           Operation = "upload_media"
	CreateUploadSignature Operation = "create_upload_signature"
	GetMediaSettings      Operation = "get_media_settings"
	UpdateMediaSettings   Operation = "update_media_settings"
)

// Reads reports whether the operation changes nothing and grants no permission to. Any
// other operation, an unknown one included, requires the permission to write.
func (o Operation) Reads() bool {
	switch o {
	case ListMedia, GetMedia, GetMediaCount, GetTotalStorage, GetMediaSettings:
		return true
	case SealMedia, DeleteMedia, UploadMedia, CreateUploadSignature, UpdateMediaSettings:
		return false
	}
	return false
}

// ToolPolicy restricts what assistants and connected applications may do in an account.
// The zero value allows every operation.
type ToolPolicy struct {
	// ReadOnly allows only operations that change nothing.
	ReadOnly bool
	// Tools are the names of the allowed operations: nil = all, empty = none.
	Tools []string
}

// Allows reports whether the policy allows an operation.
func (p ToolPolicy) Allows(operation Operation) bool {
	return (operation.Reads() || !p.ReadOnly) && (p.Tools == nil || slices.Contains(p.Tools, string(operation)))
}

// Equal reports whether the policies are the same. A nil list differs from an empty one.
func (p ToolPolicy) Equal(other ToolPolicy) bool {
	return p.ReadOnly == other.ReadOnly && (p.Tools == nil) == (other.Tools == nil) && slices.Equal(p.Tools, other.Tools)
}
