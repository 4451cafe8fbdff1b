package capture

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// An index finds locations by their cell: the numbers of the latitude and the longitude in a grid of 2^gridBits by 2^gridBits, with their bits in
// turns. So all cells of a coarser grid that are in one of its cells are a range.
const gridBits = 26 // 60 cm of longitude at the equator

// Cell returns the number of the cell that the location is in.
func (p Location) Cell() int64 {
	return interleave(gridRow(p.Latitude), gridColumn(p.Longitude))
}

const gridSize = 1 << gridBits

func gridRow(latitude float64) int64 {
	return min(max(int64((latitude+90)/180*gridSize), 0), gridSize-1)
}

func gridColumn(longitude float64) int64 {
	return min(max(int64((longitude+180)/360*gridSize), 0), gridSize-1)
}

func interleave(row, column int64) (cell int64) {
	for bit := range gridBits {
		cell |= (row>>bit&1)<<(2*bit+1) | (column>>bit&1)<<(2*bit)
	}
	return cell
}

// Near is a circle on the earth.
type Near struct {
	Location
	Radius float64 // in metres
}

// Bounds of the radius of a circle, in metres.
const (
	MinRadius = 1
	MaxRadius = 500_000
)

// ParseNear reads a latitude and a longitude in degrees and a radius in metres, with commas between them.
func ParseNear(text string) (Near, error) {
	var numbers [3]float64
	parts := strings.Split(text, ",")
	if len(parts) != len(numbers) {
		return Near{}, errNear
	}
	for i, part := range parts {
		number, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
			return Near{}, errNear
		}
		numbers[i] = number
	}
	near := Near{Location: Location{Latitude: numbers[0], Longitude: numbers[1]}, Radius: numbers[2]}
	if math.Abs(near.Latitude) > 90 || math.Abs(near.Longitude) > 180 || near.Radius < MinRadius || near.Radius > MaxRadius {
		return Near{}, errNear
	}
	return near, nil
}

var errNear = fmt.Errorf("near must be a latitude from -90 to 90, a longitude from -180 to 180, and a radius from %d to %d metres, such as 48.8584,2.2945,500", MinRadius, MaxRadius)

// String returns the text that ParseNear reads.
func (n Near) String() string {
	text := func(number float64) string { return strconv.FormatFloat(number, 'f', -1, 64) }
	return text(n.Latitude) + "," + text(n.Longitude) + "," + text(n.Radius)
}

// Cells is a range of cells: from First, and before End.
type Cells struct{ First, End int64 }

// EarthRadius is the mean radius of the earth, in metres, with which distances are computed.
const EarthRadius = 6_371_008.8

// margin is by how much the cells reach beyond the circle, in metres, for what is rounded.
const margin = 1

// maxRanges bounds the ranges of Cells.
const maxRanges = 9

// Cells returns up to nine ranges of cells that have all locations of the circle, and others around it: three rows and three columns of a grid
// whose cells are at least half as wide and high as the circle.
func (n Near) Cells() []Cells {
	angle := (n.Radius + margin) / EarthRadius
	height := angle * 180 / math.Pi // half of it, in degrees
	south, north := n.Latitude-height, n.Latitude+height
	west, east := -180.0, 180.0
	if south > -90 && north < 90 {
		// The circle is widest not at the latitude of its centre, but nearer to the pole.
		sine := math.Sin(angle) / math.Cos(n.Latitude*math.Pi/180)
		if sine < 1 {
			width := math.Asin(sine) * 180 / math.Pi
			west, east = n.Longitude-width, n.Longitude+width
		}
	}
	// The coarsest grid has one cell.
	for shift := 0; shift < gridBits; shift++ {
		if cells := cover(south, north, west, east, shift); len(cells) <= maxRanges {
			return cells
		}
	}
	return cover(-90, 90, -180, 180, gridBits)
}

// cover returns the cells of the grid whose cells have 2^shift cells of the finest one in each direction, or more than maxRanges if it has
// more in the box. A box that crosses the 180th meridian is two.
func cover(south, north, west, east float64, shift int) []Cells {
	firstRow, lastRow := gridRow(south)>>shift, gridRow(north)>>shift
	if lastRow-firstRow >= maxRanges {
		return make([]Cells, maxRanges+1)
	}
	type span struct{ first, last int64 }
	var spans []span
	switch {
	case east-west >= 360:
		spans = []span{{0, gridSize - 1}}
	case west < -180:
		spans = []span{{0, gridColumn(east)}, {gridColumn(west + 360), gridSize - 1}}
	case east > 180:
		spans = []span{{0, gridColumn(east - 360)}, {gridColumn(west), gridSize - 1}}
	default:
		spans = []span{{gridColumn(west), gridColumn(east)}}
	}
	var cells []Cells
	for _, s := range spans {
		for column := s.first >> shift; column <= s.last>>shift; column++ {
			for row := firstRow; row <= lastRow; row++ {
				if len(cells) > maxRanges {
					return cells
				}
				first := interleave(row, column) << (2 * shift)
				cells = append(cells, Cells{First: first, End: first + 1<<(2*shift)})
			}
		}
	}
	return cells
}

// Distance returns the distance of two locations in metres, along a great circle.
func (p Location) Distance(other Location) float64 {
	const radian = math.Pi / 180
	rows, columns := math.Sin((other.Latitude-p.Latitude)*radian/2), math.Sin((other.Longitude-p.Longitude)*radian/2)
	return 2 * EarthRadius * math.Asin(math.Sqrt(min(1, rows*rows+math.Cos(p.Latitude*radian)*math.Cos(other.Latitude*radian)*columns*columns)))
}
