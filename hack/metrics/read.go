package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// prefix begins the names of all metrics of the programs. Libraries have others.
const prefix = "mediastack_"

// metric is what a program registers.
type metric struct {
	name, kind, help string
	labels           []string
}

// helper is a function that makes a metric of its arguments.
type helper struct {
	folder string // the package, for a function that is called by its name alone
	kind   *ast.FuncType
	body   *ast.BlockStmt
}

// reader collects metrics. It knows the calls of the Prometheus library that make one, and functions of the
// repository that pass their arguments on to such a call.
type reader struct {
	helpers map[string][]helper   // by name
	lists   map[string][]ast.Expr // the values of the package's variables, by folder and name
	found   []metric
	err     error
}

// read returns the metrics of the programs below root, in the order of their declarations.
func read(root string) ([]metric, error) {
	r := &reader{helpers: map[string][]helper{}, lists: map[string][]ast.Expr{}}
	type source struct {
		folder string
		file   *ast.File
	}
	var sources []source
	for _, top := range []string{"runtime", "controllers"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			sources = append(sources, source{filepath.Dir(path), file})
			r.index(filepath.Dir(path), file)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, one := range sources {
		r.scan(one.folder, one.file, nil)
	}
	if r.err == nil && len(r.found) == 0 {
		return nil, errors.New("the source registers no metric")
	}
	return r.found, r.err
}

// index remembers the functions of a file, and the values of its variables.
func (r *reader) index(folder string, file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch is := node.(type) {
		case *ast.FuncDecl:
			r.add(is.Name.Name, helper{folder, is.Type, is.Body})
		case *ast.AssignStmt:
			for i, value := range is.Rhs {
				function, ok := value.(*ast.FuncLit)
				if name, named := is.Lhs[min(i, len(is.Lhs)-1)].(*ast.Ident); ok && named {
					r.add(name.Name, helper{folder, function.Type, function.Body})
				}
			}
		case *ast.ValueSpec:
			for i, name := range is.Names {
				if i < len(is.Values) {
					r.lists[folder+" "+name.Name] = append(r.lists[folder+" "+name.Name], is.Values[i])
				}
			}
		}
		return true
	})
}

// add remembers a function with its body.
func (r *reader) add(name string, is helper) {
	if is.body != nil {
		r.helpers[name] = append(r.helpers[name], is)
	}
}

// arguments are the texts and lists that the parameters of a helper have in one call.
type arguments map[string][]string

// scan adds the metrics that the calls in a node make.
func (r *reader) scan(folder string, in ast.Node, given arguments) {
	ast.Inspect(in, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		s := scope{r, folder, given}
		if made, known := s.made(call); known {
			if strings.HasPrefix(made.name, prefix) {
				r.register(made)
			}
			return true
		}
		r.follow(s, call)
		return true
	})
}

// register adds a metric. Both programs have some: these have the same description.
func (r *reader) register(made metric) {
	at := slices.IndexFunc(r.found, func(one metric) bool { return one.name == made.name })
	switch {
	case made.help == "":
		r.err = errors.Join(r.err, fmt.Errorf("the help text of %s is no constant text", made.name))
	case at < 0:
		r.found = append(r.found, made)
	case r.found[at].kind != made.kind || r.found[at].help != made.help || !slices.Equal(r.found[at].labels, made.labels):
		r.err = errors.Join(r.err, fmt.Errorf("%s has two descriptions", made.name))
	}
}

// follow scans the function that a call passes the name of a metric to.
func (r *reader) follow(s scope, call *ast.CallExpr) {
	names := false
	for _, argument := range call.Args {
		text, ok := s.text(argument)
		names = names || ok && strings.HasPrefix(text, prefix)
	}
	if !names {
		return
	}
	name, method := "", false
	switch function := call.Fun.(type) {
	case *ast.Ident:
		name = function.Name
	case *ast.SelectorExpr:
		name, method = function.Sel.Name, true
	}
	for _, one := range r.helpers[name] {
		if given, fits := s.bind(one, call); fits && (method || one.folder == s.folder) {
			r.scan(one.folder, one.body, given)
		}
	}
}

// scope evaluates expressions at one place of the source.
type scope struct {
	*reader
	folder string
	given  arguments
}

// bind returns the arguments of a call by the names of the parameters, as far as they are texts or lists.
// A call that passes another number of arguments is that of another function.
func (s scope) bind(to helper, call *ast.CallExpr) (given arguments, fits bool) {
	given = arguments{}
	at, variadic := 0, false
	for _, field := range to.kind.Params.List {
		_, variadic = field.Type.(*ast.Ellipsis)
		for _, name := range field.Names {
			if variadic {
				given[name.Name] = s.rest(call, at)
				continue
			}
			if at < len(call.Args) {
				if text, ok := s.text(call.Args[at]); ok {
					given[name.Name] = []string{text}
				} else if list, ok := s.list(call.Args[at]); ok {
					given[name.Name] = list
				}
			}
			at++
		}
	}
	return given, at == len(call.Args) || variadic && at <= len(call.Args)
}

// rest returns the list of the variadic arguments of a call, from one on.
func (s scope) rest(call *ast.CallExpr, from int) (list []string) {
	for _, argument := range call.Args[min(from, len(call.Args)):] {
		if text, ok := s.text(argument); ok {
			list = append(list, text)
		} else if spread, ok := s.list(argument); ok {
			list = append(list, spread...)
		}
	}
	return list
}

var constructor = regexp.MustCompile(`^New(Counter|Gauge|Histogram)(Vec|Func)?$`)

// made returns the metric that a call of the Prometheus library makes. It has no name if the name is no
// constant text here: a helper's is known where it is called.
func (s scope) made(call *ast.CallExpr) (made metric, known bool) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return metric{}, false
	}
	if of, ok := function.X.(*ast.Ident); !ok || of.Name != "prometheus" {
		return metric{}, false
	}
	if function.Sel.Name == "NewDesc" {
		made.name, _ = s.text(call.Args[0])
		made.help, _ = s.text(call.Args[1])
		made.labels, _ = s.list(call.Args[2])
		// The type is that of the values, which are made elsewhere. Counters alone end so, and the tests of the
		// programs compare the types.
		made.kind = "gauge"
		if strings.HasSuffix(made.name, "_total") {
			made.kind = "counter"
		}
		return made, true
	}
	match := constructor.FindStringSubmatch(function.Sel.Name)
	if match == nil {
		return metric{}, false
	}
	made.kind = strings.ToLower(match[1])
	options, _ := call.Args[0].(*ast.CompositeLit)
	if options == nil {
		return metric{}, false
	}
	for _, element := range options.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key, _ := pair.Key.(*ast.Ident); key.Name {
		case "Name":
			made.name, _ = s.text(pair.Value)
		case "Help":
			made.help, _ = s.text(pair.Value)
		case "ConstLabels":
			if labels, ok := pair.Value.(*ast.CompositeLit); ok {
				for _, one := range labels.Elts {
					if label, ok := one.(*ast.KeyValueExpr); ok {
						name, _ := s.text(label.Key)
						made.labels = append(made.labels, name)
					}
				}
			}
		}
	}
	if match[2] == "Vec" {
		labels, _ := s.list(call.Args[1])
		made.labels = append(made.labels, labels...)
	}
	return made, true
}

// text evaluates an expression to a text.
func (s scope) text(of ast.Expr) (string, bool) {
	switch is := of.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(is.Value)
		return text, err == nil && is.Kind == token.STRING
	case *ast.Ident:
		value, ok := s.given[is.Name]
		return strings.Join(value, ""), ok && len(value) == 1
	case *ast.BinaryExpr:
		left, first := s.text(is.X)
		right, second := s.text(is.Y)
		return left + right, first && second && is.Op == token.ADD
	}
	return "", false
}

// list evaluates an expression to a list of texts: the labels of a metric.
func (s scope) list(of ast.Expr) (list []string, ok bool) {
	switch is := of.(type) {
	case *ast.Ident:
		if given, ok := s.given[is.Name]; ok {
			return given, true
		}
		values := s.lists[s.folder+" "+is.Name]
		if len(values) != 1 {
			return nil, is.Name == "nil"
		}
		return scope{s.reader, s.folder, nil}.list(values[0])
	case *ast.CompositeLit:
		for _, element := range is.Elts {
			text, ok := s.text(element)
			if !ok {
				return nil, false
			}
			list = append(list, text)
		}
		return list, true
	case *ast.CallExpr: // append
		if function, ok := is.Fun.(*ast.Ident); !ok || function.Name != "append" {
			return nil, false
		}
		first, ok := s.list(is.Args[0])
		return append(slices.Clone(first), s.rest(is, 1)...), ok
	}
	return nil, false
}
