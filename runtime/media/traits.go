package media

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"mediastack.dev/runtime/fault"
)

// Traits restrict a search to items that have or lack something, and by the size and the look of their files. The zero value matches everything.
type Traits struct {
	// HasCaption and HasGroup are whether items have them; nil = does not matter.
	HasCaption, HasGroup *bool
	// Bytes is the size of the file that the document describes. An item whose width and height are not known matches no bounds of them.
	Bytes, Width, Height Bounds
	Orientation          Orientation
	// Near is the color that the dominant color of an image is close to; nil = none.
	Near *Color
}

// Bounds are the least and the greatest number that match; nil = no bound.
type Bounds struct{ Min, Max *int64 }

// Orientation is whether a picture is wider than high. Empty = does not matter.
type Orientation string

// The orientations.
const (
	Landscape Orientation = "landscape"
	Portrait  Orientation = "portrait"
	Square    Orientation = "square"
)

// Color is one of sRGB.
type Color struct{ Red, Green, Blue uint8 }

// MaxColorDistance is how far the dominant color of an item may be from the one that is searched: the distance in the cube of red, green and blue, of
// which the side is 255.
const MaxColorDistance = 60

// String returns the color as documents have it.
func (c Color) String() string { return fmt.Sprintf("#%02x%02x%02x", c.Red, c.Green, c.Blue) }

// TraitsText are traits as a client sends them. Empty fields were not sent.
type TraitsText struct {
	Has, Lacks                                                   string
	MinBytes, MaxBytes, MinWidth, MaxWidth, MinHeight, MaxHeight *int64
	Orientation, Color                                           string
}

// Parse returns the traits, or an Invalid fault that names the first parameter that is malformed.
func (t TraitsText) Parse() (Traits, error) {
	var traits Traits
	for _, list := range []struct {
		name, text string
		has        bool
	}{{"has", t.Has, true}, {"lacks", t.Lacks, false}} {
		if err := traits.setAll(list.name, list.text, list.has); err != nil {
			return Traits{}, err
		}
	}
	var err error
	for _, bounds := range []struct {
		name     string
		min, max *int64
		of       *Bounds
	}{{"Bytes", t.MinBytes, t.MaxBytes, &traits.Bytes}, {"Width", t.MinWidth, t.MaxWidth, &traits.Width}, {"Height", t.MinHeight, t.MaxHeight, &traits.Height}} {
		if *bounds.of, err = parseBounds(bounds.name, bounds.min, bounds.max); err != nil {
			return Traits{}, err
		}
	}
	switch traits.Orientation = Orientation(t.Orientation); traits.Orientation {
	case "", Landscape, Portrait, Square:
	default:
		return Traits{}, fault.New(fault.Invalid, "orientation must be landscape, portrait or square")
	}
	if t.Color != "" {
		color, ok := parseColor(t.Color)
		if !ok {
			return Traits{}, fault.New(fault.Invalid, "color must be six hexadecimal digits after #, such as #1e6fb9; in a URL, write # as %%23")
		}
		traits.Near = &color
	}
	return traits, nil
}

// setAll reads what items have or lack: caption, group or both.
func (t *Traits) setAll(name, text string, has bool) error {
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		var of **bool
		switch one {
		case "caption":
			of = &t.HasCaption
		case "group":
			of = &t.HasGroup
		default:
			return fault.New(fault.Invalid, "%s must be caption, group, or both with a comma", name)
		}
		if *of != nil && **of != has {
			return fault.New(fault.Invalid, "has and lacks cannot both be %s", one)
		}
		*of = &has
	}
	return nil
}

func parseBounds(name string, least, greatest *int64) (Bounds, error) {
	for which, bound := range map[string]*int64{"min": least, "max": greatest} {
		if bound != nil && *bound < 0 {
			return Bounds{}, fault.New(fault.Invalid, "%s%s must be 0 or more", which, name)
		}
	}
	if least != nil && greatest != nil && *least > *greatest {
		return Bounds{}, fault.New(fault.Invalid, "min%s must not be more than max%[1]s", name)
	}
	return Bounds{least, greatest}, nil
}

func parseColor(text string) (Color, bool) {
	digits := strings.TrimPrefix(text, "#")
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != 6 || n > math.MaxUint32>>8 {
		return Color{}, false
	}
	return Color{uint8(n >> 16), uint8(n >> 8 & 0xff), uint8(n & 0xff)}, true
}

// Any reports whether something is restricted.
func (t Traits) Any() bool { return t != Traits{} }

// Parameters returns the traits as parameters of a URL have them.
func (t Traits) Parameters() map[string]string {
	all := map[string]string{}
	var has, lacks []string
	for _, trait := range []struct {
		name string
		of   *bool
	}{{"caption", t.HasCaption}, {"group", t.HasGroup}} {
		switch {
		case trait.of == nil:
		case *trait.of:
			has = append(has, trait.name)
		default:
			lacks = append(lacks, trait.name)
		}
	}
	set := func(name, value string) {
		if value != "" {
			all[name] = value
		}
	}
	set("has", strings.Join(has, ","))
	set("lacks", strings.Join(lacks, ","))
	for name, bounds := range map[string]Bounds{"Bytes": t.Bytes, "Width": t.Width, "Height": t.Height} {
		if bounds.Min != nil {
			set("min"+name, strconv.FormatInt(*bounds.Min, 10))
		}
		if bounds.Max != nil {
			set("max"+name, strconv.FormatInt(*bounds.Max, 10))
		}
	}
	set("orientation", string(t.Orientation))
	if t.Near != nil {
		set("color", t.Near.String())
	}
	return all
}
