// Package doctables writes tables whose rows are generated into pages of the documentation, between markers.
// The generators of the settings, of the metrics and of the operations use it.
package doctables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Row is a row of a table. The name is that of a setting or a metric; the text is the whole line.
type Row struct {
	Name, Text string
}

// Tables are the tables of one kind, in all pages of a folder. A table is between its markers, for the word
// "settings" <!-- settings NAME... --> and <!-- /settings -->. The first marker has the names of the rows, in
// their order. SERVICE_IMAGE_* are all names that begin so, except those that another marker of the page has
// more exactly.
type Tables struct {
	Word string // of the markers
	One  string // what a row is, for messages: "setting"
	Head string // the first two lines of a table
	Rows []Row
}

// Write writes the tables of the pages in a folder. Every row is in one of them.
func (t Tables) Write(folder string) error {
	names, err := t.fillPages(folder, func(file, filled string) error { return os.WriteFile(file, []byte(filled), 0o644) })
	if err != nil {
		return err
	}
	for _, one := range t.Rows {
		if !slices.Contains(names, one.Name) {
			return fmt.Errorf("no page of %s has %s: add it to the marker of a table, %s", folder, one.Name, t.begin("..."))
		}
	}
	return nil
}

// Outdated returns the pages of a folder that Write would change, and the number of rows in all tables. The tests
// of the generators call it.
func (t Tables) Outdated(folder string) (files []string, rows int, err error) {
	names, err := t.fillPages(folder, func(file, _ string) error {
		files = append(files, file)
		return nil
	})
	return files, len(names), err
}

// fillPages fills the tables of the pages in a folder, calls change for each page that differs, and returns the names
// in all tables.
func (t Tables) fillPages(folder string, change func(file, filled string) error) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		filled, found, err := t.Fill(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		names = append(names, found...)
		if filled == string(text) {
			continue
		}
		if err := change(file, filled); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (t Tables) begin(names string) string { return "<!-- " + t.Word + " " + names + " -->" }

func (t Tables) end() string { return "<!-- /" + t.Word + " -->" }

// Fill returns a page with its tables, and the names that are in them.
func (t Tables) Fill(page string) (filled string, names []string, err error) {
	block := regexp.MustCompile(`(?s)<!-- ` + t.Word + ` ([^>]*?) -->\n(.*?)` + t.end() + `\n`)
	blocks := block.FindAllStringSubmatch(page, -1)
	if markers := strings.Count(page, "<!-- "+t.Word+" ") + strings.Count(page, t.end()); markers != 2*len(blocks) {
		return "", nil, fmt.Errorf("the markers %s and %s do not alternate", t.begin("NAME..."), t.end())
	}
	var patterns []string
	for _, match := range blocks {
		patterns = append(patterns, strings.Fields(match[1])...)
	}
	slices.Sort(patterns)
	if once := slices.Compact(slices.Clone(patterns)); len(once) != len(patterns) {
		return "", nil, errors.New("two markers have the same name")
	}
	filled = block.ReplaceAllStringFunc(page, func(old string) string {
		wanted := block.FindStringSubmatch(old)[1]
		rows, selected, failed := t.rows(strings.Fields(wanted), patterns)
		err = errors.Join(err, failed)
		names = append(names, selected...)
		return t.begin(wanted) + "\n" + t.Head + rows + t.end() + "\n"
	})
	return filled, names, err
}

// rows returns the rows that wanted selects, of all patterns of the page.
func (t Tables) rows(wanted, all []string) (rows string, names []string, err error) {
	var text strings.Builder
	for _, pattern := range wanted {
		before := len(names)
		for _, one := range t.Rows {
			if best(one.Name, all) == pattern {
				names = append(names, one.Name)
				text.WriteString(one.Text + "\n")
			}
		}
		if len(names) == before {
			err = errors.Join(err, fmt.Errorf("no %s is named %s", t.One, pattern))
		}
	}
	return text.String(), names, err
}

// best returns the pattern that names a row most exactly.
func best(name string, patterns []string) (found string) {
	for _, pattern := range patterns {
		begin, open := strings.CutSuffix(pattern, "*")
		if (pattern == name || open && strings.HasPrefix(name, begin)) && len(pattern) > len(found) {
			found = pattern
		}
	}
	return found
}
