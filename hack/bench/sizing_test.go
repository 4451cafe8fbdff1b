package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

func text(t table) string {
	var printed bytes.Buffer
	t.markdown(&printed)
	return printed.String()
}

func TestSizingTables_ComputeFromSamples(t *testing.T) {
	t.Parallel()
	rows := []sizingRow{
		{"upload of 10 MB", 10_000_000, map[string]float64{columnRuntime: 8.004, columnPostgres: 0.25, columnStore: 20, columnTLS: 12.49}},
		{"list of 10", 0, map[string]float64{columnRuntime: 0.0996, columnPostgres: 0.05, columnTLS: 0.125}},
		{"list of 100", 0, map[string]float64{columnRuntime: 1, columnPostgres: 0.0004}},
		{"download of 100 KB", 100_000, map[string]float64{columnRuntime: 0.08, columnStore: 0.0625}},
		{"thumbnail and WebP of a 12 MP JPEG, 2.6 MB", 2_600_000, map[string]float64{columnRuntime: 1234.4, columnPostgres: 2.5, columnStore: 10}},
	}
	for _, tt := range []struct {
		name string
		got  table
		want string
	}{
		{"processor time", timeTable(rows), `| request | runtime | PostgreSQL | S3 store | runtime, TLS | runtime, TLS to S3 too | S3 store, TLS |
|---|---|---|---|---|---|---|
| upload of 10 MB | 8.00 | 0.25 | 20.0 | 12.5 |  |  |
| list of 10 | 0.10 | 0.050 |  | 0.12 |  |  |
| list of 100 | 1.00 |  |  |  |  |  |
| download of 100 KB | 0.080 |  | 0.062 |  |  |  |
| thumbnail and WebP of a 12 MP JPEG, 2.6 MB | 1,234 | 2.50 | 10.0 |  |  |  |
`},
		// From what the first table shows: 0.062, not 0.0625.
		{"of a core", coreTable(rows), `| request | runtime | PostgreSQL | S3 store | runtime, TLS |
|---|---|---|---|---|
| upload of 10 MB | 130/s, 1,300 MB/s | 4,000/s, 40,000 MB/s | 50/s, 500 MB/s | 80/s, 800 MB/s |
| list of 10 | 10,000/s | 20,000/s |  | 8,300/s |
| list of 100 | 1,000/s |  |  |  |
| download of 100 KB | 13,000/s, 1,300 MB/s |  | 16,000/s, 1,600 MB/s |  |
| thumbnail and WebP of a 12 MP JPEG, 2.6 MB | 0.81/s, 2.1 MB/s | 400/s, 1,000 MB/s | 100/s, 260 MB/s |  |
`},
		{"fixed and of a megabyte", lineTable([]sizingRow{
			{"upload of 100 KB", 100_000, map[string]float64{columnRuntime: 0.3, columnPostgres: 0.1}},
			{"upload of 10 MB", 10_000_000, map[string]float64{columnRuntime: 10.2, columnPostgres: 0.1}},
		}), `| cost | runtime | PostgreSQL | S3 store | runtime, TLS |
|---|---|---|---|---|
| each upload | 0.20 | 0.10 |  |  |
| each MB of it | 1.00 |  |  |  |
`},
		{"three sizes", loadTable(rows), `|  | small | medium | large |
|---|---|---|---|
| runtime: photos of 12 megapixels | 0.247 | 2.468 | 12.340 |
| runtime: other uploads of 10 MB | 0.001 | 0.016 | 0.160 |
| runtime: lists of 10 | 0.002 | 0.050 | 0.300 |
| runtime: downloads of 100 KB | 0.002 | 0.040 | 0.400 |
| runtime, sum | 0.251 | 2.574 | 13.200 |
| runtime, twice that | 0.502 | 5.148 | 26.400 |
| PostgreSQL, twice the sum | 0.003 | 0.061 | 0.360 |
| S3 store, twice the sum | 0.010 | 0.182 | 1.620 |
`},
		{"memory", memoryTable([]memoryRow{{"uploads of 10 MB", 64, 38.4, 206.4, 300}, {"uploads of 100 KB", 64, 40, 39, 39}}), `| what | at once | at rest | peak | for each |
|---|---|---|---|---|
| uploads of 10 MB | 64 | 38 | 206 | 2.6 |
| uploads of 100 KB | 64 | 40 | 39 | 0 |
`},
	} {
		if got := text(tt.got); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// The guide has the tables of one run: those that follow from the first one must agree with it.
func TestSizingGuide_AgreesWithItsMeasurements(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs/guides/sizing.md"))
	must(t, err)
	guide := string(content)
	head := text(timeTable(nil))
	_, after, found := strings.Cut(guide, head)
	if !found {
		t.Fatalf("the guide has no table of processor time with the head\n%s", head)
	}
	sizes := map[string]int64{"upload of 100 KB": 100_000, "upload of 10 MB": 10_000_000, "download of 100 KB": 100_000, "download of 10 MB": 10_000_000,
		"resumable upload, 1 GiB in chunks of 64 MiB": 1 << 30, "resumable upload, 1 GiB in chunks of 8 MiB": 1 << 30}
	var rows []sizingRow
	for line := range strings.Lines(after) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), "|")
		row := sizingRow{request: strings.TrimSpace(cells[0]), cost: map[string]float64{}}
		row.bytes = sizes[row.request]
		if _, size, photo := strings.Cut(row.request, ", "); photo && strings.HasSuffix(size, " MB") {
			megabytes, err := strconv.ParseFloat(strings.TrimSuffix(size, " MB"), 64)
			if err != nil {
				t.Fatalf("%s: %v", row.request, err)
			}
			row.bytes = int64(megabytes*10+0.5) * 100_000
		}
		for i, column := range sizingColumns {
			if cell := strings.TrimSpace(cells[i+1]); cell != "" {
				if row.cost[column], err = strconv.ParseFloat(strings.ReplaceAll(cell, ",", ""), 64); err != nil {
					t.Fatalf("%s, %s: %v", row.request, column, err)
				}
			}
		}
		rows = append(rows, row)
	}
	if len(rows) != 14 {
		t.Fatalf("the guide has %d kinds of requests", len(rows))
	}
	for what, want := range map[string]string{"what one core serves": text(coreTable(rows)), "other sizes": text(lineTable(rows)), "the three sizes": text(loadTable(rows))} {
		if !strings.Contains(guide, want) {
			t.Errorf("the guide's table of %s does not follow from its processor times, which give\n%s", what, want)
		}
	}
	if head := text(memoryTable(nil)); !strings.Contains(guide, head) {
		t.Errorf("the guide has no table of memory with the head\n%s", head)
	}
}
