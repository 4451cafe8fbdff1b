package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// uploadMedia creates a draft from the file of the request. The file has been received, and is
// stored only if all arguments are valid.
func (a *API) uploadMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	named := args.text(fileArgument)
	fields := media.Fields{
		FileName: args.text("fileName"), MimeType: args.text("mimeType"),
		Caption: args.text("caption"), Access: args.access("access"), Group: args.text("group"),
	}
	expected := args.expectedFile(identity.Account.ToolPolicy)
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
	single, unpadded, err := stateFromContext(ctx).file(named)
	if err != nil {
		return nil, a.describeUploadError(identity, err)
	}
	defer single.Close(ctx)
	if err := expected.check(single, unpadded); err != nil {
		return nil, err
	}
	single.DeclareType(fields.MimeType)
	item, err := single.Commit(ctx, fields)
	if err != nil {
		return nil, a.describeUploadError(identity, err)
	}
	made := uploaded{MediaID: item.ID.String()}
	if !slices.ContainsFunc(reportingToolsets(), identity.Account.ToolPolicy.HasToolset) {
		return made, nil
	}
	report := single.Report(fields)
	_, sum := single.Received()
	verified := reported{uploaded: made, Size: report.Size, DetectedType: report.DetectedType, SHA256: sum, Width: item.Facts.Width, Height: item.Facts.Height}
	if report.Unreadable {
		verified.Warning = unreadable
	}
	return verified, nil
}

// uploaded is the result of upload_media without the toolset uploads.
type uploaded struct {
	MediaID string `json:"mediaId"`
}

// reported is the result of upload_media with a toolset that reports what was stored.
type reported struct {
	uploaded
	Size         int64        `json:"size"`
	DetectedType string       `json:"detectedType"`
	SHA256       media.SHA256 `json:"sha256"`
	Width        int          `json:"width,omitempty"`
	Height       int          `json:"height,omitempty"`
	Warning      string       `json:"warning,omitempty"`
}

// reportingToolsets are the toolsets that report what upload_media has stored: that for it alone, and the one for models.
func reportingToolsets() []string { return []string{account.ToolsetUploads, account.ToolsetSlim} }

// expectedFile is what a model knows of the file that it sends. The zero value expects nothing.
type expectedFile struct {
	size   *int64
	sha256 media.SHA256
	// padded is set if base64 without padding, which is what most text that was cut off is, is rejected unless size or sha256 shows that
	// it is whole.
	padded bool
}

// expectedFile reads what is expected of the file.
func (a *arguments) expectedFile(policy account.ToolPolicy) expectedFile {
	expected := expectedFile{size: a.integer64("size"), padded: policy.HasToolset(account.ToolsetSlim)}
	if a.err == nil && expected.size != nil && *expected.size < 1 {
		a.err = fault.New(fault.Invalid, "size must be 1 or more: the bytes of the file")
	}
	if text := a.text("sha256"); text != "" && a.err == nil {
		if err := expected.sha256.UnmarshalText([]byte(text)); err != nil || len(expected.sha256) != sha256.Size {
			a.err = fault.New(fault.Invalid, "sha256 must be %d hexadecimal digits: the SHA-256 of the bytes of the file", 2*sha256.Size)
		}
	}
	return expected
}

// check returns why the file that has arrived is not the expected one.
func (e expectedFile) check(file *upload.Single, unpadded bool) error {
	const again = "nothing was stored. Send the base64 of the whole file again"
	size, sum := file.Received()
	switch {
	case e.padded && unpadded && e.size == nil && e.sha256 == nil:
		return fault.New(fault.Invalid, "%s ends without its padding, so it was probably cut off after %d bytes of the file; %s, with its padding, or with size", fileArgument, size, again)
	case e.size != nil && size < *e.size:
		return fault.New(fault.Invalid, "the file is incomplete: %d bytes arrived, and size is %d, so the base64 was cut off; %s", size, *e.size, again)
	case e.size != nil && size > *e.size:
		return fault.New(fault.Invalid, "the file is another one: %d bytes arrived, and size is %d; %s", size, *e.size, again)
	case e.sha256 != nil && !bytes.Equal(sum, e.sha256):
		return fault.New(fault.Invalid, "the file is another one: the SHA-256 of the %d bytes that arrived is %s, so the base64 was cut off or changed; %s", size, sum, again)
	}
	return nil
}

// unreadable is the warning of an image that cannot be decoded: models cut long base64 off, or invent it.
const unreadable = "not readable as an image: the bytes are incomplete, damaged or of another type. Compare size with the size of the file. The draft is stored as it was sent; don't seal it, and upload the whole file again."

// reports returns what the toolsets uploads and slim add to upload_media.
func reports(v view) *extension {
	padding := ""
	if v.has(account.ToolsetSlim) {
		padding = " Base64 that ends without its padding is rejected unless one of them is sent."
	}
	return &extension{
		toolsets: reportingToolsets(), without: v.compareSize(),
		description: " Send `size` or `sha256` if you know one: a file that was cut off on its way is then rejected. Otherwise compare `size` of the result with the size of the file: base64 that was cut off is stored as it was sent." + padding,
		input: properties{
			prop("size", intMin(1), "Bytes of the whole file, before base64. A file of another size is rejected, and nothing is stored."),
			prop("sha256", str(), "SHA-256 of the whole file, before base64, as 64 hexadecimal digits. Only send one that was computed. Another file is rejected, and nothing is stored."),
		},
		output: properties{
			prop("size", intMin(0), "Bytes of the file as they arrived."),
			prop("detectedType", str(), "MIME type that the bytes show, whatever mimeType says; application/octet-stream when they show none."),
			prop("sha256", str(), "SHA-256 of the bytes as they arrived."),
		},
		optional: append(pixels(), prop("warning", str(), "Set when the file claims to be an image and cannot be read as one; absent otherwise.")),
	}
}

// compareSize is what upload_media says without a toolset that reports: its result is that of the specification, which does not say what was stored.
func (v view) compareSize() string {
	if !v.offers(account.GetMedia) {
		return " Base64 that was cut off is stored as it was sent."
	}
	return " Base64 that was cut off is stored as it was sent: " + v.when(account.SealMedia, "before seal_media, ") + "compare `size` of get_media with the size of the file, unless the item has `original`, which is a conversion of a whole image."
}

// describeUploadError adds the alternative to the fault of a file that is too large.
func (a *API) describeUploadError(identity auth.Identity, err error) error {
	if errors.Is(err, errFileTooLarge) {
		return fault.Wrap(err, fault.TooLarge, "the file is larger than %d bytes (10 MB), the maximum of %s; nothing was stored. Don't split it: %s", maxFile, account.UploadMedia, a.largeFileHint(a.viewOf(identity)))
	}
	return err
}
