// Package imagetest makes image files of every kind that the imaging program must
// take, refuse or survive: upright and turned, small and huge, whole and broken,
// honest and hostile. Everything is made by code, the same bytes each time; what Go
// has no encoder for is made by the vips command line. Tests and benchmarks call it.
package imagetest

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
)

// File is one file of the corpus.
type File struct {
	// Name is what is special about it.
	Name string
	// MimeType is what an upload would be taken for.
	MimeType string
	Data     []byte
}

// Width and Height are the size of Picture.
const (
	Width  = 600
	Height = 400
)

// Corners are the colours of Picture's corners: top left, top right, bottom left, bottom right.
var Corners = [4]color.RGBA{{220, 20, 20, 255}, {20, 200, 20, 255}, {20, 20, 220, 255}, {240, 240, 240, 255}}

// Picture has a colour of its own in each quarter, so that turning, mirroring and
// shifts of colour show.
func Picture(width, height int) *image.NRGBA {
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			quarter := 0
			if x >= width/2 {
				quarter++
			}
			if y >= height/2 {
				quarter += 2
			}
			c := Corners[quarter]
			picture.SetNRGBA(x, y, color.NRGBA(c))
		}
	}
	return picture
}

// Photo is a picture with the smooth parts and the noise of a photograph, for benchmarks.
func Photo(width, height int) *image.NRGBA {
	random := rand.New(rand.NewPCG(1, 2))
	photo := image.NewNRGBA(image.Rect(0, 0, width, height))
	const cell = 64
	columns := width/cell + 2
	lattice := make([][3]int, columns*(height/cell+2))
	for i := range lattice {
		lattice[i] = [3]int{random.IntN(230), random.IntN(230), random.IntN(230)}
	}
	for y := range height {
		for x := range width {
			at := y/cell*columns + x/cell
			fx, fy := x%cell, y%cell
			var rgb [3]uint8
			for c := range rgb {
				top := lattice[at][c]*(cell-fx) + lattice[at+1][c]*fx
				bottom := lattice[at+columns][c]*(cell-fx) + lattice[at+columns+1][c]*fx
				rgb[c] = uint8((top*(cell-fy)+bottom*fy)/(cell*cell) + random.IntN(25))
			}
			photo.SetNRGBA(x, y, color.NRGBA{rgb[0], rgb[1], rgb[2], 255})
		}
	}
	return photo
}

// Stored turns a picture the way a camera stores it: shown with the EXIF orientation
// it is upright again.
func Stored(picture image.Image, orientation int) image.Image {
	width, height := picture.Bounds().Dx(), picture.Bounds().Dy()
	if orientation >= 5 {
		width, height = height, width
	}
	stored := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			right, bottom := width-1-x, height-1-y
			var from image.Point
			switch orientation {
			case 2:
				from = image.Pt(right, y)
			case 3:
				from = image.Pt(right, bottom)
			case 4:
				from = image.Pt(x, bottom)
			case 5:
				from = image.Pt(y, x)
			case 6: // shown turned by 90 degrees clockwise
				from = image.Pt(bottom, x)
			case 7:
				from = image.Pt(bottom, right)
			case 8:
				from = image.Pt(y, right)
			default:
				from = image.Pt(x, y)
			}
			stored.Set(x, y, picture.At(from.X, from.Y))
		}
	}
	return stored
}

// JPEG encodes a picture.
func JPEG(picture image.Image) []byte {
	var file bytes.Buffer
	if err := jpeg.Encode(&file, picture, &jpeg.Options{Quality: 92}); err != nil {
		panic(err) // a picture in memory can always be encoded
	}
	return file.Bytes()
}

// PNG encodes a picture.
func PNG(picture image.Image) []byte {
	var file bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&file, picture); err != nil {
		panic(err) // as above
	}
	return file.Bytes()
}

// GIF encodes an animation whose frames shrink the picture's red quarter.
func GIF(width, height, frames int) []byte {
	animation := &gif.GIF{}
	palette := color.Palette{color.Black}
	for _, c := range Corners {
		palette = append(palette, c)
	}
	picture := Picture(width, height)
	for n := range frames {
		frame := image.NewPaletted(picture.Bounds(), palette)
		for y := range height {
			for x := range width {
				frame.Set(x, y, picture.At(x, y))
			}
		}
		if n > 0 {
			frame.SetColorIndex(0, 0, 0)
		}
		animation.Image = append(animation.Image, frame)
		animation.Delay = append(animation.Delay, 10)
	}
	var file bytes.Buffer
	if err := gif.EncodeAll(&file, animation); err != nil {
		panic(err) // as above
	}
	return file.Bytes()
}

// vips runs the vips command line on one file and gives what it wrote. load are
// options of the loader, and out a file name with options of the saver.
func vips(ctx context.Context, in []byte, suffix, load, out string, operation ...string) ([]byte, error) {
	folder, err := os.MkdirTemp("", "imagecorpus-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	source := filepath.Join(folder, "in"+suffix)
	if err := os.WriteFile(source, in, 0o600); err != nil {
		return nil, err
	}
	args := []string{"copy"}
	if len(operation) > 0 {
		args = operation[:1:1]
	}
	args = append(args, source+load, filepath.Join(folder, "out"+out))
	if len(operation) > 1 {
		args = append(args, operation[1:]...)
	}
	cmd := exec.CommandContext(ctx, "vips", args...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("vips %v: %w: %s", args, err, said)
	}
	made, err := filepath.Glob(filepath.Join(folder, "out*"))
	if err != nil || len(made) != 1 {
		return nil, fmt.Errorf("vips %v wrote %v", args, made)
	}
	return os.ReadFile(made[0])
}
