package rendition

import (
	"context"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// Settings returns the settings of an account. settings.Service implements it.
type Settings interface {
	Get(ctx context.Context, accountID uuid.UUID) (settings.Layers, error)
}

// NewPresets returns the recipes of the presets in settings, and those of views, which every account has.
func NewPresets(of Settings) Presets { return presets{of} }

type presets struct{ settings Settings }

// Recipes implements Presets.
func (p presets) Recipes(ctx context.Context, accountID uuid.UUID) ([]Request, error) {
	layers, err := p.settings.Get(ctx, accountID)
	if err != nil {
		return nil, err
	}
	var requests []Request
	for _, preset := range layers.Presets() {
		for _, recipe := range media.RecipesOf(preset.Preset) {
			requests = append(requests, Request{Preset: preset.Name, Recipe: recipe})
		}
	}
	for _, size := range ViewSizes() {
		requests = append(requests, size.request())
	}
	return requests, nil
}
