// Command metrics writes the tables of docs/reference that describe metrics, from what the source of the
// programs registers: names, types, labels and help texts. `make generate` runs it, and `make verify` finds
// pages that are out of date.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mediastack.dev/hack/doctables"
)

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: metrics ROOT"))
	}
	found, err := read(os.Args[1])
	if err != nil {
		fail(err)
	}
	if err := tables(found).Write(filepath.Join(os.Args[1], "docs", "reference")); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "metrics:", err)
	os.Exit(1)
}

// tables returns the tables of the metrics. A help text is Markdown: values of labels are between backticks.
func tables(all []metric) doctables.Tables {
	tables := doctables.Tables{Word: "metrics", One: "metric", Head: "| metric | type | labels | meaning |\n|---|---|---|---|\n"}
	for _, one := range all {
		labels := ""
		if len(one.labels) > 0 {
			labels = " `" + strings.Join(one.labels, "`, `") + "`"
		}
		meaning := strings.ReplaceAll(strings.TrimSuffix(one.help, "."), "|", `\|`)
		tables.Rows = append(tables.Rows, doctables.Row{Name: one.name, Text: fmt.Sprintf("| `%s` | %s |%s | %s |", one.name, one.kind, labels, meaning)})
	}
	return tables
}
