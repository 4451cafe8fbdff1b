package mcp

import (
	"context"
	"errors"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// uploadMedia creates a draft from the file of the request. The file has been received, and is
// stored only if all arguments are valid.
func (a *API) uploadMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	named := args.text(fileArgument)
	fields := media.Fields{
		FileName: args.text("fileName"), MimeType: args.text("mimeType"),
		Caption: args.text("caption"), Access: args.access("access"), Group: args.text("group"),
	}
	if args.err != nil {
		return nil, args.err
	}
	switch {
	case fields.FileName == "":
		return nil, fault.New(fault.Invalid, "fileName is empty: send a name with its extension, such as photo.jpg")
	case fields.MimeType == "":
		return nil, fault.New(fault.Invalid, "mimeType is empty: send a MIME type such as image/jpeg")
	}
	if err := fields.Validate(); err != nil {
		return nil, err
	}
	upload, err := stateFromContext(ctx).file(named)
	if err != nil {
		return nil, a.describeUploadError(err)
	}
	defer upload.Close(ctx)
	upload.DeclareType(fields.MimeType)
	item, err := upload.Commit(ctx, fields)
	if err != nil {
		return nil, a.describeUploadError(err)
	}
	made := uploaded{MediaID: item.ID.String()}
	if !identity.Account.ToolPolicy.HasToolset(account.ToolsetUploads) {
		return made, nil
	}
	report := upload.Report(fields)
	verified := reported{uploaded: made, Size: report.Size, DetectedType: report.DetectedType}
	if report.Unreadable {
		verified.Warning = unreadable
	}
	return verified, nil
}

// uploaded is the result of upload_media without the toolset uploads.
type uploaded struct {
	MediaID string `json:"mediaId"`
}

// reported is the result of upload_media with the toolset uploads.
type reported struct {
	uploaded
	Size         int64  `json:"size"`
	DetectedType string `json:"detectedType"`
	Warning      string `json:"warning,omitempty"`
}

// unreadable is the warning of an image that cannot be decoded: models cut long base64 off, or invent it.
const unreadable = "not readable as an image: the bytes are incomplete, damaged or of another type. Compare size with the size of the file. The draft is stored as it was sent; don't seal it, and upload the whole file again."

// reports returns what the toolset uploads adds to upload_media.
func reports() *extension {
	return &extension{
		toolset: account.ToolsetUploads, without: " " + compareSize,
		description: " Compare `size` of the result with the size of the file: base64 that was cut off is stored as it was sent.",
		output: properties{
			prop("size", intMin(0), "Bytes of the file as they arrived."),
			prop("detectedType", str(), "MIME type that the bytes show, whatever mimeType says; application/octet-stream when they show none."),
		},
		optional: properties{prop("warning", str(), "Set when the file claims to be an image and cannot be read as one; absent otherwise.")},
	}
}

// compareSize is what upload_media says without the toolset uploads: its result is that of the specification, which does not say what was stored.
const compareSize = "Base64 that was cut off is stored as it was sent: before seal_media, compare `size` of get_media with the size of the file, unless the item has `original`, which is a conversion of a whole image."

// describeUploadError adds the alternative to the fault of a file that is too large.
func (a *API) describeUploadError(err error) error {
	if errors.Is(err, errFileTooLarge) {
		return fault.Wrap(err, fault.TooLarge, "the file is larger than %d bytes (10 MB), the maximum of %s; nothing was stored. Don't split it: %s", maxFile, account.UploadMedia, a.largeFileHint())
	}
	return err
}
