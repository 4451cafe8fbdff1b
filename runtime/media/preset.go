package media

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"
	"strings"

	"mediastack.dev/runtime/settings"
)

// FocusPoint is the point of an image that settings.Point keeps, in thousandths of its width and height as it is
// displayed, from 0 to 1000.
type FocusPoint struct{ X, Y int }

// maxFocus is the value of a FocusPoint at the right or lower edge.
const maxFocus = 1000

// RecipeOf returns the recipe of a preset at a density and in a format that it allows; FormatAuto is what every client
// accepts. focus is that of the item, nil if it has none.
func RecipeOf(preset settings.Preset, density int, format settings.Format, focus *FocusPoint) Recipe {
	preset = preset.WithDefaults()
	recipe := Recipe{
		Width: preset.Width * density, Height: preset.Height * density, Fit: preset.Fit, Focus: settings.Centre,
		Format: format, Quality: format.Spec().DefaultQuality(), Sharpen: preset.Sharpen,
		Animated: preset.Animated && format.Spec().Animated(),
	}
	if preset.Quality != 0 && recipe.Quality != 0 {
		recipe.Quality = preset.Quality
	}
	if preset.Fit == settings.Cover {
		recipe.Focus = preset.Focus
		if preset.Focus == settings.Point && focus == nil {
			recipe.Focus = settings.Centre
		} else if preset.Focus == settings.Point {
			recipe.PointX, recipe.PointY = focus.X, focus.Y
		}
	}
	// FormatAuto is opaque for images that have no transparency only.
	if preset.Fit == settings.Pad || format.Spec().Opaque() {
		_, _ = hex.Decode(recipe.Background[:], []byte(strings.TrimPrefix(preset.Background, "#"))) // it was validated
	}
	return recipe
}

// NegotiatedFormats returns the formats of an address of the preset without a suffix, in the order of
// preference. The last one is for every client.
func NegotiatedFormats(preset settings.Preset) []settings.Format {
	preset = preset.WithDefaults()
	if preset.Format != settings.FormatAuto {
		return []settings.Format{preset.Format}
	}
	negotiated := slices.DeleteFunc(preferredFormats(), func(f settings.Format) bool {
		spec := f.Spec()
		return spec.Preference() == 0 || preset.Animated && !spec.Animated()
	})
	return append(negotiated, settings.FormatAuto)
}

// SuffixFormats returns the formats that an address of the preset may name by a suffix. A preset with one format has no
// suffixes: each picture has one address.
func SuffixFormats(preset settings.Preset) []settings.Format {
	if preset.WithDefaults().Format != settings.FormatAuto {
		return nil
	}
	return preferredFormats()
}

// preferredFormats returns all formats but FormatAuto: first those that are negotiated, in the order of preference.
func preferredFormats() []settings.Format {
	rank := func(f settings.Format) int { return cmp.Or(f.Spec().Preference(), math.MaxInt) }
	formats := slices.DeleteFunc(slices.Clone(settings.Formats), func(f settings.Format) bool { return f == settings.FormatAuto })
	slices.SortStableFunc(formats, func(a, b settings.Format) int { return cmp.Compare(rank(a), rank(b)) })
	return formats
}

// RecipesOf returns every recipe that addresses of the preset can ask for, for items without a focus point and for
// one that has it at the upper left: no other point has another RecipeID.
func RecipesOf(preset settings.Preset) []Recipe {
	preset = preset.WithDefaults()
	formats := append(NegotiatedFormats(preset), SuffixFormats(preset)...)
	slices.Sort(formats)
	points := []*FocusPoint{nil}
	if preset.Focus == settings.Point {
		points = append(points, &FocusPoint{})
	}
	var recipes []Recipe
	for _, density := range preset.Densities {
		for _, format := range slices.Compact(formats) {
			for _, point := range points {
				recipes = append(recipes, RecipeOf(preset, density, format, point))
			}
		}
	}
	return recipes
}
