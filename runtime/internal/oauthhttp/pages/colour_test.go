package pages

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

func TestContrastIsThatOfTheStandard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want float64
	}{{"#000000", "#ffffff", 21}, {"#777777", "#ffffff", 4.48}, {"#0000ff", "#ffffff", 8.59}, {"#ffff00", "#ffffff", 1.07}, {"#808080", "#808080", 1}} {
		a, _ := parseColour(c.a)
		b, _ := parseColour(c.b)
		if got := contrast(a, b); math.Abs(got-c.want) > 0.01 || got != contrast(b, a) {
			t.Errorf("contrast of %s and %s is %.2f, want %.2f", c.a, c.b, got, c.want)
		}
	}
}

// brands are colours that are hard to be readable with, and some that are not.
var brands = []string{"#2456d6", "#ffff00", "#000000", "#ffffff", "#808080", "#777777", "#ff0000", "#00ff00", "#0000ff", "#ff66cc", "#17191e", "#f5f6f8", "#ffb300", "#6b21a8"}

func TestEverythingCanBeReadInBothSchemesAndInAnyBrandsColour(t *testing.T) {
	t.Parallel()
	for _, brand := range brands {
		tone, err := parseColour(brand)
		if err != nil {
			t.Fatal(err)
		}
		for scheme, p := range map[string]palette{"light": lightPalette(tone), "dark": darkPalette(tone)} {
			if p.fill != tone {
				t.Errorf("%s, %s: the button is %s", brand, scheme, p.fill)
			}
			for _, pair := range []struct {
				what          string
				front, behind colour
				least         float64
			}{
				{"text on the card", p.text, p.surface, aaText},
				{"text on the page", p.text, p.page, aaText},
				{"text set apart", p.text, p.soft, aaText},
				{"muted text on the card", p.muted, p.surface, aaText},
				{"muted text on the page", p.muted, p.page, aaText},
				{"links on the card", p.accent, p.surface, aaText},
				{"links on the page", p.accent, p.page, aaText},
				{"text of the button", p.ink, p.fill, aaText},
				{"text of the button under the pointer", p.ink, p.hover, aaText},
				{"problems", p.problem, p.problemSoft, aaText},
				{"problems on the card", p.problem, p.surface, aaText},
				{"a grave button under the pointer", p.problem, p.soft, aaText},
				{"warnings", p.warning, p.warningSoft, aaText},
				{"good news", p.good, p.goodSoft, aaText},
				{"borders of fields", p.field, p.surface, aaPart},
				{"borders of buttons under the pointer", p.field, p.soft, aaPart},
				{"the border of the main button", p.edge, p.surface, aaPart},
				{"the border of the mark", p.edge, p.page, aaPart},
				{"the focus around a field", p.accent, p.surface, aaPart},
				{"the focus on the page", p.accent, p.page, aaPart},
			} {
				if got := contrast(pair.front, pair.behind); got < pair.least {
					t.Errorf("%s, %s: %s, %s on %s, has a contrast of %.2f, less than %.1f", brand, scheme, pair.what, pair.front, pair.behind, got, pair.least)
				}
			}
			if p.hover == p.fill {
				t.Errorf("%s, %s: the button does not change under the pointer", brand, scheme)
			}
		}
	}
}

// What the test above does not know must not be on a page.
func TestTheStyleSheetHasNoColoursOfItsOwn(t *testing.T) {
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
			t.Errorf("a colour of its own: %s", line)
		}
		if strings.Contains(line, "url(") || strings.Contains(line, "@import") {
			t.Errorf("it reaches elsewhere: %s", line)
		}
	}
}
