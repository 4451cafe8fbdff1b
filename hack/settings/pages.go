package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mediastack.dev/hack/doctables"
)

// tables returns the tables of the settings.
func (s *settings) tables() doctables.Tables {
	tables := doctables.Tables{Word: "settings", One: "setting", Head: "| variable | default | read by | meaning |\n|---|---|---|---|\n"}
	for _, one := range s.all {
		value := ""
		switch {
		case one.required:
			value = " required"
		case one.value != "":
			value = " `" + one.value + "`"
		}
		tables.Rows = append(tables.Rows, doctables.Row{Name: one.name, Text: fmt.Sprintf("| `%s` |%s | %s | %s |", one.name, value, s.readers(one), cell(one.help))})
	}
	return tables
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
