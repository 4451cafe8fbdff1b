//go:build cgo

package main

import (
	"errors"
	"fmt"
	"strings"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/geometry"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/vips"
)

// rejectedError is the error for a file, or a picture of it, that can't be made.
type rejectedError struct {
	reason protocol.Reason
	text   string
}

func (r *rejectedError) Error() string { return r.reason.String() + ": " + r.text }

func reject(reason protocol.Reason, format string, args ...any) *rejectedError {
	return &rejectedError{reason, fmt.Sprintf(format, args...)}
}

// classify returns an error of libvips with its reason: lack of memory, a failed encoder,
// or else a corrupt file.
func classify(err error) *rejectedError {
	reason := protocol.ReasonCorrupt
	switch {
	case strings.Contains(err.Error(), "out of memory"):
		reason = protocol.ReasonMemory
	case strings.Contains(err.Error(), "save"): // the names of the encoders of libvips end so: webpsave, heifsave
		reason = protocol.ReasonEncode
	}
	return &rejectedError{reason, err.Error()}
}

// sink receives what the image is, and then each picture, or its error, in the order of the outputs.
type sink interface {
	sendFacts(facts protocol.Facts) error
	sendCapture(c capture.Capture) error
	sendPicture(index int, picture vips.Output) error
	sendError(index int, cause *rejectedError) error
}

// render makes the pictures of a job. Each may fail without the others. The error is a *rejectedError if there is none,
// since the file is corrupt or over a limit.
func render(file []byte, job protocol.Job, to sink) error {
	var found capture.Capture
	if len(job.Outputs) > 0 && job.Outputs[0].Flags&protocol.Thumbnail != 0 {
		found = readCapture(file, job) // before the chunks that have it are removed
	}
	file, animated := stripTextChunks(file)
	header, err := vips.ReadHeader(file)
	if err != nil {
		return classify(err)
	}
	if err := checkLimits(header, job); err != nil {
		return err
	}
	s := newSource(file, header, animated, job)
	defer s.free()
	facts := protocol.Facts{Width: uint32(header.Width), Height: uint32(header.Height)} //nolint:gosec // checkLimits
	remaining := job.MaxBytes
	var corrupt *rejectedError // then nothing else of the file is decoded
	for index, output := range job.Outputs {
		picture, failure := vips.Output{}, corrupt
		if failure == nil {
			picture, failure = s.picture(output, remaining)
		}
		if failure != nil && failure.reason == protocol.ReasonCorrupt {
			corrupt = failure
		}
		if index == 0 {
			if corrupt != nil {
				return corrupt
			}
			if output.Flags&protocol.Thumbnail != 0 && failure == nil {
				preview(picture, &facts)
			}
			if err = to.sendFacts(facts); err == nil && output.Flags&protocol.Thumbnail != 0 {
				err = to.sendCapture(found)
			}
		}
		if failure != nil {
			err = errors.Join(err, to.sendError(index, failure))
		} else {
			remaining -= uint64(len(picture.Data))
			err = errors.Join(err, to.sendPicture(index, picture))
		}
		picture.Free()
		if err != nil {
			return err
		}
	}
	return nil
}

// checkLimits checks the header against the limits of a job, before anything is decoded.
func checkLimits(header vips.Header, job protocol.Job) error {
	if header.Format == vips.None {
		return reject(protocol.ReasonFormat, "not a supported format")
	}
	width, height, frames := uint64(max(header.Width, 0)), uint64(max(header.Height, 0)), uint64(max(header.Frames, 1))
	switch {
	case width == 0 || height == 0:
		return reject(protocol.ReasonCorrupt, "an image without pixels")
	case width > job.MaxPixels/height:
		return reject(protocol.ReasonPixels, "%d x %d pixels", width, height)
	case frames > uint64(job.MaxFrames):
		return reject(protocol.ReasonFrames, "%d frames", frames)
	}
	return nil
}

// source is a file of which pictures are made. What several of them need is decoded once.
type source struct {
	file     []byte
	header   vips.Header
	animated bool // an APNG, of which libvips reads the first frame only
	job      protocol.Job
	users    map[form]int // outputs that are yet to be made, by what they are made of
	decoded  map[form]*vips.Image
}

// form is what of a file is decoded.
type form struct {
	shrink int // by which a JPEG is shrunk while it is loaded; 0 = each output decodes for itself
	frames int
}

func newSource(file []byte, header vips.Header, animated bool, job protocol.Job) *source {
	s := &source{file: file, header: header, animated: animated, job: job, users: map[form]int{}, decoded: map[form]*vips.Image{}}
	for _, output := range job.Outputs {
		if s.applies(output) {
			s.users[s.form(output)]++
		}
	}
	return s
}

func (s *source) free() {
	for _, image := range s.decoded {
		image.Free()
	}
}

func (s *source) size() geometry.Size {
	return geometry.Size{Width: s.header.Width, Height: s.header.Height}
}

// applies reports whether there is such a picture of the file.
func (s *source) applies(output protocol.Output) bool {
	if output.Flags&protocol.Conversion == 0 {
		return true
	}
	return (s.header.Format == vips.JPEG || s.header.Format == vips.PNG) && !s.animated &&
		imageformat.WebP.Holds(s.header.Width, s.header.Height)
}

// form returns what an output is made of.
func (s *source) form(output protocol.Output) form {
	shrunk, picture := geometry.Layout(output.Fit, box(output), s.size())
	if frames := max(s.header.Frames, 1); output.Flags&protocol.Animated != 0 && frames > 1 && (s.header.Format == vips.GIF || s.header.Format == vips.WebP) {
		// A picture that is padded may have more pixels than the image.
		if pixels := max(s.size().Pixels(), picture.Pixels()); uint64(pixels) <= s.job.MaxAnimation/uint64(frames) { //nolint:gosec // not negative
			return form{shrink: 1, frames: frames}
		}
	}
	switch s.header.Format {
	case vips.JPEG:
		return form{shrink: s.loadShrink(output, shrunk), frames: 1}
	case vips.WebP:
		if box(output) != (geometry.Size{}) {
			return form{} // libwebp scales to any size while it decodes
		}
	case vips.HEIF:
		if box(output) != (geometry.Size{}) && (s.header.EmbeddedWidth > shrunk.Width || s.header.EmbeddedHeight > shrunk.Height) && !s.decodesWhole() {
			return form{} // its own thumbnail suffices
		}
	}
	return form{shrink: 1, frames: 1}
}

// maxWholeHEIF is up to how many pixels a HEIF file with a thumbnail of its own is decoded whole. Cameras compress that thumbnail
// strongly: pictures of it are 1 to 9 dB worse, the more the larger they are. Decoding takes about a tenth of a second for a million pixels.
const maxWholeHEIF = 25_000_000

// decodesWhole reports whether the pictures of a HEIF file are made of the image, although it has a thumbnail of its own.
func (s *source) decodesWhole() bool {
	return s.header.Format == vips.HEIF && s.header.EmbeddedWidth > 0 && s.size().Pixels() <= maxWholeHEIF
}

// loadShrink returns by how much a JPEG is shrunk while it is loaded. At least a factor of 1.5 is left for the better filter:
// libvips itself leaves two, which takes a sixth more processor time and makes a picture that looks the same
// (docs/decisions/0006).
func (s *source) loadShrink(output protocol.Output, shrunk geometry.Size) int {
	if box(output) == (geometry.Size{}) {
		return 1
	}
	width, height := float64(s.header.Width), float64(s.header.Height)
	factor := min(width/float64(shrunk.Width), height/float64(shrunk.Height))
	if output.Fit != geometry.Cover {
		bounds := libvipsBox(output)
		// No side shrinks to less than a pixel.
		factor = min(max(width/float64(bounds.Width), height/float64(bounds.Height)), width, height)
	}
	switch {
	case factor >= 12:
		return 8
	case factor >= 6:
		return 4
	case factor >= 3:
		return 2
	}
	return 1
}

// image returns the decoded image of a form that several outputs are made of, nil otherwise, or if the memory does not
// suffice: each output then reads the file row by row.
func (s *source) image(f form) (*vips.Image, *rejectedError) {
	if image, done := s.decoded[f]; done {
		return image, nil
	}
	// libvips takes the thumbnail of a HEIF file where that is large enough, unless it gets the decoded image.
	if f.shrink == 0 || f.frames == 1 && s.users[f] < 2 && !s.decodesWhole() {
		return nil, nil
	}
	image, err := vips.Decode(s.file, f.shrink, f.frames)
	if err != nil {
		failure := classify(err)
		if failure.reason == protocol.ReasonCorrupt || f.frames > 1 {
			return nil, failure
		}
	}
	s.decoded[f] = image
	return image, nil
}

// release frees the decoded image of a form after its last output.
func (s *source) release(f form) {
	if s.users[f]--; s.users[f] <= 0 {
		s.discard(f)
	}
}

func (s *source) discard(f form) {
	s.decoded[f].Free()
	s.decoded[f] = nil
}

// picture makes one picture of at most the given bytes.
func (s *source) picture(output protocol.Output, bytes uint64) (vips.Output, *rejectedError) {
	if !s.applies(output) {
		return vips.Output{}, reject(protocol.ReasonNotApplicable, "no conversion of such a file")
	}
	f := s.form(output)
	defer s.release(f)
	if failure := s.checkPicture(output); failure != nil {
		return vips.Output{}, failure
	}
	image, failure := s.image(f)
	if failure != nil {
		return vips.Output{}, failure
	}
	var picture vips.Output
	var err error
	recipe := s.recipe(output)
	if recipe.MaxBytes > 0 {
		recipe.MaxBytes = int(min(uint64(recipe.MaxBytes), bytes)) //nolint:gosec // it was an int
	}
	if recipe.Shrink = f.shrink; f.frames > 1 {
		picture, err = vips.Animate(image, recipe)
	} else {
		picture, err = s.still(f, image, recipe)
	}
	switch {
	case err != nil:
		return vips.Output{}, classify(err)
	case uint64(len(picture.Data)) > bytes:
		picture.Free()
		return vips.Output{}, reject(protocol.ReasonOutput, "more than the remaining %d bytes", bytes)
	}
	return picture, nil
}

// checkPicture checks the size of a picture, before anything is decoded.
func (s *source) checkPicture(output protocol.Output) *rejectedError {
	_, picture := geometry.Layout(output.Fit, box(output), s.size())
	if uint64(picture.Pixels()) > s.job.MaxPixels || !output.Encoding.Holds(picture.Width, picture.Height) { //nolint:gosec // not negative
		return reject(protocol.ReasonTooLarge, "a picture of %d x %d pixels", picture.Width, picture.Height)
	}
	return nil
}

// still makes a still picture. A large image with transparency may need more memory than there is as WebP: still then
// frees what is decoded and tries again with the least memory, lossless and row by row.
func (s *source) still(f form, image *vips.Image, recipe vips.Recipe) (vips.Output, error) {
	picture, err := vips.Render(s.file, image, recipe)
	if err == nil || recipe.Encoding != imageformat.WebP || classify(err).reason == protocol.ReasonCorrupt {
		return picture, err
	}
	s.discard(f)
	vips.Trim()
	recipe.Lossless = true
	if picture, retryErr := vips.Render(s.file, nil, recipe); retryErr == nil {
		return picture, nil
	}
	return vips.Output{}, err
}

// box returns the box of an output.
func box(output protocol.Output) geometry.Size {
	return geometry.Size{Width: int(output.Width), Height: int(output.Height)}
}

// libvipsBox returns the box of an output as libvips has it: no bound is a large one.
func libvipsBox(output protocol.Output) geometry.Size {
	const unbounded = 10_000_000 // VIPS_MAX_COORD
	bounds := box(output)
	if bounds.Width == 0 {
		bounds.Width = unbounded
	}
	if bounds.Height == 0 {
		bounds.Height = unbounded
	}
	return bounds
}

var focuses = map[protocol.Focus]vips.Focus{protocol.FocusAttention: vips.Attention, protocol.FocusEntropy: vips.Entropy}

// recipe returns the recipe of an output for this file.
func (s *source) recipe(output protocol.Output) vips.Recipe {
	recipe := vips.Recipe{Background: output.Background, Encoding: output.Encoding, Quality: max(int(output.Quality), 1), MaxBytes: int(output.MaxBytes)}
	if output.Encoding == imageformat.WebP {
		recipe.Quality = int(output.Quality)
	}
	if box(output) == (geometry.Size{}) {
		return recipe
	}
	shrunk, picture := geometry.Layout(output.Fit, box(output), s.size())
	bounds := libvipsBox(output)
	if output.Fit == geometry.Cover {
		bounds = shrunk
	}
	recipe.BoxWidth, recipe.BoxHeight = bounds.Width, bounds.Height
	recipe.Exact = output.Flags&protocol.Thumbnail == 0
	recipe.ShrunkWidth, recipe.ShrunkHeight, recipe.Width, recipe.Height = shrunk.Width, shrunk.Height, picture.Width, picture.Height
	recipe.Sharpen = output.Flags&protocol.Sharpen != 0 && shrunk != s.size()
	recipe.Focus = focuses[output.Focus]
	pointX, pointY := 500, 500
	if output.Focus == protocol.FocusPoint {
		pointX, pointY = int(output.PointX), int(output.PointY)
	}
	recipe.Left, recipe.Top = geometry.Offset(shrunk.Width, picture.Width, pointX), geometry.Offset(shrunk.Height, picture.Height, pointY)
	return recipe
}
