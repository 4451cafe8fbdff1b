package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mediastack.dev/hack/test/chaos/faults"
)

// pictures are requests for pictures of presets: at either runtime, by several clients at once, while others change
// the presets and delete the items.
var pictures = []operation{
	{"ask for a picture", 60, func(ctx context.Context, c *client) { c.picture(ctx, false) }},
	{"ask for a picture and delete", 4, func(ctx context.Context, c *client) { c.picture(ctx, true) }},
	{"change the presets", 4, func(ctx context.Context, c *client) { _ = c.changePresets(ctx) }},
}

// photo is what an image shows: about one color, so that it is known what is made of it, wherever that was cut off.
type photo struct {
	width, height int
	shade         [3]uint8
}

// drawPhoto draws an image with a size and a color of its own, as JPEG or PNG.
func drawPhoto(draw *rand.Rand) (photo, []byte) {
	p := photo{width: 80 + draw.IntN(560), height: 80 + draw.IntN(400)}
	for n := range p.shade {
		p.shade[n] = uint8(32 + 64*draw.IntN(4))
	}
	painted := image.NewNRGBA(image.Rect(0, 0, p.width, p.height))
	for y := range p.height {
		for x := range p.width {
			slope := uint8(8 * x / p.width)
			painted.SetNRGBA(x, y, color.NRGBA{R: p.shade[0] + slope, G: p.shade[1] + uint8(8*y/p.height), B: p.shade[2] + slope, A: 255})
		}
	}
	var file bytes.Buffer // writing to it never fails
	if draw.IntN(3) == 0 {
		_ = png.Encode(&file, painted)
	} else {
		_ = jpeg.Encode(&file, painted, nil)
	}
	return p, file.Bytes()
}

// preset is one of an account, as it is declared.
type preset struct {
	Name      string `json:"name"`
	Width     int    `json:"width"`
	Height    int    `json:"height,omitempty"`
	Fit       string `json:"fit"`
	Format    string `json:"format"`
	Densities []int  `json:"densities"`
}

// presetChoices are what clients declare: one of each list. All but the last one are always declared.
var presetChoices = [][]preset{
	{{"card", 120, 90, "cover", "auto", []int{1, 2}}, {"card", 160, 100, "cover", "auto", []int{1, 2}}},
	{{"hero", 300, 0, "inside", "auto", []int{1, 2}}, {"hero", 260, 0, "inside", "auto", []int{1, 2}}},
	{{"icon", 64, 64, "pad", "webp", []int{1, 2}}, {"icon", 48, 48, "pad", "webp", []int{1, 2}}},
	{{"extra", 200, 200, "inside", "jpeg", []int{1, 2}}},
}

// choicesOf returns what a preset may be declared as, and whether it is always declared.
func choicesOf(name string) (choices []preset, always bool) {
	for n, choices := range presetChoices {
		if choices[0].Name == name {
			return choices, n < len(presetChoices)-1
		}
	}
	return nil, false
}

// size returns the size of the picture that the preset makes of a photo, to within a pixel.
func (p preset) size(density int, of photo) (width, height float64) {
	boxWidth, boxHeight := float64(p.Width*density), float64(p.Height*density)
	imageWidth, imageHeight := float64(of.width), float64(of.height)
	switch p.Fit {
	case "pad":
		return boxWidth, boxHeight
	case "cover": // never enlarged: the box shrinks
		scale := min(1, imageWidth/boxWidth, imageHeight/boxHeight)
		return boxWidth * scale, boxHeight * scale
	}
	scale := min(1, boxWidth/imageWidth)
	if boxHeight > 0 {
		scale = min(scale, boxHeight/imageHeight)
	}
	return imageWidth * scale, imageHeight * scale
}

// hasSize reports whether the picture may have this size.
func (p preset) hasSize(density int, of photo, width, height int) bool {
	w, h := p.size(density, of)
	return math.Abs(w-float64(width)) <= 1 && math.Abs(h-float64(height)) <= 1
}

// changePresets declares other presets for the client's account.
func (c *client) changePresets(ctx context.Context) error {
	var declared []preset
	for n, choices := range presetChoices {
		if n < len(presetChoices)-1 || c.draw.IntN(2) == 0 {
			declared = append(declared, choices[c.draw.IntN(len(choices))])
		}
	}
	return c.changeSettings(ctx, c.pickReplica(), map[string]any{"presets": declared})
}

// declare sets the settings of the client's account that stay, at the runtime of this version.
func (c *client) declare(ctx context.Context) error {
	changed := map[string]any{"useWebP": c.tenant.useWebP}
	if c.tenant.later {
		changed["derivatives"] = "Later"
	}
	return c.changeSettings(ctx, c.env.replicas[0], changed)
}

func (c *client) changeSettings(ctx context.Context, at *replica, changed map[string]any) error {
	body, _ := json.Marshal(changed)
	got := c.send(context.WithoutCancel(ctx), http.MethodPost, at.BaseURL+"/settings/media/create", "application/json", bytes.NewReader(body), int64(len(body)))
	c.recordAnswer("POST /settings/media/create", nil, got)
	if got.status != http.StatusOK {
		return fmt.Errorf("settings were answered %s", got)
	}
	return nil
}

// pictureDocument is a document with the pictures of its item.
type pictureDocument struct {
	MediaID string                    `json:"mediaId"`
	Presets map[string]documentPreset `json:"presets"`
}

type documentPreset struct {
	Densities []documentDensity `json:"densities"`
}

type documentDensity struct {
	Density int    `json:"density"`
	URL     string `json:"url"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
}

// pictureRequest is the request for one picture.
type pictureRequest struct {
	preset  string
	density int
	format  string // of the address; empty = by Accept
	accept  string
	address string
}

// accepts are Accept headers, with the formats that a preset with the format auto has for them.
var accepts = []struct{ accept, format string }{{"image/avif,image/webp,*/*", "avif"}, {"image/webp,*/*", "webp"}, {"*/*", "jpeg"}, {"", "jpeg"}}

// mimeType returns the type of the picture, which is opaque.
func (r pictureRequest) mimeType() string {
	choices, _ := choicesOf(r.preset)
	format := choices[0].Format
	if format == "auto" {
		format = r.format
	}
	for _, one := range accepts {
		if format == "" && one.accept == r.accept {
			format = one.format
		}
	}
	return "image/" + format
}

// photoItem returns one of the client's images; nil if there is none.
func (c *client) photoItem() *item {
	var found []*item
	for _, i := range c.items {
		if i.photo != nil && i.sealTried {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[c.draw.IntN(len(found))]
}

// picture asks for a picture of one of the client's images, several times at once. With deletes, the item is deleted meanwhile.
func (c *client) picture(ctx context.Context, deletes bool) {
	i := c.photoItem()
	if i == nil {
		return
	}
	found, ok := c.pictureDocument(ctx, i)
	if !ok && (c.draw.IntN(4) > 0 || !i.public) {
		return
	}
	request := c.drawPicture(i, found)
	if request.address == "" {
		return
	}
	want := i.expected()
	if deletes {
		want = either
	}
	var all sync.WaitGroup
	for range 1 + c.draw.IntN(4) {
		replica := c.pickReplica()
		all.Go(func() {
			got := c.get(ctx, i, replica, request)
			if wrong := request.judge(ctx, c.env.dir, got, want, i, func(width, height int) bool {
				choices, _ := choicesOf(request.preset)
				return slices.ContainsFunc(choices, func(p preset) bool { return p.hasSize(request.density, *i.photo, width, height) })
			}); wrong != "" {
				c.model.wrongAnswer(i, got.header.Get("X-Request-Id"), "a picture of %s: %s", request.address, wrong)
			}
			if got.status == http.StatusOK {
				c.model.count("pictures of " + request.mimeType())
			}
		})
	}
	if deletes {
		c.delete(ctx, i)
	}
	all.Wait()
}

// pictureDocument reads which pictures an item has; false if that was not answered.
func (c *client) pictureDocument(ctx context.Context, i *item) (found pictureDocument, ok bool) {
	want := i.expected()
	got := c.ask(ctx, i, http.MethodGet, "/media/get/"+i.id+"?fields=mediaId,presets")
	if wrong := want.check(got.status); wrong != "" {
		c.model.wrong(i, "read its presets: %s", wrong)
	}
	if got.status != http.StatusOK {
		return found, false
	}
	if err := json.Unmarshal(got.body, &found); err != nil || found.MediaID != i.id {
		c.model.wrong(i, "its document with presets is %s", got.body)
		return found, false
	}
	for _, choices := range presetChoices {
		name := choices[0].Name
		_, always := choicesOf(name)
		shown, there := found.Presets[name]
		if always && (!there || len(shown.Densities) == 0) {
			c.model.wrong(i, "its document lacks the preset %s: %s", name, got.body)
		}
		for _, d := range shown.Densities {
			if d.Width > 0 && !slices.ContainsFunc(choices, func(p preset) bool { return p.hasSize(d.Density, *i.photo, d.Width, d.Height) }) {
				c.model.wrong(i, "of %d x %d, its document says of %s@%dx: %d x %d", i.photo.width, i.photo.height, name, d.Density, d.Width, d.Height)
			}
		}
	}
	return found, true
}

// drawPicture chooses a picture of an item. Of one that is public it needs no document.
func (c *client) drawPicture(i *item, found pictureDocument) pictureRequest {
	choices := presetChoices[c.draw.IntN(len(presetChoices))]
	r := pictureRequest{preset: choices[0].Name, density: 1 + c.draw.IntN(2), accept: accepts[c.draw.IntN(len(accepts))].accept}
	if i.public && i.sealed && c.draw.IntN(3) > 0 {
		variant := r.preset
		if r.density > 1 {
			variant += fmt.Sprintf("@%dx", r.density)
		}
		if choices[0].Format == "auto" && c.draw.IntN(2) == 0 {
			r.format = []string{"avif", "webp", "jpeg", "png"}[c.draw.IntN(4)]
			variant += "." + r.format
		}
		r.address = "/media/file/" + i.id + "/" + variant + "/crash.jpg"
		return r
	}
	for _, d := range found.Presets[r.preset].Densities {
		if d.Density != r.density {
			continue
		}
		if address, err := url.Parse(d.URL); err == nil {
			r.address = address.RequestURI()
		}
	}
	return r
}

// get asks a replica for a picture.
func (c *client) get(ctx context.Context, i *item, replica *replica, r pictureRequest) answer {
	header := http.Header{}
	if r.accept != "" {
		header.Set("Accept", r.accept)
	}
	got := c.exchange(context.WithoutCancel(ctx), http.MethodGet, replica.BaseURL+r.address, header, "", nil, 0)
	c.recordAnswer("GET a picture", i, got)
	path, _, _ := strings.Cut(r.address, "?")
	i.note(c.model.begun, "GET %s (%s) at %s: %s", path, r.accept, replica.name, got.describe())
	return got
}

// judge returns what is wrong with the answer to a request for a picture of an item; empty if nothing is.
func (r pictureRequest) judge(ctx context.Context, dir string, got answer, want expectation, i *item, hasSize func(width, height int) bool) string {
	if wrong := want.check(got.status); wrong != "" {
		if _, always := choicesOf(r.preset); always || got.status != http.StatusNotFound {
			return wrong
		}
	}
	if got.status != http.StatusOK {
		return ""
	}
	if kind := got.header.Get("Content-Type"); kind != r.mimeType() {
		return fmt.Sprintf("it is %s, and not %s", kind, r.mimeType())
	}
	sum := sha256.Sum256(got.body)
	if tag := got.header.Get("ETag"); tag != `"`+hex.EncodeToString(sum[:])+`"` {
		return fmt.Sprintf("its SHA-256 is %x, its ETag %s", sum, tag)
	}
	shown, err := decodePicture(ctx, dir, r.mimeType(), got.body)
	if err != nil {
		return fmt.Sprintf("its %d bytes are no picture: %v", len(got.body), err)
	}
	size := shown.Bounds().Size()
	if !hasSize(size.X, size.Y) {
		return fmt.Sprintf("of an image of %d x %d, it has %d x %d", i.photo.width, i.photo.height, size.X, size.Y)
	}
	return i.photo.differs(shown)
}

// differs returns how the middle of a picture differs from the photo; empty if it shows it.
func (p photo) differs(shown image.Image) string {
	const tolerance = 28 // lossy encoders, and the slope of the color; the colors of two photos are 64 apart
	middle := shown.Bounds().Min.Add(shown.Bounds().Size().Div(2))
	red, green, blue, _ := shown.At(middle.X, middle.Y).RGBA()
	for n, channel := range []uint32{red, green, blue} {
		if math.Abs(float64(channel>>8)-float64(p.shade[n])-4) > tolerance {
			return fmt.Sprintf("it shows %d %d %d in the middle, and the image %v: it is that of another one", red>>8, green>>8, blue>>8, p.shade)
		}
	}
	return ""
}

// decodePicture decodes a picture: what Go cannot, with the vips command line.
func decodePicture(ctx context.Context, dir, mimeType string, data []byte) (image.Image, error) {
	if mimeType != "image/jpeg" && mimeType != "image/png" {
		converted, err := toPNG(context.WithoutCancel(ctx), dir, strings.TrimPrefix(mimeType, "image/"), data)
		if err != nil {
			return nil, err
		}
		data = converted
	}
	shown, _, err := image.Decode(bytes.NewReader(data))
	return shown, err
}

// toPNG converts a picture in a format that Go cannot decode.
func toPNG(ctx context.Context, parent, format string, data []byte) ([]byte, error) {
	dir, err := os.MkdirTemp(parent, "picture-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	from, to := filepath.Join(dir, "picture."+format), filepath.Join(dir, "picture.png")
	if err := os.WriteFile(from, data, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "vips", "copy", from+"[fail-on=warning]", to).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("vips: %w: %.300s", err, out)
	}
	return os.ReadFile(to)
}

// verifyPictures asks for a picture of each image that is left, when nothing is broken: as the presets are declared then.
func (c *client) verifyPictures(ctx context.Context, items []*item) {
	var declared struct {
		Presets []preset `json:"presets"`
	}
	got := c.ask(ctx, nil, http.MethodGet, "/settings/media/get")
	if err := json.Unmarshal(got.body, &declared); got.status != http.StatusOK || err != nil || len(declared.Presets) < len(presetChoices)-1 {
		c.model.wrong(nil, "the settings of %s are %s", c.tenant.name, got)
		return
	}
	for _, i := range items {
		found, ok := c.pictureDocument(ctx, i)
		if !ok {
			c.model.wrong(i, "its presets cannot be read")
			continue
		}
		request := c.drawPicture(i, found)
		at := slices.IndexFunc(declared.Presets, func(p preset) bool { return p.Name == request.preset })
		if request.address == "" || at < 0 {
			continue
		}
		var got answer
		for until := time.Now().Add(stuckTimeout); ; faults.Sleep(ctx, 100*time.Millisecond) {
			got = c.get(ctx, i, c.pickReplica(), request)
			if got.status == http.StatusOK || got.status == http.StatusNotFound || time.Now().After(until) {
				break
			}
		}
		wrong := request.judge(ctx, c.env.dir, got, there, i, func(width, height int) bool {
			for _, d := range found.Presets[request.preset].Densities {
				if d.Density == request.density && d.Width > 0 && (d.Width != width || d.Height != height) {
					return false
				}
			}
			return declared.Presets[at].hasSize(request.density, *i.photo, width, height)
		})
		if got.status != http.StatusOK {
			wrong = "it was answered " + got.String()
		}
		if wrong != "" {
			c.model.wrongAnswer(i, got.header.Get("X-Request-Id"), "at the end, a picture of %s: %s", request.address, wrong)
		}
		c.model.count("pictures verified at the end")
	}
}
