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
	UpdateMedia           Operation = "update_media"
	DeleteMedia           Operation = "delete_media"
	UploadMedia           Operation = "upload_media"
	UploadMediaFromURL    Operation = "upload_media_from_url"
	GetUploadFromURL      Operation = "get_upload_from_url"
	CreateUploadSignature Operation = "create_upload_signature"
	GetMediaSettings      Operation = "get_media_settings"
	UpdateMediaSettings   Operation = "update_media_settings"

	SearchMedia Operation = "search_media"
	ListDrafts  Operation = "list_drafts"
	ListGroups  Operation = "list_groups"

	ListMetadataKeys Operation = "list_metadata_keys"

	ListDeletedMedia Operation = "list_deleted_media"
	RestoreMedia     Operation = "restore_media"

	ListActivity Operation = "list_activity"

	RequestUpload Operation = "request_upload"
	GetUpload     Operation = "get_upload"

	ViewMedia Operation = "view_media"

	GetApproval Operation = "get_approval"
)

// Access is what an operation needs the permission to do.
type Access int

// The kinds of access. The zero value is that of an unknown operation.
const (
	Writing  Access = iota
	Reading         // changes nothing, and grants no permission to
	Deleting        // removes media
)

// The toolsets: sets of MCP tools, which an account offers to assistants or does not.
const (
	ToolsetCore     = "core" // of every account that does not say otherwise
	ToolsetOrganize = "organize"
	ToolsetFind     = "find"
	ToolsetUndo     = "undo"
	ToolsetFetch    = "fetch"
	ToolsetActivity = "activity"
	// ToolsetHandover has the tools by which a person hands a file over on a page.
	ToolsetHandover = "handover"
	// ToolsetCapabilities has no tool of its own: it adds arguments to create_upload_signature.
	ToolsetCapabilities = "capabilities"
	// ToolsetUploads has no tool of its own: it adds what was stored to the result of upload_media.
	ToolsetUploads = "uploads"
	// ToolsetSlim has no tool of its own: it shortens the items of lists, and completes those of tools that return one.
	ToolsetSlim = "slim"
	// ToolsetSee shows images.
	ToolsetSee = "see"
	// ToolsetApproval is that of accounts with spec.mcp.approval. It cannot be chosen.
	ToolsetApproval = "approval"
)

// operations are all operations, with what is told of them elsewhere: this table is the only source.
// `make generate` writes the names that the MediaAccount accepts and the table of docs/reference/mcp.md from
// it (hack/operations). The OpenAPI document names the operation of each path (x-operation).
var operations = []struct {
	name    Operation
	access  Access
	toolset string
}{
	{ListMedia, Reading, ToolsetCore},
	{GetMedia, Reading, ToolsetCore},
	{GetMediaCount, Reading, ToolsetCore},
	{GetTotalStorage, Reading, ToolsetCore},
	{SealMedia, Writing, ToolsetCore},
	{UpdateMedia, Writing, ToolsetOrganize},
	{DeleteMedia, Deleting, ToolsetCore},
	{UploadMedia, Writing, ToolsetCore},
	{UploadMediaFromURL, Writing, ToolsetFetch},
	{GetUploadFromURL, Reading, ToolsetFetch},
	{CreateUploadSignature, Writing, ToolsetCore},
	{GetMediaSettings, Reading, ToolsetCore},
	{UpdateMediaSettings, Writing, ToolsetCore},
	{SearchMedia, Reading, ToolsetFind},
	{ListDrafts, Reading, ToolsetFind},
	{ListGroups, Reading, ToolsetFind},
	{ListMetadataKeys, Reading, ToolsetFind},
	{ListDeletedMedia, Reading, ToolsetUndo},
	{RestoreMedia, Writing, ToolsetUndo},
	{ListActivity, Reading, ToolsetActivity},
	{RequestUpload, Writing, ToolsetHandover},
	{GetUpload, Reading, ToolsetHandover},
	{ViewMedia, Reading, ToolsetSee},
	{GetApproval, Reading, ToolsetApproval},
}

// Operations returns all operations.
func Operations() []Operation {
	names := make([]Operation, len(operations))
	for i, one := range operations {
		names[i] = one.name
	}
	return names
}

// Known reports whether there is the operation.
func (o Operation) Known() bool { return slices.Contains(Operations(), o) }

// Access returns what the operation needs the permission to do. An unknown one needs the permission to write.
func (o Operation) Access() Access {
	for _, one := range operations {
		if one.name == o {
			return one.access
		}
	}
	return Writing
}

// Reads reports whether the operation changes nothing and grants no permission to.
func (o Operation) Reads() bool { return o.Access() == Reading }

// Toolset returns the toolset of the tool with the name of the operation.
func (o Operation) Toolset() string {
	for _, one := range operations {
		if one.name == o {
			return one.toolset
		}
	}
	return ToolsetCore
}

// Toolsets returns all toolsets.
func Toolsets() []string {
	return []string{ToolsetCore, ToolsetOrganize, ToolsetFind, ToolsetUndo, ToolsetCapabilities, ToolsetFetch, ToolsetUploads, ToolsetActivity, ToolsetSlim, ToolsetSee, ToolsetHandover}
}

// ToolPolicy restricts what assistants and connected applications may do in an account.
// The zero value allows every operation.
type ToolPolicy struct {
	// ReadOnly allows only operations that change nothing.
	ReadOnly bool
	// Tools are the names of the allowed operations: nil = all, empty = none.
	Tools []string
	// Toolsets are the sets whose tools MCP clients get: nil = core. They do not restrict REST and TUS,
	// which offer all operations to everyone.
	Toolsets []string
	// Approval says which changes wait for the yes of an owner, and Ceilings bound all of them.
	Approval Approval
	Ceilings Ceilings
}

// Offers reports whether MCP clients get the tool with the name of the operation.
func (p ToolPolicy) Offers(operation Operation) bool {
	return p.HasToolset(operation.Toolset())
}

// HasToolset reports whether MCP clients get the tools of a toolset.
func (p ToolPolicy) HasToolset(toolset string) bool {
	if toolset == ToolsetApproval {
		return p.Approval.On()
	}
	if p.Toolsets == nil {
		return toolset == ToolsetCore
	}
	return slices.Contains(p.Toolsets, toolset)
}

// Allows reports whether the policy allows an operation.
func (p ToolPolicy) Allows(operation Operation) bool {
	if operation == GetApproval { // a list of tools says nothing about it: who may ask may read the answer
		return true
	}
	return (operation.Reads() || !p.ReadOnly) && (p.Tools == nil || slices.Contains(p.Tools, string(operation)))
}

// Equal reports whether the policies are the same. A nil list differs from an empty one.
func (p ToolPolicy) Equal(other ToolPolicy) bool {
	return p.ReadOnly == other.ReadOnly && (p.Tools == nil) == (other.Tools == nil) && slices.Equal(p.Tools, other.Tools) &&
		(p.Toolsets == nil) == (other.Toolsets == nil) && slices.Equal(p.Toolsets, other.Toolsets) &&
		p.Approval == other.Approval && p.Ceilings == other.Ceilings
}
