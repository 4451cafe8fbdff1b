package imaging_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
)

// outcome is the expected result for a file: a rejection for a reason, or a thumbnail of a
// size and, if any, a conversion of a size.
type outcome struct {
	rejected             string // one of several reasons, with a bar between
	thumbnail, converted image.Point
	displayed            image.Point // if it is neither that of the conversion nor 600 x 400
	picture              looks
}

// looks is the expected content of the derivatives.
type looks int

const (
	anything    looks = iota // not compared
	thePicture               // imagetest.Picture, upright
	greyPicture              // without its colors
	cutPicture               // with its red quarter transparent
	printed                  // in the colors that CMYK can represent
)

func rejected(reasons string) outcome { return outcome{rejected: reasons} }

func made(thumbnailWidth, thumbnailHeight int) outcome {
	return outcome{thumbnail: image.Pt(thumbnailWidth, thumbnailHeight)}
}

// whole are the outcomes of pictures of the usual size, in a box of 200 x 200.
func whole(shows looks) outcome {
	return outcome{thumbnail: image.Pt(200, 133), converted: image.Pt(600, 400), picture: shows}
}

// still is whole for a file type that is never converted.
func still(shows looks) outcome { return outcome{thumbnail: image.Pt(200, 133), picture: shows} }

func (o outcome) of(width, height int) outcome {
	o.displayed = image.Pt(width, height)
	return o
}

func (o outcome) convertedTo(width, height int) outcome {
	o.converted = image.Pt(width, height)
	return o
}

// outcomes has an entry for each file of the corpus.
var outcomes = map[string]outcome{
	"jpeg, orientation 1, with GPS":              whole(thePicture),
	"jpeg, orientation 2, with GPS":              whole(thePicture),
	"jpeg, orientation 3, with GPS":              whole(thePicture),
	"jpeg, orientation 4, with GPS":              whole(thePicture),
	"jpeg, orientation 5, with GPS":              whole(thePicture),
	"jpeg, orientation 6, with GPS":              whole(thePicture),
	"jpeg, orientation 7, with GPS":              whole(thePicture),
	"jpeg, orientation 8, with GPS":              whole(thePicture),
	"jpeg, orientation 0":                        whole(thePicture),
	"jpeg, orientation 77":                       whole(thePicture),
	"png, orientation 6 in eXIf":                 whole(thePicture),
	"jpeg of 1 x 1":                              made(1, 1).convertedTo(1, 1),
	"png of 1 x 1":                               made(1, 1).convertedTo(1, 1),
	"jpeg of 5000 x 1":                           made(200, 1).convertedTo(5000, 1),
	"jpeg of 1 x 5000":                           made(1, 200).convertedTo(1, 5000),
	"jpeg of 20000 x 10, wider than WebP can be": made(200, 1).of(20000, 10),
	"png smaller than the box":                   made(60, 40).convertedTo(60, 40),
	"jpeg, progressive":                          whole(thePicture),
	"png, interlaced":                            whole(thePicture),
	"webp, still":                                still(thePicture),
	"webp, orientation 6, with GPS":              still(thePicture),
	"avif":                                       still(thePicture),
	"heic":                                       still(thePicture),
	"heic, with GPS":                             still(thePicture),
	"gif, still":                                 still(thePicture),

	"png, 16 bits":            whole(thePicture),
	"png, grey":               whole(greyPicture),
	"png, grey of 16 bits":    whole(greyPicture),
	"png, alpha":              whole(cutPicture),
	"png, palette with alpha": whole(cutPicture),
	"jpeg, grey":              whole(greyPicture),
	"webp, alpha":             still(cutPicture),
	"avif, alpha":             still(cutPicture),
	"jpeg, CMYK":              whole(printed),
	"jpeg, a profile with red and green swapped": whole(thePicture),
	"jpeg, a swapped profile and orientation 8":  whole(thePicture),
	"png, a profile with red and green swapped":  whole(thePicture),
	"jpeg, a broken profile":                     whole(thePicture),

	"gif, 5 frames":                        still(thePicture),
	"webp, 5 frames":                       still(thePicture),
	"png, 2 frames":                        still(thePicture),
	"png, 2 frames, taken for a plain one": still(thePicture),
	"gif, 1100 frames":                     rejected("frame_limit"),

	"png bomb of 30000 x 30000":                     rejected("pixel_limit"),
	"png bomb of 2 billion x 2 billion":             rejected("pixel_limit|corrupt"),
	"gif bomb of 60000 x 60000":                     rejected("pixel_limit"),
	"webp bomb of 16383 x 16383":                    rejected("pixel_limit"),
	"jpeg bomb of 65500 x 65500":                    rejected("pixel_limit"),
	"png with 20 texts that deflate to 200 MB each": made(60, 40).convertedTo(60, 40),
	"png with a profile that deflates to 200 MB":    made(60, 40).convertedTo(60, 40),
	"jpeg with 20 MB of XMP":                        whole(thePicture),
	"jpeg with 2 MB of EXIF entries":                whole(thePicture),
	"jpeg with EXIF that points at itself":          whole(thePicture),

	"jpeg, the first 10 percent":    rejected("corrupt"),
	"jpeg, the first 50 percent":    rejected("corrupt"),
	"jpeg, the first 90 percent":    rejected("corrupt"),
	"jpeg, 40 bytes and then noise": rejected("corrupt"),
	"png, the first 10 percent":     rejected("corrupt"),
	"png, the first 50 percent":     rejected("corrupt"),
	"png, the first 90 percent":     rejected("corrupt"),
	"png, 40 bytes and then noise":  rejected("corrupt"),
	"gif, the first 10 percent":     rejected("corrupt"),
	"gif, the first 50 percent":     rejected("corrupt"),
	"gif, the first 90 percent":     rejected("corrupt"),
	"gif, 40 bytes and then noise":  rejected("corrupt"),
	"webp, the first 10 percent":    rejected("corrupt"),
	"webp, the first 50 percent":    rejected("corrupt"),
	"webp, the first 90 percent":    rejected("corrupt"),
	"webp, 40 bytes and then noise": rejected("corrupt"),
	"avif, the first 10 percent":    rejected("corrupt"),
	"avif, the first 50 percent":    rejected("corrupt"),
	"avif, the first 90 percent":    rejected("corrupt"),
	"avif, 40 bytes and then noise": rejected("corrupt"),
	"heic, the first 10 percent":    rejected("corrupt"),
	"heic, the first 50 percent":    rejected("corrupt"),
	"heic, the first 90 percent":    rejected("corrupt"),
	"heic, 40 bytes and then noise": rejected("corrupt"),
	"png, a wrong checksum":         rejected("corrupt"),
	"png, no pixels":                rejected("corrupt"),
	"jpeg, nothing but a start":     rejected("corrupt"),
	"one byte":                      rejected("unsupported_format"),

	"jpeg and html":                  whole(thePicture),
	"jpeg and pdf":                   whole(thePicture),
	"pdf and jpeg":                   rejected("unsupported_format"),
	"png and html":                   whole(thePicture),
	"gif and javascript":             made(64, 64).of(64, 64),
	"a png that is called jpeg":      whole(thePicture),
	"a jpeg that is called heic":     still(thePicture),
	"a gif that is called png":       still(thePicture),
	"svg that is called png":         rejected("unsupported_format"),
	"text that is called jpeg":       rejected("unsupported_format"),
	"tiff that is called jpeg":       rejected("unsupported_format"),
	"ppm that is called png":         rejected("unsupported_format"),
	"pdf that is called jpeg":        rejected("unsupported_format"),
	"a vips file that is called png": rejected("unsupported_format"),
}

// TestDerive_Corpus derives every file by a real worker, and inspects the derivatives with
// independent tools.
func TestDerive_Corpus(t *testing.T) {
	t.Parallel()
	corpus, err := imagetest.All(t.Context())
	must(t, err)
	pool := open(t, config(realWorker(t)))
	folder := t.TempDir()
	sizes := map[string]image.Point{} // by file name
	shows := map[string]looks{}
	seen := map[string]bool{}
	for _, file := range corpus {
		want, known := outcomes[file.Name]
		if !known || seen[file.Name] {
			t.Errorf("%s: it has no expected outcome", file.Name)
			continue
		}
		seen[file.Name] = true
		facts, derivatives, err := pool.Derive(t.Context(), request(file.MimeType, file.Data))
		var no *imaging.RejectedError
		switch {
		case want.rejected != "" && (!errors.As(err, &no) || !strings.Contains("|"+want.rejected+"|", "|"+no.Reason+"|")):
			t.Errorf("%s: want it rejected (%s), got %v, %d derivatives", file.Name, want.rejected, err, len(derivatives))
			continue
		case want.rejected != "":
			if facts.Width != 0 {
				t.Errorf("%s: it is rejected and has the facts %+v", file.Name, facts)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", file.Name, err)
			continue
		}
		checkFacts(t, file.Name, facts, want)
		expected := map[media.Variant]image.Point{media.Thumbnail: want.thumbnail}
		if want.converted != (image.Point{}) {
			expected[media.WebP] = want.converted
		}
		if len(derivatives) != len(expected) {
			t.Errorf("%s: %d derivatives, want %d", file.Name, len(derivatives), len(expected))
		}
		for _, d := range derivatives {
			if d.MimeType != "image/webp" {
				t.Errorf("%s: the %s is %s", file.Name, d.Variant, d.MimeType)
			}
			if bytes.Contains(d.Data, []byte(imagetest.Secret)) || bytes.Contains(d.Data, []byte("<script")) {
				t.Errorf("%s: the %s contains the file's secret metadata", file.Name, d.Variant)
			}
			name := fmt.Sprintf("%03d-%s.webp", len(sizes), d.Variant)
			must(t, os.WriteFile(filepath.Join(folder, name), d.Data, 0o600))
			sizes[name], shows[name] = expected[d.Variant], want.picture
			if want.picture != anything {
				look(t, file.Name+", "+string(d.Variant), decode(t, filepath.Join(folder, name)), want.picture)
			}
		}
	}
	for name := range outcomes {
		if !seen[name] {
			t.Errorf("%s: it is not in the corpus", name)
		}
	}
	inspect(t, folder, sizes)
	for _, reason := range []string{"crashed", "start_failed", "canceled"} {
		if n := pool.metric("mediastack_image_worker_exits_total", reason); n != 0 {
			t.Errorf("%g workers ended (%s): %s", n, reason, pool.log)
		}
	}
}

// A conversion reads every pixel in order. A thumbnail without a conversion is scaled while
// it is loaded, and must also fail if pixels are missing.
func TestDerive_CorruptFileHasNoThumbnail(t *testing.T) {
	t.Parallel()
	corpus, err := imagetest.All(t.Context())
	must(t, err)
	pool := open(t, config(realWorker(t)))
	for _, file := range corpus {
		want := outcomes[file.Name]
		job := request(file.MimeType, file.Data)
		job.Settings.UseWebP = false
		_, derivatives, err := pool.Derive(t.Context(), job)
		var no *imaging.RejectedError
		if rejected := errors.As(err, &no); rejected != (want.rejected != "") || !rejected && len(derivatives) != 1 {
			t.Errorf("%s: %v, %d derivatives", file.Name, err, len(derivatives))
		}
	}
}

// inspect checks the derivatives in a folder with exiftool, webpinfo and vipsheader.
func inspect(t *testing.T, folder string, sizes map[string]image.Point) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.webp"))
	if err != nil || len(files) < 60 {
		t.Fatalf("only %d derivatives to inspect (%v)", len(files), err)
	}
	withoutMetadata(t, folder)
	// One process for all files: the start of one takes longer than what it does.
	infos := map[string]string{}
	for _, info := range strings.Split(string(tool(t, "webpinfo", files...)), "File: ")[1:] {
		name, info, _ := strings.Cut(info, "\n")
		infos[name] = info
	}
	headers := string(tool(t, "vipsheader", append([]string{"-a"}, files...)...)) // each line begins with the file's name
	for _, file := range files {
		info := infos[file]
		for line := range strings.Lines(info) {
			if name, ok := strings.CutPrefix(line, "Chunk "); ok && !strings.HasPrefix(name, "VP8") && !strings.HasPrefix(name, "ALPH") {
				t.Errorf("%s has a chunk %s", file, name)
			}
		}
		if !strings.Contains(info, "No error detected") {
			t.Errorf("webpinfo %s: %s", file, info)
		}
		want := sizes[filepath.Base(file)]
		if got := image.Pt(field(headers, file+": width"), field(headers, file+": height")); got != want {
			t.Errorf("%s has %v pixels, want %v", file, got, want)
		}
	}
}

// withoutMetadata checks by exiftool that the pictures in a folder say nothing but how they are encoded.
func withoutMetadata(t *testing.T, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	must(t, err)
	var found []map[string]any
	must(t, json.Unmarshal(tool(t, "exiftool", "-json", "-G1", "-r", folder), &found))
	// dwebp has written some of the pictures as PNG, too.
	if len(found) == 0 || len(found) != len(files) {
		t.Errorf("exiftool read %d of %d files", len(found), len(files))
	}
	encoding := map[string]bool{
		"JFIF:JFIFVersion": true, "JFIF:ResolutionUnit": true, "JFIF:XResolution": true, "JFIF:YResolution": true,
		"Meta:MetaImageSize": true, "Meta:PrimaryItemReference": true, "Meta:HandlerType": true,
	}
	for _, tags := range found {
		for tag := range tags {
			switch group, _, _ := strings.Cut(tag, ":"); group {
			case "SourceFile", "ExifTool", "System", "File", "RIFF", "Composite", "PNG", "QuickTime", "Meta", "Track1":
				if strings.HasPrefix(group, "PNG") && !pngTags[tag] {
					t.Errorf("%v has %s", tags["SourceFile"], tag)
				}
			default:
				if !encoding[tag] {
					t.Errorf("%v has %s", tags["SourceFile"], tag)
				}
			}
		}
	}
}

// pngTags are what a PNG says of its encoding.
var pngTags = map[string]bool{
	"PNG:ImageWidth": true, "PNG:ImageHeight": true, "PNG:BitDepth": true, "PNG:ColorType": true, "PNG:Compression": true, "PNG:Filter": true, "PNG:Interlace": true,
	"PNG:Palette": true, "PNG:Transparency": true,
}

// field reads a number from the output of vipsheader.
func field(header, name string) int {
	for line := range strings.Lines(header) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return n
		}
	}
	return -1
}

func tool(t testing.TB, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v: %s", name, err, complaint.String())
	}
	return out
}

// decode decodes a WebP file with libwebp's command line tool.
func decode(t testing.TB, path string) image.Image {
	t.Helper()
	tool(t, "dwebp", "-quiet", path, "-o", path+".png")
	file, err := os.Open(path + ".png")
	must(t, err)
	defer file.Close()
	decoded, err := png.Decode(file)
	must(t, err)
	return decoded
}

// press are the colors of the corners after a conversion to CMYK and back by `vips icc_transform`.
var press = [4]color.NRGBA{{223, 61, 52, 255}, {115, 178, 48, 255}, {63, 59, 137, 255}, {236, 236, 236, 255}}

// look compares the center of each quarter with the picture's color there.
func look(t *testing.T, what string, shown image.Image, want looks) {
	t.Helper()
	size := shown.Bounds().Size()
	for quarter, corner := range imagetest.Corners {
		x, y := size.X/4+quarter%2*size.X/2, size.Y/4+quarter/2*size.Y/2
		got := color.NRGBAModel.Convert(shown.At(x, y)).(color.NRGBA)
		expected, tolerance := color.NRGBA(corner), 14.0
		switch {
		case want == cutPicture && quarter == 0:
			if got.A > 4 {
				t.Errorf("%s: the first quarter is %v, want it transparent", what, got)
			}
			continue
		case want == printed:
			// A thumbnail is scaled in another color space.
			expected, tolerance = press[quarter], 20
		case want == greyPicture:
			level := color.GrayModel.Convert(corner).(color.Gray).Y
			expected = color.NRGBA{level, level, level, 255}
		}
		if distance(got, expected) > tolerance {
			t.Errorf("%s: quarter %d is %v, want about %v", what, quarter, got, expected)
		}
	}
}

func distance(a, b color.NRGBA) float64 {
	most := 0.0
	for _, pair := range [][2]uint8{{a.R, b.R}, {a.G, b.G}, {a.B, b.B}, {a.A, b.A}} {
		most = max(most, math.Abs(float64(pair[0])-float64(pair[1])))
	}
	return most
}
