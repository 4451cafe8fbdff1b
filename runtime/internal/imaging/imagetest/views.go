package imagetest

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"math/rand/v2"
)

// ViewKind is a kind of image that models look at.
type ViewKind struct {
	Name, MimeType string
	// Corners are set if the image shows Picture, upright; Cut if its red quarter is transparent.
	Corners, Cut bool
	// Make returns an image of the kind of about this size; the number makes it differ from others.
	Make func(ctx context.Context, width, height, number int) ([]byte, error)
}

// ViewKinds returns kinds of images: photos, drawings, animations, transparent ones, CMYK, all orientations, noise, which compresses
// worst, and thin ones.
func ViewKinds() []ViewKind {
	drawn := func(encode func(image.Image) []byte) func(context.Context, int, int, int) ([]byte, error) {
		return func(_ context.Context, width, height, _ int) ([]byte, error) {
			return encode(Picture(width, height)), nil
		}
	}
	converted := func(picture func(width, height, number int) image.Image, out string, operation ...string) func(context.Context, int, int, int) ([]byte, error) {
		return func(ctx context.Context, width, height, number int) ([]byte, error) {
			return vips(ctx, PNG(picture(width, height, number)), ".png", "", out, operation...)
		}
	}
	plain := func(width, height, _ int) image.Image { return Picture(width, height) }
	cut := func(width, height, _ int) image.Image { return cutPicture(width, height) }
	return []ViewKind{
		{Name: "photo as JPEG", MimeType: typeJPEG, Make: func(_ context.Context, width, height, _ int) ([]byte, error) { return JPEG(Photo(width, height)), nil }},
		{Name: "JPEG of every orientation, with GPS", MimeType: typeJPEG, Corners: true, Make: func(_ context.Context, width, height, number int) ([]byte, error) {
			return WithEXIF(JPEG(Stored(Picture(width, height), 1+number%8)), 1+number%8), nil
		}},
		{Name: "JPEG of CMYK", MimeType: typeJPEG, Make: converted(plain, ".jpg", "colourspace", "cmyk")},
		{Name: "PNG", MimeType: typePNG, Corners: true, Make: drawn(PNG)},
		{Name: "transparent PNG", MimeType: typePNG, Corners: true, Cut: true, Make: func(_ context.Context, width, height, _ int) ([]byte, error) {
			return PNG(cutPicture(width, height)), nil
		}},
		{Name: "transparent WebP", MimeType: typeWebP, Corners: true, Cut: true, Make: converted(cut, ".webp")},
		{Name: "animated GIF", MimeType: typeGIF, Corners: true, Make: func(_ context.Context, width, height, number int) ([]byte, error) {
			return GIF(width, height, 2+number%4), nil
		}},
		{Name: "animated WebP", MimeType: typeWebP, Corners: true, Make: func(ctx context.Context, width, height, number int) ([]byte, error) {
			return vips(ctx, GIF(width, height, 2+number%3), ".gif", "[n=-1]", ".webp")
		}},
		{Name: "HEIC", MimeType: typeHEIC, Corners: true, Make: converted(plain, ".heic")},
		{Name: "transparent AVIF", MimeType: typeAVIF, Corners: true, Cut: true, Make: converted(cut, ".avif[effort=0]")},
		{Name: "noise as JPEG", MimeType: typeJPEG, Make: func(_ context.Context, width, height, number int) ([]byte, error) {
			return JPEG(Noise(width, height, number)), nil
		}},
		{Name: "noise as PNG", MimeType: typePNG, Make: func(_ context.Context, width, height, number int) ([]byte, error) {
			return PNG(Noise(width, height, number)), nil
		}},
		{Name: "thin PNG", MimeType: typePNG, Make: func(_ context.Context, width, _, number int) ([]byte, error) {
			return PNG(Noise(width, 1+number%3, number)), nil
		}},
	}
}

// Huge returns images of 100 megapixels: a photo, a drawing, and one that is interlaced, of which no row is complete before the last one.
func Huge(ctx context.Context) ([]File, error) {
	var files []File
	for _, c := range []struct {
		name, mimeType, out string
		of                  image.Image
	}{
		{"photo of 100 megapixels", typeJPEG, ".jpg[Q=70]", Photo(1000, 1000)},
		{"drawing of 100 megapixels", typePNG, ".png", Picture(1000, 1000)},
		{"progressive photo of 100 megapixels", typeJPEG, ".jpg[Q=50,interlace]", Photo(1000, 1000)},
	} {
		made, err := vips(ctx, PNG(c.of), ".png", "", c.out, "replicate", "10", "10")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		files = append(files, File{c.name, c.mimeType, made})
	}
	return files, nil
}

// Noise is a picture of random pixels.
func Noise(width, height, number int) *image.NRGBA {
	random := rand.New(rand.NewPCG(uint64(number), 7))
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			value := random.Uint32()
			picture.SetNRGBA(x, y, color.NRGBA{uint8(value), uint8(value >> 8), uint8(value >> 16), 255})
		}
	}
	return picture
}

// cutPicture is Picture without its red quarter.
func cutPicture(width, height int) *image.NRGBA {
	picture := Picture(width, height)
	for y := range height / 2 {
		for x := range width / 2 {
			picture.SetNRGBA(x, y, color.NRGBA{})
		}
	}
	return picture
}
