package mcp

import (
	"context"
	"fmt"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// signature is the result of create_upload_signature without the toolset capabilities.
type signature struct {
	Signature string `json:"signature"`
}

func (a *API) createUploadSignature(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	extended := identity.Account.ToolPolicy.HasToolset(account.ToolsetCapabilities)
	request := api.SignatureRequest{Group: new(args.text("group"))}
	if extended {
		args.readCapability(&request)
	}
	if args.err != nil {
		return nil, args.err
	}
	created, expires, err := a.deps.Auth.Issue(ctx, identity, request)
	if err != nil || !extended {
		return signature{created}, err
	}
	return api.NewSignature(a.base, created, expires), nil
}

// readCapability reads the arguments of the toolset capabilities.
func (a *arguments) readCapability(request *api.SignatureRequest) {
	request.ExpiresIn, request.MaxBytes, request.Count = a.integer("expiresIn"), a.integer64("maxBytes"), a.integer("count")
	request.Types = read[[]string](a, "types", "a list of strings")
	request.Access = new(api.Access(a.access("access")))
	request.Metadata = new(api.Metadata(a.texts("metadata")))
	request.Ref, request.Seal = new(a.text("ref")), a.boolean("seal")
}

// capabilities returns what the toolset capabilities adds to create_upload_signature.
func capabilities(v view) *extension {
	return &extension{
		toolsets:    []string{account.ToolsetCapabilities},
		description: " Restrict it to what the upload needs: what is set here cannot be changed by the upload.",
		input: properties{
			prop("expiresIn", intRange(int(upload.MinCapabilityLifetime.Seconds()), int(upload.MaxCapabilityLifetime.Seconds())), "Seconds for which uploads may begin. Leave out for the time that the service sets."),
			prop("maxBytes", intMin(1), "Maximum size of the file in bytes. Leave out for that of the account."),
			prop("types", array(str()), "Types that the file may have, such as image/png or video/*; leave out for all. They are held against the bytes of the file."),
			prop("count", intRange(1, upload.MaxCapabilityCount), "Maximum number of uploads. Leave out for any number."),
			prop("access", enum(string(media.Public), string(media.Private)), "Access of every upload."),
			prop("metadata", schema{Type: "object"}, fmt.Sprintf("Metadata of every upload: up to %d pairs of strings.", media.MaxMetadataPairs)),
			prop("ref", maxLen(upload.MaxRef), "Reference of your own, such as the id of a user: the item has it. The holder of the signature can read it."),
			prop("seal", boolean(), "Seal the upload as soon as it is complete"+v.when(account.SealMedia, ", so that seal_media is not needed")+"."),
		},
		output: properties{
			prop("expiresAt", schema{Type: "string", Format: "date-time"}, "Until when uploads may begin."),
			prop("uploadUrl", schema{Type: "string", Format: "uri"}, "URL for POST as multipart/form-data."),
			prop("resumableUrl", schema{Type: "string", Format: "uri"}, "URL for TUS 1.0.0."),
		},
	}
}
