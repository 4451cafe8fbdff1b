package pages

import (
	"fmt"
	"strings"
)

// Minimum contrast ratios of WCAG 2.2 AA.
const (
	aaText    = 4.5 // text: success criterion 1.4.3
	aaNonText = 3.0 // borders of controls and the focus indicator: success criterion 1.4.11
)

// palette holds all colors of one color scheme. The style sheet uses no others.
type palette struct {
	background, surface, subtle                       rgbColor // backgrounds: of the page, of the card, of highlighted parts
	text, muted                                       rgbColor
	divider                                           rgbColor // decorative
	controlBorder                                     rgbColor // borders of inputs and buttons
	buttonBg, buttonHoverBg, buttonText, buttonBorder rgbColor // the primary button
	accent                                            rgbColor // links, focus indicator, selection

	errorText, errorBg     rgbColor
	warningText, warningBg rgbColor
	successText, successBg rgbColor
}

func lightPalette(brand rgbColor) palette {
	p := palette{
		background: colorOf(0xf5f6f8), surface: white, subtle: colorOf(0xf1f3f6),
		text: colorOf(0x16191e), muted: colorOf(0x535c69), divider: colorOf(0xe2e6eb), controlBorder: colorOf(0x7b8593),
		errorText: colorOf(0xa3161d), errorBg: colorOf(0xfdefef),
		warningText: colorOf(0x7a4300), warningBg: colorOf(0xfff4de),
		successText: colorOf(0x12603a), successBg: colorOf(0xe8f6ee),
	}
	return p.withBrandColor(brand, black)
}

func darkPalette(brand rgbColor) palette {
	p := palette{
		background: colorOf(0x0e1013), surface: colorOf(0x17191e), subtle: colorOf(0x22262d),
		text: colorOf(0xeef1f5), muted: colorOf(0xa8b1be), divider: colorOf(0x2c3139), controlBorder: colorOf(0x7c8694),
		errorText: colorOf(0xffa3a1), errorBg: colorOf(0x391a1c),
		warningText: colorOf(0xffcf87), warningBg: colorOf(0x33260f),
		successText: colorOf(0x8fe0b0), successBg: colorOf(0x132d1f),
	}
	return p.withBrandColor(brand, white)
}

func colorOf(hex uint32) rgbColor { return rgbColor{uint8(hex >> 16), uint8(hex >> 8), uint8(hex)} } //nolint:gosec // the bytes of a constant

// withBrandColor derives the colors of the primary button and of links. The button has the
// brand color; its border and all links are mixed with far until their contrast suffices.
func (p palette) withBrandColor(brand, far rgbColor) palette {
	p.buttonBg, p.buttonText = brand, readableOn(brand)
	// The hover color moves away from the text color, which raises the contrast. Black and
	// white can only move towards it.
	away := white
	if p.buttonText == white {
		away = black
	}
	if p.buttonHoverBg = brand.mix(away, 0.14); p.buttonHoverBg == brand {
		p.buttonHoverBg = brand.mix(p.buttonText, 0.14)
	}
	p.buttonBorder = brand.readable(far, aaNonText, p.surface, p.background)
	p.accent = brand.readable(far, aaText, p.surface, p.background, p.subtle)
	return p
}

// css returns the palette as CSS custom properties.
func (p palette) css() string {
	var text strings.Builder
	for _, v := range []struct {
		name  string
		value rgbColor
	}{
		{"background", p.background}, {"surface", p.surface}, {"subtle", p.subtle},
		{"text", p.text}, {"muted", p.muted}, {"divider", p.divider}, {"control-border", p.controlBorder},
		{"button-bg", p.buttonBg}, {"button-hover-bg", p.buttonHoverBg}, {"button-text", p.buttonText}, {"button-border", p.buttonBorder}, {"accent", p.accent},
		{"error-text", p.errorText}, {"error-bg", p.errorBg},
		{"warning-text", p.warningText}, {"warning-bg", p.warningBg},
		{"success-text", p.successText}, {"success-bg", p.successBg},
	} {
		fmt.Fprintf(&text, "--%s:%s;", v.name, v.value)
	}
	return text.String()
}

// stylesheet returns the custom properties of both color schemes, followed by the rules.
func stylesheet(light, dark palette, rules string) string {
	return ":root{color-scheme:light dark;" + light.css() + "}\n@media (prefers-color-scheme:dark){:root{" + dark.css() + "}}\n" + rules
}

// markSVG returns the icon of a service without a logo: a framed picture.
func markSVG(light, dark palette) string {
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><style>.a{fill:` + light.buttonBg.String() + `;stroke:` + light.buttonBorder.String() + `}.b{fill:` + light.buttonText.String() + `}` +
		`@media (prefers-color-scheme:dark){.a{fill:` + dark.buttonBg.String() + `;stroke:` + dark.buttonBorder.String() + `}.b{fill:` + dark.buttonText.String() + `}}</style>` +
		`<rect class="a" x=".5" y=".5" width="31" height="31" rx="8"/><circle class="b" cx="11" cy="11" r="2.5"/><path class="b" d="M6 24l6.5-8 4 4.5L21 14l5 10z"/></svg>`
}
