package delivery

import (
	"context"
	"net/http"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
)

// substituteHeader names what a response has instead of the picture of its address: a preset, or thumbnail.
const substituteHeader = "X-Picture-Substitute"

// showsImage reports whether the client is a browser that shows the answer as an image: it shows a broken one for an error,
// and does not repeat the request. Sec-Fetch-Dest (W3C Fetch Metadata) is sent to trustworthy origins only; elsewhere the
// range image/* of Accept tells, which every browser sends for images alone.
func showsImage(r *http.Request) bool {
	if destination := r.Header.Get("Sec-Fetch-Dest"); destination != "" {
		return destination == "image"
	}
	return parseAccept(r.Header.Values("Accept"))["image/*"] > 0
}

// substitute makes the nearest picture of the item that is stored the file that is sent, after err has kept the picture that was
// asked for from being made. It reports false if the client gets the error: it does not show images, nothing is stored, or
// the item is not public, so that the signature of one picture opens no other one.
func (d *Delivery) substitute(r *http.Request, file *resolvedFile, err error) bool {
	if !fault.Is(err, fault.Busy) || !file.public || !showsImage(r) {
		return false
	}
	object, name, ok := d.nearest(r.Context(), *file)
	if !ok {
		return false
	}
	file.substitute, file.rejected = name, err
	file.object, file.result, file.again = object, rendition.Result{}, true
	return true
}

// nearest returns the stored picture of an item that is the most like the one that a file asks for, and its name: a rendition
// of the same shape, the thumbnail, or any other rendition.
func (d *Delivery) nearest(ctx context.Context, file resolvedFile) (object media.Object, name string, ok bool) {
	width, height := file.picture.size(file.item)
	found, preset, err := d.renditions.Nearest(ctx, file.item, width, height)
	if err != nil && !fault.Is(err, fault.NotFound) {
		// The client gets the error that brought it here.
		d.log.WarnContext(ctx, "no substitute of a picture is looked for", "item", file.item.ID, "account", file.item.AccountID, "error", err)
	}
	thumbnail, hasThumbnail := file.item.Objects.Find(media.Thumbnail)
	switch {
	case err == nil && (!hasThumbnail || sameShape(found.Width, found.Height, width, height)):
		object = found.Object
		object.Variant = file.variant
		return object, preset, true
	case hasThumbnail:
		return thumbnail, string(media.Thumbnail), true
	default:
		return media.Object{}, "", false
	}
}

// sameShape reports whether two pictures have the same ratio of width and height, to within 2 percent. One that has no
// size has any.
func sameShape(width, height, otherWidth, otherHeight int) bool {
	a, b := width*otherHeight, height*otherWidth
	return 50*max(a-b, b-a) <= max(a, b)
}

// size returns the size of the picture; 0 if it is not known.
func (p picture) size(item media.Item) (width, height int) {
	recipe := media.RecipeOf(p.preset, p.density, p.formats[0], item.Focus)
	if !item.Facts.HasSize() {
		return recipe.Width, recipe.Height
	}
	return recipe.Size(item.Facts.Width, item.Facts.Height)
}
