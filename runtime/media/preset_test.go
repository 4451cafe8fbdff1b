package media

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mediastack.dev/runtime/settings"
)

func TestRecipeOf_HasWhatTakesEffect(t *testing.T) {
	t.Parallel()
	point := &FocusPoint{X: 250, Y: 800}
	for name, c := range map[string]struct {
		preset  settings.Preset
		density int
		format  settings.Format
		want    Recipe
	}{
		"defaults": {settings.Preset{Width: 100}, 1, settings.FormatWebP,
			Recipe{Width: 100, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatWebP, Quality: 80}},
		"a density multiplies both sides": {settings.Preset{Width: 100, Height: 50, Fit: settings.Cover}, 3, settings.FormatAVIF,
			Recipe{Width: 300, Height: 150, Fit: settings.Cover, Focus: settings.Centre, Format: settings.FormatAVIF, Quality: 55}},
		"the focus point of the item": {settings.Preset{Width: 10, Height: 10, Fit: settings.Cover, Focus: settings.Point}, 1, settings.FormatPNG,
			Recipe{Width: 10, Height: 10, Fit: settings.Cover, Focus: settings.Point, PointX: 250, PointY: 800, Format: settings.FormatPNG}},
		"no point without the focus on it": {settings.Preset{Width: 10, Height: 10, Fit: settings.Cover, Focus: settings.Entropy}, 1, settings.FormatPNG,
			Recipe{Width: 10, Height: 10, Fit: settings.Cover, Focus: settings.Entropy, Format: settings.FormatPNG}},
		"PNG has no quality": {settings.Preset{Width: 10, Quality: 30}, 1, settings.FormatPNG,
			Recipe{Width: 10, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatPNG}},
		"the background of JPEG": {settings.Preset{Width: 10, Quality: 30, Background: "#FF8000"}, 1, settings.FormatJPEG,
			Recipe{Width: 10, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatJPEG, Quality: 30, Background: [3]byte{255, 128, 0}}},
		"the background of pad": {settings.Preset{Width: 10, Height: 10, Fit: settings.Pad}, 1, settings.FormatWebP,
			Recipe{Width: 10, Height: 10, Fit: settings.Pad, Focus: settings.Centre, Format: settings.FormatWebP, Quality: 80, Background: [3]byte{255, 255, 255}}},
		"no background where the picture is transparent": {settings.Preset{Width: 10, Background: "#ff8000"}, 1, settings.FormatWebP,
			Recipe{Width: 10, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatWebP, Quality: 80}},
		"animation in WebP": {settings.Preset{Width: 10, Animated: true}, 1, settings.FormatWebP,
			Recipe{Width: 10, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatWebP, Quality: 80, Animated: true}},
		"no animation elsewhere": {settings.Preset{Width: 10, Animated: true}, 1, settings.FormatAuto,
			Recipe{Width: 10, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatAuto, Quality: 80}},
	} {
		if diff := cmp.Diff(c.want, RecipeOf(c.preset, c.density, c.format, point)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	preset := settings.Preset{Width: 10, Height: 10, Fit: settings.Cover, Focus: settings.Point}
	if got := RecipeOf(preset, 1, settings.FormatPNG, nil); got.Focus != settings.Centre {
		t.Errorf("an item without a focus point: %+v", got)
	}
}

// What no preset allows is stale: RecipesOf must have everything that an address can ask for.
func TestRecipesOf_AreThoseOfAllAddresses(t *testing.T) {
	t.Parallel()
	for name, preset := range map[string]settings.Preset{
		"auto": {Width: 10, Densities: []int{2, 3}}, "animated": {Width: 10, Animated: true}, "one format": {Width: 10, Format: settings.FormatPNG},
		"the focus of the item": {Width: 10, Height: 10, Fit: settings.Cover, Focus: settings.Point},
	} {
		known := map[RecipeID]bool{}
		for _, recipe := range RecipesOf(preset) {
			if known[recipe.ID(1)] {
				t.Errorf("%s: %+v is there twice", name, recipe)
			}
			known[recipe.ID(1)] = true
		}
		asked := 0
		for _, density := range preset.WithDefaults().Densities {
			for _, format := range append(NegotiatedFormats(preset), SuffixFormats(preset)...) {
				for _, point := range []*FocusPoint{nil, {X: 1, Y: 999}} {
					asked++
					if !known[RecipeOf(preset, density, format, point).ID(1)] {
						t.Errorf("%s: density %d in %s at %v is missing", name, density, format, point)
					}
				}
			}
		}
		if len(known) > asked {
			t.Errorf("%s: %d recipes for %d addresses", name, len(known), asked)
		}
	}
}
