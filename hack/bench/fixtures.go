package main

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

// imageFile is a file that images uploads.
type imageFile struct {
	name, what string
	data       []byte
}

// imageFiles makes the files, the same ones each time. scale shrinks them, for tests.
func imageFiles(scale float64) ([]imageFile, error) {
	side := func(n int) int { return max(16, int(float64(n)*math.Sqrt(scale))) }
	twelve, err := encodeJPEG(scene(side(4000), side(3000), 1))
	if err != nil {
		return nil, err
	}
	large, err := encodeJPEG(scene(side(6000), side(4000), 2))
	if err != nil {
		return nil, err
	}
	var faded bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(&faded, withAlpha(scene(side(2600), side(1950), 3))); err != nil {
		return nil, err
	}
	return []imageFile{
		{name: "photo12.jpg", what: "12 MP JPEG", data: twelve},
		{name: "photo24.jpg", what: "24 MP JPEG", data: large},
		{name: "alpha5.png", what: "5 MP PNG with alpha", data: faded.Bytes()},
	}, nil
}

// scene paints what a photo is made of: a sky that changes slowly, hills with a grain,
// things with edges, and the noise of a sensor. It is neither flat nor pure noise, so
// that decoders and encoders work as hard as on photos: about 0.3 bytes a pixel as JPEG.
func scene(width, height int, seed uint64) *image.NRGBA {
	random := rand.New(rand.NewPCG(seed, 7))
	at := func(x, y int) (float64, float64) { return float64(x) / float64(width), float64(y) / float64(height) }
	type thing struct {
		x, y, radius float64
		square       bool
		rgb          [3]float64
	}
	things := make([]thing, 60)
	for i := range things {
		things[i] = thing{random.Float64(), random.Float64(), 0.01 + 0.06*random.Float64(), i%2 == 0,
			[3]float64{255 * random.Float64(), 255 * random.Float64(), 255 * random.Float64()}}
	}
	hills := make([]float64, width)
	for x := range hills {
		u, _ := at(x, 0)
		hills[x] = 0.55 + 0.08*math.Sin(9*u+float64(seed)) + 0.03*math.Sin(31*u)
	}
	aspect := float64(height) / float64(width)
	painted := image.NewNRGBA(image.Rect(0, 0, width, height))
	row := func(y int) {
		noise := rand.New(rand.NewPCG(seed, uint64(y)))
		_, v := at(0, y)
		wave := 40 * math.Sin(70*v)
		strength := 24 * math.Sin(800*v)
		var near []thing
		for _, t := range things {
			if math.Abs(v-t.y)*aspect < t.radius {
				near = append(near, t)
			}
		}
		for x := range width {
			u, _ := at(x, y)
			rgb, level := [3]float64{90 + 90*v, 140 + 60*v + 20*u, 230 - 40*v}, 9.0
			if v > hills[x] {
				grain := strength * math.Sin(900*u+wave)
				rgb, level = [3]float64{70 + 60*(v-hills[x]) + grain, 110 - 40*(v-hills[x]) + grain, 50 + grain/2}, 22
			}
			for _, t := range near {
				dx, dy := u-t.x, (v-t.y)*aspect
				if t.square && math.Abs(dx) < t.radius || !t.square && dx*dx+dy*dy < t.radius*t.radius {
					shade := 0.7 + 0.3*(dx+dy)/t.radius
					rgb, level = [3]float64{t.rgb[0] * shade, t.rgb[1] * shade, t.rgb[2] * shade}, 12
				}
			}
			// One draw for the three channels: making the files takes long enough.
			bits := noise.Uint64()
			pixel := painted.Pix[painted.PixOffset(x, y):]
			for i := range rgb {
				sum := float64(bits&0xff) + float64(bits>>8&0xff) - 255 // a triangle around 0
				bits >>= 16
				pixel[i] = uint8(min(255, max(0, rgb[i]+level*sum/255)))
			}
			pixel[3] = 255
		}
	}
	var all sync.WaitGroup
	for part := range runtime.NumCPU() {
		all.Go(func() {
			for y := part; y < height; y += runtime.NumCPU() {
				row(y)
			}
		})
	}
	all.Wait()
	return painted
}

// withAlpha makes the photo fade out towards its edges.
func withAlpha(painted *image.NRGBA) *image.NRGBA {
	width, height := painted.Bounds().Dx(), painted.Bounds().Dy()
	for y := range height {
		for x := range width {
			edge := min(x, y, width-1-x, height-1-y)
			painted.Pix[painted.PixOffset(x, y)+3] = uint8(min(255, edge))
		}
	}
	return painted
}

func encodeJPEG(painted *image.NRGBA) ([]byte, error) {
	var file bytes.Buffer
	err := jpeg.Encode(&file, painted, &jpeg.Options{Quality: 90})
	return file.Bytes(), err
}
