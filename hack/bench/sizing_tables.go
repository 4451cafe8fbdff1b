package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Columns of the table of processor time.
const (
	columnRuntime  = "runtime"
	columnPostgres = "PostgreSQL"
	columnStore    = "S3 store"
	columnTLS      = "runtime, TLS"
	columnBothTLS  = "runtime, TLS to S3 too"
	columnStoreTLS = "S3 store, TLS"
)

var sizingColumns = []string{columnRuntime, columnPostgres, columnStore, columnTLS, columnBothTLS, columnStoreTLS}

// sizingRow is a kind of request with its cost.
type sizingRow struct {
	request string
	bytes   int64 // of the file; 0 = none
	// cost is the processor milliseconds of one request, by column. A column without a value has no
	// part in the request.
	cost map[string]float64
}

// costText shows milliseconds. What the table shows is what the other tables are computed from.
func costText(ms float64) string {
	switch {
	case ms < 0.0005:
		return ""
	case ms < 0.0995:
		return fmt.Sprintf("%.3f", ms)
	}
	return grouped(number(ms))
}

// shown returns the milliseconds as the table has them.
func (r sizingRow) shown(column string) float64 {
	value, err := strconv.ParseFloat(strings.ReplaceAll(costText(r.cost[column]), ",", ""), 64)
	if err != nil { // an empty cell
		return 0
	}
	return value
}

// timeTable has the processor time of each kind of request.
func timeTable(rows []sizingRow) table {
	t := table{append([]string{"request"}, sizingColumns...)}
	for _, r := range rows {
		cells := []string{r.request}
		for _, column := range sizingColumns {
			cells = append(cells, costText(r.cost[column]))
		}
		t.row(cells...)
	}
	return t
}

// coreTable has what one core of each process serves, by the table of processor time.
func coreTable(rows []sizingRow) table {
	columns := sizingColumns[:4]
	t := table{append([]string{"request"}, columns...)}
	for _, r := range rows {
		cells := []string{r.request}
		for _, column := range columns {
			cells = append(cells, perCore(r.shown(column), r.bytes))
		}
		t.row(cells...)
	}
	return t
}

// interpolated are the kinds of requests whose cost between two measured sizes is computed, by the row of each size.
var interpolated = []struct{ what, small, large string }{
	{"upload", "upload of 100 KB", "upload of 10 MB"},
	{"download", "download of 100 KB", "download of 10 MB"},
}

// lineTable has the cost of a request and of each megabyte, by the line through the two sizes of the table of
// processor time.
func lineTable(rows []sizingRow) table {
	columns := sizingColumns[:4]
	t := table{append([]string{"cost"}, columns...)}
	find := func(request string) (row sizingRow) {
		for _, r := range rows {
			if r.request == request {
				row = r
			}
		}
		return row
	}
	for _, kind := range interpolated {
		small, large := find(kind.small), find(kind.large)
		if small.bytes == large.bytes {
			continue
		}
		fixed, each := []string{"each " + kind.what}, []string{"each MB of it"}
		for _, column := range columns {
			slope := (large.shown(column) - small.shown(column)) * 1e6 / float64(large.bytes-small.bytes)
			fixed = append(fixed, costText(small.shown(column)-slope*float64(small.bytes)/1e6))
			each = append(each, costText(slope))
		}
		t.row(fixed...)
		t.row(each...)
	}
	return t
}

// perCore shows how many requests of so many milliseconds a core serves in a second, and how many
// megabytes.
func perCore(ms float64, bytes int64) string {
	if ms == 0 {
		return ""
	}
	text := significant(1000/ms) + "/s"
	if bytes > 0 {
		text += ", " + significant(1000/ms*float64(bytes)/1e6) + " MB/s"
	}
	return text
}

// significant shows two digits that count.
func significant(value float64) string {
	if value == 0 {
		return "0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(value))-1)
	rounded := math.Round(value/unit) * unit
	if unit >= 1 {
		return grouped(fmt.Sprintf("%.0f", rounded))
	}
	return strconv.FormatFloat(rounded, 'f', int(-math.Round(math.Log10(unit))), 64)
}

// grouped separates the thousands of a number without a fraction.
func grouped(digits string) string {
	if strings.Contains(digits, ".") {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// memoryRow is the resident memory of a runtime in MiB, at rest and with so many uploads at once.
type memoryRow struct {
	what       string
	uploads    int
	idle, peak float64
	tree       float64 // the peak with the image workers
}

// each returns the memory of one upload.
func (r memoryRow) each() float64 { return max(0, r.peak-r.idle) / float64(r.uploads) }

func memoryTable(rows []memoryRow) table {
	t := table{{"what", "at once", "at rest", "peak", "for each"}}
	for _, r := range rows {
		t.row(r.what, strconv.Itoa(r.uploads), fmt.Sprintf("%.0f", r.idle), fmt.Sprintf("%.0f", r.peak), significant(r.each()))
	}
	return t
}

// sizes are the loads of the three sizes: requests a second of small, medium and large.
var sizes = []struct {
	what string
	// request is the beginning of a row's name.
	request   string
	perSecond [3]float64
}{
	{"photos of 12 megapixels", "thumbnail and WebP of a 12 MP JPEG", [3]float64{0.2, 2, 10}},
	{"other uploads of 10 MB", "upload of 10 MB", [3]float64{0.1, 2, 20}},
	{"lists of 10", "list of 10", [3]float64{20, 500, 3000}},
	{"downloads of 100 KB", "download of 100 KB", [3]float64{20, 500, 5000}},
}

// loadTable has the cores that the three sizes keep busy: requests a second by the processor time of
// each. What is requested should be twice that.
func loadTable(rows []sizingRow) table {
	t := table{{"", "small", "medium", "large"}}
	sums := map[string]*[3]float64{columnRuntime: {}, columnPostgres: {}, columnStore: {}}
	cells := func(what string, cores [3]float64) {
		row := []string{what}
		for _, value := range cores {
			row = append(row, fmt.Sprintf("%.3f", value))
		}
		t.row(row...)
	}
	for _, size := range sizes {
		var cores [3]float64
		for _, r := range rows {
			if !strings.HasPrefix(r.request, size.request) || r.request != size.request && !strings.HasPrefix(r.request, size.request+",") {
				continue
			}
			for column, sum := range sums {
				for i, perSecond := range size.perSecond {
					sum[i] += perSecond * r.shown(column) / 1000
				}
			}
			for i, perSecond := range size.perSecond {
				cores[i] = perSecond * r.shown(columnRuntime) / 1000
			}
		}
		cells("runtime: "+size.what, cores)
	}
	twice := func(of [3]float64) [3]float64 { return [3]float64{2 * of[0], 2 * of[1], 2 * of[2]} }
	cells("runtime, sum", *sums[columnRuntime])
	cells("runtime, twice that", twice(*sums[columnRuntime]))
	cells("PostgreSQL, twice the sum", twice(*sums[columnPostgres]))
	cells("S3 store, twice the sum", twice(*sums[columnStore]))
	return t
}

// markdown prints the table as one of Markdown.
func (t table) markdown(out io.Writer) {
	for i, row := range t {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintln(out, "|"+strings.Repeat("---|", len(row)))
		}
	}
}
