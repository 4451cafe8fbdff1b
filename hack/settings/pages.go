package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// block is a table between its markers. The first one has the names of the settings, in the order of their
// rows. SERVICE_IMAGE_* are all settings that begin so, except those that another block of the page names
// more exactly.
var block = regexp.MustCompile(`(?s)<!-- settings ([^>]*?) -->\n(.*?)<!-- /settings -->\n`)

// writePages writes the tables of the pages in a folder. Every setting is in one of them.
func (s *settings) writePages(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return err
	}
	documented := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		page, names, err := s.fill(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, name := range names {
			documented[name] = true
		}
		if page == string(text) {
			continue
		}
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			return err
		}
	}
	for _, one := range s.all {
		if !documented[one.name] {
			return fmt.Errorf("no page of %s has %s: add it to the marker of a table, <!-- settings ... -->", folder, one.name)
		}
	}
	return nil
}

// fill returns a page with its tables, and the names of the settings that are in them.
func (s *settings) fill(page string) (filled string, names []string, err error) {
	blocks := block.FindAllStringSubmatch(page, -1)
	if markers := strings.Count(page, "<!-- settings ") + strings.Count(page, "<!-- /settings -->"); markers != 2*len(blocks) {
		return "", nil, errors.New("the markers <!-- settings NAME... --> and <!-- /settings --> do not alternate")
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
		rows, selected, failed := s.table(strings.Fields(wanted), patterns)
		err = errors.Join(err, failed)
		names = append(names, selected...)
		return "<!-- settings " + wanted + " -->\n" + rows + "<!-- /settings -->\n"
	})
	return filled, names, err
}

// table returns the table of the settings that wanted selects, of all patterns of the page.
func (s *settings) table(wanted, all []string) (rows string, names []string, err error) {
	var text strings.Builder
	text.WriteString("| variable | default | read by | meaning |\n|---|---|---|---|\n")
	for _, pattern := range wanted {
		before := len(names)
		for _, one := range s.all {
			if best(one.name, all) != pattern {
				continue
			}
			names = append(names, one.name)
			value := ""
			switch {
			case one.required:
				value = " required"
			case one.value != "":
				value = " `" + one.value + "`"
			}
			fmt.Fprintf(&text, "| `%s` |%s | %s | %s |\n", one.name, value, s.readers(one), cell(one.help))
		}
		if len(names) == before {
			err = errors.Join(err, fmt.Errorf("no setting is named %s", pattern))
		}
	}
	return text.String(), names, err
}

// best returns the pattern that names a setting most exactly.
func best(name string, patterns []string) (found string) {
	for _, pattern := range patterns {
		begin, open := strings.CutSuffix(pattern, "*")
		if (pattern == name || open && strings.HasPrefix(name, begin)) && len(pattern) > len(found) {
			found = pattern
		}
	}
	return found
}

// readers returns the commands that read a setting. The name of a program stands for all of its commands.
func (s *settings) readers(of *setting) string {
	var names []string
	for _, one := range programs {
		var commands []string
		for _, command := range s.commands[one.name] {
			if slices.Contains(of.readers, command) {
				commands = append(commands, "`"+command+"`")
			}
		}
		if len(commands) == len(s.commands[one.name]) {
			commands = []string{one.name}
		}
		names = append(names, commands...)
	}
	return strings.Join(names, ", ")
}

// code matches words that are no prose: variables, flags, paths, URLs, names of fields and of headers.
var code = regexp.MustCompile(`^(KUBECONFIG|[A-Z]+_[A-Z0-9_]+(=\w+)?|--[a-z-]+|(/[a-z]+)+/?|[a-z]+://\S+|[a-z]+(\.\w+)+|\S*<\S+>\S*|mediastack-[a-z]+|#rrggbb)$`)

// cell returns a help text as a cell of Markdown.
func cell(help string) string {
	words := strings.Split(strings.TrimSuffix(help, "."), " ")
	for i, word := range words {
		begin := word[:len(word)-len(strings.TrimLeft(word, "("))]
		inner := strings.TrimRight(word[len(begin):], ").,;:")
		if end := word[len(begin)+len(inner):]; code.MatchString(inner) {
			words[i] = begin + "`" + inner + "`" + end
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), "|", `\|`)
}
