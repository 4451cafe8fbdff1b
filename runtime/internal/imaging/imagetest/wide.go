package imagetest

import (
	"context"
	"image"
	"image/color"
	"math"
)

// adobeRGB are the primaries of Adobe RGB (1998), each as X, Y and Z under D50.
var adobeRGB = [9]float64{0.60974, 0.31111, 0.01947, 0.20528, 0.62567, 0.06087, 0.14919, 0.06322, 0.74457}

// Wide returns files that show Picture in other color spaces than sRGB: Display P3, and Adobe RGB (of 8 and 16 bits).
func Wide(ctx context.Context) ([]File, error) {
	picture := Picture(Width, Height)
	p3, err := vips(ctx, PNG(picture), ".png", "", ".png", "icc_transform", "p3")
	if err != nil {
		return nil, err
	}
	p3JPEG, err := vips(ctx, p3, ".png", "", ".jpg[Q=95]")
	if err != nil {
		return nil, err
	}
	p3WebP, err := vips(ctx, p3, ".png", "", ".webp[lossless]")
	if err != nil {
		return nil, err
	}
	adobe := image.NewNRGBA64(picture.Bounds())
	for y := range Height {
		for x := range Width {
			adobe.SetNRGBA64(x, y, toAdobeRGB(picture.NRGBAAt(x, y)))
		}
	}
	chunk := Chunk("iCCP", append([]byte("p\x00\x00"), compressed(AdobeRGB())...))
	return []File{
		{"Display P3, png", typePNG, p3},
		{"Display P3, jpeg", typeJPEG, p3JPEG},
		{"Display P3, webp", typeWebP, p3WebP},
		{"Adobe RGB, jpeg", typeJPEG, WithSegment(JPEG(adobe), 0xe2, "ICC_PROFILE\x00\x01\x01", AdobeRGB())},
		{"Adobe RGB, png of 16 bits", typePNG, WithChunks(PNG(adobe), chunk)},
	}, nil
}

// toAdobeRGB converts a color of sRGB.
func toAdobeRGB(c color.NRGBA) color.NRGBA64 {
	linear := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	// The primaries of the two have the same blue and, but for their luminance, the same red: both matrices are under D50.
	red, green, blue := linear(c.R), linear(c.G), linear(c.B)
	stored := func(v float64) uint16 { return uint16(math.Round(65535 * math.Pow(min(max(v, 0), 1), 1/2.2))) }
	return color.NRGBA64{
		R: stored(0.715127*red + 0.284868*green + 0.000005*blue),
		G: stored(green),
		B: stored(0.041166*green + 0.958834*blue),
		A: 65535,
	}
}
