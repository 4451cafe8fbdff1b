package operator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

func pinPresets(presets ...v1alpha1.Preset) func(*v1alpha1.MediaSettings) {
	return func(s *v1alpha1.MediaSettings) { s.Spec.Presets = presets }
}

// Presets are pinned by name, the tenant's are beside them, and the status shows both with what is stored of them.
func TestPresets_ArePinnedAndReported(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	account := b.account("demo")
	pins := b.settings("site", "demo", pinPresets(v1alpha1.Preset{Name: "hero", Width: 1200, Densities: []int32{1, 2}, Eager: true}, v1alpha1.Preset{Name: "card", Width: 300, Height: 200, Fit: "cover"}))
	b.ready(account)
	b.ready(pins)
	id, service := b.accountID(account), settings.NewService(b.database.Settings)
	presets := func(names ...string) settings.Layer {
		list := []settings.Preset{}
		for _, name := range names {
			list = append(list, settings.Preset{Name: name, Width: 64})
		}
		return settings.Layer{Pictures: settings.Pictures{Presets: &list}}
	}
	_, err := service.Update(b.ctx, id, byTenant, presets("mine", "hero"))
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "presets.hero: pinned by MediaSettings "+b.namespace+"/site") {
		t.Errorf("a tenant's preset with a pinned name gives %v", err)
	}
	must(t, check.ErrorOf(service.Update(b.ctx, id, byTenant, presets("mine"))))
	must(t, check.ErrorOf(service.Update(b.ctx, id, byTenant, settings.Layer{Pictures: settings.Pictures{Originals: settings.OriginalsSigned}})))
	shows := func(want string) {
		t.Helper()
		wait.UntilNone(b.t, func() string {
			must(t, b.Get(b.ctx, client.ObjectKeyFromObject(pins), pins))
			var shown []string
			for _, p := range pins.Status.Presets {
				shown = append(shown, fmt.Sprintf("%s %s %d %d %d", p.Name, p.Source, p.Ready, p.Stale, p.Bytes))
				if p.Pending != nil {
					shown[len(shown)-1] += fmt.Sprintf(" (%d pending)", *p.Pending)
				}
			}
			if got := strings.Join(shown, ", "); got != want {
				return "the status shows " + got
			}
			return ""
		})
	}
	shows("hero pinned 0 0 0 (0 pending), card pinned 0 0 0, mine tenant 0 0 0")
	wait.UntilNone(b.t, func() string {
		must(t, b.Get(b.ctx, client.ObjectKeyFromObject(pins), pins))
		if got := fmt.Sprintf("%v %v %s", pins.Status.Pinned, pins.Status.Tenant, pins.Status.Effective.Originals); got != "[presets] [presets originals] signed" {
			return got
		}
		return ""
	})

	// What the runtime counts shows without another change.
	store := func(preset string, recipe media.Recipe, items int) {
		recipeID := recipe.ID(media.EncoderVersion)
		b.exec("INSERT INTO rendition_total (account_id, preset, recipe_id, items, bytes) VALUES ($1, $2, $3, $4::bigint, $4::bigint * 100)", id, preset, recipeID[:], items)
	}
	hero, found := mustLayers(b, service, account).Preset("hero")
	if !found {
		t.Fatal("there is no preset hero")
	}
	store("hero", media.RecipeOf(hero, 2, settings.FormatAVIF, nil), 3)
	store("hero", media.RecipeOf(hero, 1, settings.FormatAuto, nil), 4)
	store("hero", media.Recipe{Width: 77}, 2)
	store("gone", media.Recipe{Width: 78}, 9)
	shows("hero pinned 7 2 900 (0 pending), card pinned 0 0 0, mine tenant 0 0 0")

	// So does what is pending.
	b.exec("INSERT INTO work (kind, key, account_id) VALUES ('picture', gen_random_uuid(), $1)", id)
	shows("hero pinned 7 2 900 (1 pending), card pinned 0 0 0, mine tenant 0 0 0")
	b.exec("DELETE FROM work WHERE kind = 'picture'")
	shows("hero pinned 7 2 900 (0 pending), card pinned 0 0 0, mine tenant 0 0 0")

	// Another width makes all of them stale at once.
	change(b, pins, func(s *v1alpha1.MediaSettings) { s.Spec.Presets[0].Width = 1000 })
	b.ready(pins)
	shows("hero pinned 0 9 900 (0 pending), card pinned 0 0 0, mine tenant 0 0 0")

	// A pin of the tenant's name takes its place.
	change(b, pins, func(s *v1alpha1.MediaSettings) {
		s.Spec.Presets = []v1alpha1.Preset{{Name: "mine", Height: 10}}
		s.Spec.Originals = "public"
	})
	b.ready(pins)
	shows("mine pinned 0 0 0")
	if got := fmt.Sprintf("%v %v %s", pins.Status.Pinned, pins.Status.Tenant, pins.Status.Effective.Originals); got != "[presets originals] [] public" {
		t.Errorf("pinned, tenant and originals are %s", got)
	}
	must(t, b.Delete(b.ctx, pins))
	b.gone(pins)
	if mine, _ := mustLayers(b, service, account).Preset("mine"); mine.Width != 64 {
		t.Errorf("after the pins the tenant's preset is %+v", mine)
	}
}

func mustLayers(b *harness, service *settings.Service, of *v1alpha1.MediaAccount) settings.Layers {
	b.t.Helper()
	layers, err := service.Get(b.ctx, b.accountID(of))
	must(b.t, err)
	return layers
}

// A preset that the API server accepts and the runtime rejects could never be pinned. One that only the API server rejects would be
// the tenant's privilege.
func TestPresets_TheAPIServerAndTheRuntimeAgree(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.idle = true })
	long := strings.Repeat("a", 63)
	for _, text := range []string{
		`{"name":"a","width":1}`, `{"name":"` + long + `","height":4096}`, `{"name":"` + long + `a","height":1}`, `{"name":"A","width":1}`, `{"name":"-a","width":1}`, `{"name":"a-","width":1}`, `{"name":"a.b","width":1}`,
		`{"name":"original","width":1}`, `{"name":"webp","width":1}`, `{"name":"thumbnail","width":1}`, `{"name":"thumbnail2","width":1}`,
		`{"name":"a"}`, `{"name":"a","width":4097}`, `{"name":"a","height":4097}`, `{"name":"a","width":-1}`, `{"name":"a","width":1,"fit":"fill"}`,
		`{"name":"a","width":1,"fit":"cover"}`, `{"name":"a","height":1,"fit":"pad"}`, `{"name":"a","width":1,"fit":"inside"}`, `{"name":"a","width":1,"height":1,"fit":"pad"}`,
		`{"name":"a","width":1,"focus":"centre"}`, `{"name":"a","width":1,"height":1,"fit":"pad","focus":"centre"}`, `{"name":"a","width":1,"height":1,"fit":"cover","focus":"attention"}`, `{"name":"a","width":1,"height":1,"fit":"cover","focus":"face"}`,
		`{"name":"a","width":1,"format":"gif"}`, `{"name":"a","width":1,"format":"avif","quality":100}`, `{"name":"a","width":1,"quality":101}`, `{"name":"a","width":1,"quality":-1}`, `{"name":"a","width":1,"format":"png","quality":5}`, `{"name":"a","width":1,"format":"png"}`,
		`{"name":"a","width":1365,"densities":[3]}`, `{"name":"a","width":1366,"densities":[3]}`, `{"name":"a","height":2049,"densities":[1,2]}`, `{"name":"a","width":1,"densities":[4]}`, `{"name":"a","width":1,"densities":[0]}`, `{"name":"a","width":1,"densities":[2,2]}`, `{"name":"a","width":1,"densities":[1,2,3]}`,
		`{"name":"a","width":1,"background":"#fff"}`, `{"name":"a","width":1,"background":"#FFaa00"}`, `{"name":"a","width":1,"background":"white"}`,
		`{"name":"a","width":1,"animated":true}`, `{"name":"a","width":1,"animated":true,"format":"webp"}`, `{"name":"a","width":1,"animated":true,"format":"auto"}`, `{"name":"a","width":1,"animated":true,"format":"avif"}`, `{"name":"a","width":1,"animated":false,"format":"avif","sharpen":true}`, `{"name":"a","width":1,"eager":true}`, `{"name":"a","width":1,"eager":true,"format":"png","densities":[1,2,3]}`,
	} {
		var pinned v1alpha1.Preset
		var own settings.Preset
		must(t, json.Unmarshal([]byte(text), &pinned))
		must(t, json.Unmarshal([]byte(text), &own))
		b.sameDecision(text, own.Validate(), pinned)
	}
	b.sameDecision("two of one name", fault.New(fault.Invalid, "two"), v1alpha1.Preset{Name: "a", Width: 1}, v1alpha1.Preset{Name: "a", Width: 2})
	many := make([]v1alpha1.Preset, 33)
	for i := range many {
		many[i] = v1alpha1.Preset{Name: fmt.Sprintf("p%d", i), Width: 1365, Height: 1365, Fit: "cover", Focus: "point", Densities: []int32{1, 2, 3}, Animated: true, Format: "webp", Quality: 1, Background: "#000000"}
	}
	b.sameDecision("32", nil, many[:32]...)
	b.sameDecision("33", fault.New(fault.Invalid, "33"), many...)
}

// sameDecision creates an object with presets, as a dry run, and compares whether it is accepted.
func (b *harness) sameDecision(name string, runtime error, presets ...v1alpha1.Preset) {
	b.t.Helper()
	object := &v1alpha1.MediaSettings{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "site"}}
	object.Spec.AccountRef.Name, object.Spec.Presets = "demo", presets
	err := b.Create(b.ctx, object, client.DryRunAll)
	if err != nil && !apierrors.IsInvalid(err) {
		b.t.Fatal(err)
	}
	if (err == nil) != (runtime == nil) {
		b.t.Errorf("%s: the API server says %v, and the runtime %v", name, err, runtime)
	}
}
