package capture_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"mediastack.dev/runtime/capture"
)

func TestParseNear_ReadsWhatStringReturns(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"48.8584,2.2945,500", "-90,-180,1", "90,180,500000", "0,0,1.5"} {
		if near, err := capture.ParseNear(text); err != nil || near.String() != text {
			t.Errorf("%s: got %s, %v", text, near, err)
		}
	}
	if near, err := capture.ParseNear(" 48.8584, 2.2945 , 500"); err != nil || near.String() != "48.8584,2.2945,500" {
		t.Errorf("with spaces: %v, %v", near, err)
	}
	for _, text := range []string{"", "1", "1,2", "1,2,3,4", "a,b,c", "90.1,0,1", "0,180.1,1", "0,0,0", "0,0,-5", "0,0,500001", "NaN,0,1", "0,Inf,1", "0,0,NaN", "0,0,1km"} {
		if near, err := capture.ParseNear(text); err == nil {
			t.Errorf("%q: got %v", text, near)
		}
	}
}

func TestDistance_IsThatOfAGreatCircle(t *testing.T) {
	t.Parallel()
	paris, london := capture.Location{Latitude: 48.8566, Longitude: 2.3522}, capture.Location{Latitude: 51.5074, Longitude: -0.1278}
	if got := paris.Distance(london); math.Abs(got-343_556) > 1000 {
		t.Errorf("from Paris to London: %f", got)
	}
	if got := (capture.Location{Longitude: 179.999}).Distance(capture.Location{Longitude: -179.999}); math.Abs(got-222.4) > 1 {
		t.Errorf("over the date line: %f", got)
	}
	if got := paris.Distance(paris); got != 0 {
		t.Errorf("to itself: %f", got)
	}
}

// TestCells_HaveAllLocationsOfTheCircle compares the ranges of cells with the distances, for circles of every size and everywhere, also at the
// poles and the date line.
func TestCells_HaveAllLocationsOfTheCircle(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	inside, found := 0, 0
	for range 20_000 {
		near := capture.Near{Location: capture.Location{Latitude: random.Float64()*180 - 90, Longitude: random.Float64()*360 - 180},
			Radius: math.Exp(random.Float64() * math.Log(capture.MaxRadius))}
		switch random.IntN(6) {
		case 0:
			near.Latitude = []float64{90, -90, 89.99, -89.99, 0}[random.IntN(5)]
		case 1:
			near.Longitude = []float64{180, -180, 179.999, -179.999, 0}[random.IntN(5)]
		}
		cells := near.Cells()
		if len(cells) == 0 || len(cells) > 9 {
			t.Fatalf("%v: %d ranges", near, len(cells))
		}
		for i, c := range cells {
			if c.End <= c.First {
				t.Fatalf("%v: %v", near, c)
			}
			for _, other := range cells[:i] {
				if c.First < other.End && other.First < c.End {
					t.Fatalf("%v: %v and %v overlap", near, c, other)
				}
			}
		}
		for range 10 {
			// A location in the direction of a random angle, up to 1.5 radii away.
			angle, distance := random.Float64()*2*math.Pi, random.Float64()*1.5*near.Radius/capture.EarthRadius
			latitude := near.Latitude * math.Pi / 180
			sine := math.Sin(latitude)*math.Cos(distance) + math.Cos(latitude)*math.Sin(distance)*math.Cos(angle)
			location := capture.Location{Latitude: math.Asin(max(-1, min(1, sine))) * 180 / math.Pi,
				Longitude: near.Longitude + math.Atan2(math.Sin(angle)*math.Sin(distance)*math.Cos(latitude), math.Cos(distance)-math.Sin(latitude)*sine)*180/math.Pi}
			location.Longitude = math.Mod(location.Longitude+540, 360) - 180
			covered := false
			for _, c := range cells {
				covered = covered || location.Cell() >= c.First && location.Cell() < c.End
			}
			if near.Distance(location) <= near.Radius {
				inside++
				if covered {
					found++
				} else {
					t.Fatalf("%v: %v is %f m away and in none of %v", near, location, near.Distance(location), cells)
				}
			}
		}
	}
	if inside < 100_000 || found != inside {
		t.Errorf("%d of %d locations", found, inside)
	}
}

// TestCells_AreNotMuchMoreThanTheCircle bounds what a search has to examine.
func TestCells_AreNotMuchMoreThanTheCircle(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		near := capture.Near{Location: capture.Location{Latitude: random.Float64()*120 - 60, Longitude: random.Float64()*360 - 180}, Radius: 100 + random.Float64()*50_000}
		var size int64
		for _, c := range near.Cells() {
			size += c.End - c.First
		}
		const grid = 1 << 26
		area := float64(size) / grid / grid * 4 * math.Pi * capture.EarthRadius * capture.EarthRadius * math.Cos(near.Latitude*math.Pi/180) * math.Pi / 2
		if circle := math.Pi * near.Radius * near.Radius; area > 40*circle {
			t.Errorf("%v: the cells are %.0f times as large as the circle", near, area/circle)
		}
	}
}
