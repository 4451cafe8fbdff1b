package monitoring_test

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
)

// pictureEnv names the file in which `make screenshots` wants the picture of the dashboard.
const pictureEnv = "MONITORING_PICTURE"

const (
	drawTimeout = 6 * time.Minute
	// steps is the number of points of a line, at most.
	steps = 240
)

// drawn is a panel with its data, for dashboard.mjs.
type drawn struct {
	panel
	Lines []line `json:"lines"`
}

// line is a line of a panel. A value that is no number is null.
type line struct {
	Name   string        `json:"name"`
	Points [][2]*float64 `json:"points"`
}

// draw draws the panels with the data of a time. It is not Grafana that draws them: see dashboard.mjs.
func (p *prometheus) draw(panels []panel, from, to time.Time) {
	p.t.Helper()
	step := max(scrapeInterval, to.Sub(from).Truncate(time.Second)/steps)
	rateInterval := max(4*scrapeInterval, 6*step)
	var all []drawn
	for _, one := range panels {
		with := drawn{panel: one, Lines: []line{}}
		for _, target := range one.Targets {
			result, err := p.queryRange(expand(target.Expr, rateInterval), from.Add(rateInterval), to, step)
			must(p.t, err)
			for _, series := range result {
				name := label.ReplaceAllStringFunc(target.LegendFormat, func(text string) string { return series.Metric[label.FindStringSubmatch(text)[1]] })
				with.Lines = append(with.Lines, line{Name: name, Points: points(series.Values)})
			}
		}
		all = append(all, with)
	}
	scratch := p.t.TempDir()
	data, picture := filepath.Join(scratch, "panels.json"), filepath.Join(scratch, "dashboard.png")
	text, err := json.Marshal(all)
	must(p.t, err)
	must(p.t, os.WriteFile(data, text, 0o600))
	packages := node.New(p.t, "hack/test/browser")
	options, err := json.Marshal(map[string]string{"browser": testenv.Program(p.t, "chromium"), "data": data, "picture": picture, "scratch": scratch})
	must(p.t, err)
	if result := packages.Run(p.t, drawTimeout, packages.Script(p.t, "dashboard.mjs"), string(options)); result.Code != 0 {
		p.t.Fatalf("dashboard.mjs ended with %d: %s%s", result.Code, result.Stdout, result.Stderr)
	}
	to8bit := cmp.Or(os.Getenv(pictureEnv), filepath.Join(scratch, "small.png"))
	testenv.Run(p.t, drawTimeout, scratch, testenv.Program(p.t, "vips"), "pngsave", picture, to8bit, "--palette", "--Q", "90", "--compression", "9", "--strip")
	if info, err := os.Stat(to8bit); err != nil || info.Size() < 50<<10 || info.Size() > 600<<10 {
		p.t.Errorf("the picture has %d bytes: %v", info.Size(), err)
	}
}

// points returns times in milliseconds and values.
func points(values []sample) [][2]*float64 {
	all := [][2]*float64{}
	for _, one := range values {
		seconds, _ := one[0].(float64)
		at, value := 1000*seconds, one.number()
		point := [2]*float64{&at, &value}
		if math.IsNaN(value) || math.IsInf(value, 0) {
			point[1] = nil
		}
		all = append(all, point)
	}
	return all
}
