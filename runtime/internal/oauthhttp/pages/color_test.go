package pages

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

func TestContrast_MatchesWCAG(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want float64
	}{{"#000000", "#ffffff", 21}, {"#777777", "#ffffff", 4.48}, {"#0000ff", "#ffffff", 8.59}, {"#ffff00", "#ffffff", 1.07}, {"#808080", "#808080", 1}} {
		a, _ := parseColor(c.a)
		b, _ := parseColor(c.b)
		if got := contrast(a, b); math.Abs(got-c.want) > 0.01 || got != contrast(b, a) {
			t.Errorf("contrast of %s and %s is %.2f, want %.2f", c.a, c.b, got, c.want)
		}
	}
}

// brands are colors that are hard to be readable with, and some that are not.
var brands = []string{"#2456d6", "#ffff00", "#000000", "#ffffff", "#808080", "#777777", "#ff0000", "#00ff00", "#0000ff", "#ff66cc", "#17191e", "#f5f6f8", "#ffb300", "#6b21a8"}

func TestPalette_HasSufficientContrastForEveryBrandColor(t *testing.T) {
	t.Parallel()
	for _, brand := range brands {
		brandColor, err := parseColor(brand)
		if err != nil {
			t.Fatal(err)
		}
		for scheme, p := range map[string]palette{"light": lightPalette(brandColor), "dark": darkPalette(brandColor)} {
			if p.buttonBg != brandColor {
				t.Errorf("%s, %s: the button is %s", brand, scheme, p.buttonBg)
			}
			for _, pair := range []struct {
				what          string
				front, behind rgbColor
				least         float64
			}{
				{"text on the card", p.text, p.surface, aaText},
				{"text on the page", p.text, p.background, aaText},
				{"text set apart", p.text, p.subtle, aaText},
				{"muted text on the card", p.muted, p.surface, aaText},
				{"muted text on the page", p.muted, p.background, aaText},
				{"links on the card", p.accent, p.surface, aaText},
				{"links on the page", p.accent, p.background, aaText},
				{"text of the button", p.buttonText, p.buttonBg, aaText},
				{"text of the button under the pointer", p.buttonText, p.buttonHoverBg, aaText},
				{"problems", p.errorText, p.errorBg, aaText},
				{"problems on the card", p.errorText, p.surface, aaText},
				{"a grave button under the pointer", p.errorText, p.subtle, aaText},
				{"warnings", p.warningText, p.warningBg, aaText},
				{"good news", p.successText, p.successBg, aaText},
				{"borders of fields", p.controlBorder, p.surface, aaNonText},
				{"borders of buttons under the pointer", p.controlBorder, p.subtle, aaNonText},
				{"the border of the main button", p.buttonBorder, p.surface, aaNonText},
				{"the border of the mark", p.buttonBorder, p.background, aaNonText},
				{"the focus around a field", p.accent, p.surface, aaNonText},
				{"the focus on the page", p.accent, p.background, aaNonText},
			} {
				if got := contrast(pair.front, pair.behind); got < pair.least {
					t.Errorf("%s, %s: %s, %s on %s, has a contrast of %.2f, less than %.1f", brand, scheme, pair.what, pair.front, pair.behind, got, pair.least)
				}
			}
			if p.buttonHoverBg == p.buttonBg {
				t.Errorf("%s, %s: the button does not change under the pointer", brand, scheme)
			}
		}
	}
}

// What the test above does not know must not be on a page.
func TestStylesheet_UsesOnlyPaletteColors(t *testing.T) {
	t.Parallel()
	rules, err := files.ReadFile("files/style.css")
	if err != nil {
		t.Fatal(err)
	}
	known := lightPalette(black).css()
	for _, use := range regexp.MustCompile(`var\((--[a-z-]+)\)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(known, use[1]+":") {
			t.Errorf("the style sheet uses %s, which nobody sets", use[1])
		}
	}
	for line := range strings.Lines(string(rules)) {
		if !strings.Contains(line, "box-shadow: 0 1px") && regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(|oklch\(`).MatchString(line) {
			t.Errorf("a color of its own: %s", line)
		}
		if strings.Contains(line, "url(") || strings.Contains(line, "@import") {
			t.Errorf("it reaches elsewhere: %s", line)
		}
	}
}
