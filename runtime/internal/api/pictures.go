package api

import (
	"strconv"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// pictures returns the pictures of an item by the presets in effect. Their sizes follow from that of the image; none is
// made.
func (d AccountDocuments) pictures(item media.Item) map[string]Picture {
	original, ok := item.Objects.Find(media.Original)
	if !ok || d.Images == nil || !d.Images.Handles(original.MimeType, original.Bytes) {
		return nil
	}
	pictures := map[string]Picture{}
	for _, preset := range d.layers.Presets() {
		if picture, ok := d.picture(item, preset.Preset); ok {
			pictures[preset.Name] = picture
		}
	}
	return pictures
}

// picture returns the picture of an item by a preset, and false if it would be too large for the format of the preset. A
// density at which it is no larger than at the one before is left out.
func (d AccountDocuments) picture(item media.Item, preset settings.Preset) (Picture, bool) {
	formats := media.NegotiatedFormats(preset)
	anyClient := formats[len(formats)-1]
	picture := Picture{Densities: []PictureDensity{}}
	for _, density := range preset.Densities {
		recipe := media.RecipeOf(preset, density, anyClient, item.Focus)
		sized := item.Facts.HasSize()
		if sized && !recipe.Offered(item.Facts.Width, item.Facts.Height) {
			break
		}
		one := PictureDensity{Density: density, Url: d.URLs.PictureURL(item, preset.Name, density, "")}
		if sized {
			one.Width, one.Height = recipe.Size(item.Facts.Width, item.Facts.Height)
		}
		if density == 1 {
			picture.Url, picture.Width, picture.Height = one.Url, one.Width, one.Height
		} else if last := picture.Densities[len(picture.Densities)-1]; one.Width > 0 && one.Width == last.Width && one.Height == last.Height {
			continue
		} else {
			picture.Srcset += ", "
		}
		picture.Srcset += one.Url + " " + strconv.Itoa(density) + "x"
		picture.Densities = append(picture.Densities, one)
	}
	return picture, len(picture.Densities) > 0
}
