package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module begins the import paths of the repository.
const module = "mediastack.dev/"

// program is a binary: the folder and the type of its command line.
type program struct {
	name, folder, root string
}

var programs = []program{
	{"runtime", "runtime/cmd/mediastack-runtime", "command"},
	{"operator", "controllers/cmd/mediastack-operator", "flags"},
}

// setting is an environment variable, as the tags of one or several fields declare it.
type setting struct {
	name, value, help string // value is the default
	required          bool
	readers           []string // the commands, such as "serve" and "operator run"
}

// settings are those of all programs, in the order of their declarations.
type settings struct {
	all      []*setting
	commands map[string][]string // of each program
}

// read returns the settings of the programs below root.
func read(root string) (*settings, error) {
	found := &settings{commands: map[string][]string{}}
	types := source{root: root, packages: map[string]map[string]declaration{}}
	for _, one := range programs {
		line, err := types.find(one.folder, one.root)
		if err != nil {
			return nil, err
		}
		if line.fields == nil {
			return nil, fmt.Errorf("%s has no struct %s", one.folder, one.root)
		}
		walk := walker{types: types, settings: found, program: one.name}
		if walk.commands, err = types.commands(line); err != nil {
			return nil, err
		}
		for _, command := range walk.commands {
			found.commands[one.name] = append(found.commands[one.name], command.name)
		}
		if err := walk.follow(line, found.commands[one.name]); err != nil {
			return nil, err
		}
		for _, command := range walk.commands {
			if err := walk.follow(command.declaration, []string{command.name}); err != nil {
				return nil, err
			}
		}
	}
	return found, found.checkComplete(root)
}

// checkComplete finds a setting in the source that no command reads, as far as this program can tell.
func (s *settings) checkComplete(root string) error {
	names, err := declared(filepath.Join(root, "runtime"), filepath.Join(root, "controllers"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if s.named(name) == nil {
			return fmt.Errorf("the tags declare %s, but no command has it", name)
		}
	}
	return nil
}

func (s *settings) named(name string) *setting {
	for _, one := range s.all {
		if one.name == name {
			return one
		}
	}
	return nil
}

// add merges a declaration into the setting of its name. All declarations of a name say the same.
func (s *settings) add(tag reflect.StructTag, readers []string) error {
	_, required := tag.Lookup("required")
	one := setting{name: tag.Get("env"), value: tag.Get("default"), help: tag.Get("help"), required: required}
	known := s.named(one.name)
	if known == nil {
		known = &one
		s.all = append(s.all, known)
	}
	if one.help == "" || one.help != known.help || one.value != known.value {
		return fmt.Errorf("%s has two descriptions, or none: %q, default %q; %q, default %q", one.name, known.help, known.value, one.help, one.value)
	}
	for _, reader := range readers {
		if !slices.Contains(known.readers, reader) {
			known.readers = append(known.readers, reader)
		}
	}
	return nil
}

// command is one of a program's, with the struct of its flags.
type command struct {
	name string
	declaration
}

// walker collects the settings of a program.
type walker struct {
	types    source
	settings *settings
	program  string
	commands []command
}

// follow adds the settings of a struct, and of those that it embeds. A command that embeds another one, as
// preflight does with serve, is no reader of the other one's settings: the page says it in one sentence.
func (w walker) follow(in declaration, readers []string) error {
	for _, field := range in.fields {
		tag := tagOf(field)
		_, embedded := tag.Lookup("embed")
		switch {
		case isCommand(field):
		case tag.Get("env") != "":
			if err := w.settings.add(tag, readers); err != nil {
				return err
			}
		case embedded || len(field.Names) == 0:
			inner, err := w.types.of(in, field.Type)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(w.commands, func(one command) bool { return one.folder == inner.folder && one.declaration.name == inner.name }) {
				continue
			}
			if err := w.follow(inner, readers); err != nil {
				return err
			}
		}
	}
	return nil
}

// isCommand reports whether a field is a command of kong, and not a flag.
func isCommand(field *ast.Field) bool {
	_, found := tagOf(field).Lookup("cmd")
	return found
}

var camel = regexp.MustCompile(`([a-z])([A-Z])`)

// commands returns the commands of a program.
func (s source) commands(line declaration) (commands []command, err error) {
	for _, field := range line.fields {
		if !isCommand(field) {
			continue
		}
		name := tagOf(field).Get("name")
		if name == "" {
			name = strings.ToLower(camel.ReplaceAllString(field.Names[0].Name, "$1-$2"))
		}
		if line.folder == programs[1].folder {
			name = programs[1].name + " " + name
		}
		flags, err := s.of(line, field.Type)
		if err != nil {
			return nil, err
		}
		commands = append(commands, command{name, flags})
	}
	return commands, nil
}

// declaration is a type. It has no fields if it is no struct, or not of the repository.
type declaration struct {
	folder, name string
	imports      map[string]string // folders of the packages that its file imports, by name
	fields       []*ast.Field
}

// source has the types of the packages that were read so far.
type source struct {
	root     string
	packages map[string]map[string]declaration // by folder and name
}

// of returns the type of a field of a struct.
func (s source) of(in declaration, expression ast.Expr) (declaration, error) {
	switch is := expression.(type) {
	case *ast.Ident:
		return s.find(in.folder, is.Name)
	case *ast.SelectorExpr:
		if alias, ok := is.X.(*ast.Ident); ok && in.imports[alias.Name] != "" {
			return s.find(in.imports[alias.Name], is.Sel.Name)
		}
	}
	return declaration{}, nil
}

// find returns a type of a package.
func (s source) find(folder, name string) (declaration, error) {
	if s.packages[folder] == nil {
		types, err := parsePackage(s.root, folder)
		if err != nil {
			return declaration{}, err
		}
		s.packages[folder] = types
	}
	return s.packages[folder][name], nil
}

// parsePackage returns the structs of a package.
func parsePackage(root, folder string) (map[string]declaration, error) {
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return nil, err
	}
	types := map[string]declaration{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		imports := map[string]string{}
		for _, one := range file.Imports {
			from, _ := strconv.Unquote(one.Path.Value)
			if inside, ok := strings.CutPrefix(from, module); ok {
				alias := path.Base(inside)
				if one.Name != nil {
					alias = one.Name.Name
				}
				imports[alias] = inside
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok {
				if is, ok := spec.Type.(*ast.StructType); ok {
					types[spec.Name.Name] = declaration{folder, spec.Name.Name, imports, is.Fields.List}
				}
			}
			return true
		})
	}
	return types, nil
}

// tagOf returns the tag of a field.
func tagOf(field *ast.Field) reflect.StructTag {
	if field.Tag == nil {
		return ""
	}
	text, _ := strconv.Unquote(field.Tag.Value)
	return reflect.StructTag(text)
}

// declared returns the sorted names that begin with SERVICE_ in the env tags of the structs below
// folders, those of tests excluded.
func declared(folders ...string) (names []string, err error) {
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				if field, ok := node.(*ast.Field); ok && strings.HasPrefix(tagOf(field).Get("env"), "SERVICE_") {
					names = append(names, tagOf(field).Get("env"))
				}
				return true
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
