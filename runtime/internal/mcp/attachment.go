package mcp

import (
	"cmp"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/remotefile"
	"mediastack.dev/runtime/media"
)

// attachmentArgument is the argument in which a host puts a file of the conversation.
const attachmentArgument = "file"

// fileParams is the member of _meta that names the arguments which a host fills with a file of the conversation: an object with an address of
// the host, which is valid for a short time.
const fileParams = "openai/fileParams"

// attachment is a file of the conversation, as a host sends it.
type attachment struct {
	DownloadURL string `json:"download_url"`
	FileID      string `json:"file_id"`
	MimeType    string `json:"mime_type"`
	FileName    string `json:"file_name"`
}

// attachments returns what the toolset handover adds to upload_media_from_url: the file can be one that the user has attached in the conversation.
func attachments() *extension {
	return &extension{
		toolsets: []string{account.ToolsetHandover}, optionalInput: "url", meta: sdk.Meta{fileParams: []string{attachmentArgument}},
		description: " Send `url`, or `file` for a file that the user has attached to the conversation, if your host fills it in; never invent its members.",
		input: properties{prop(attachmentArgument, schema{Type: "object", Required: []string{"download_url", "file_id"}, Properties: properties{
			prop("download_url", maxLen(remotefile.MaxURL), "URL of the file, from the host."),
			prop("file_id", str(), "Id of the file at the host."),
			prop("mime_type", str(), "MIME type of the file."),
			prop("file_name", str(), "Name of the file."),
		}}, "A file that the user has attached, in the place of url. The host fills it in.")},
	}
}

// attachment reads which file is uploaded from a URL: its URL and the name of the item.
func (a *arguments) attachment() (address, fileName string) {
	address, fileName = a.text("url"), a.text("fileName")
	file := read[attachment](a, attachmentArgument, "an object with download_url and file_id, which the host fills in")
	switch {
	case a.err != nil:
	case file != nil && address != "":
		a.err = fault.New(fault.Invalid, "send url or %s, not both", attachmentArgument)
	case file != nil && (file.DownloadURL == "" || file.FileID == ""):
		a.err = fault.New(fault.Invalid, "%s must have download_url and file_id, which the host fills in; without a host that does, send url", attachmentArgument)
	case file != nil:
		address = file.DownloadURL
		if name := strings.TrimSpace(cmp.Or(fileName, file.FileName)); name != "" {
			fileName = media.CleanFileName(name)
		}
	case address == "":
		a.err = fault.New(fault.Invalid, "url is missing: %s needs url, or %s", account.UploadMediaFromURL, attachmentArgument)
	}
	return address, fileName
}
