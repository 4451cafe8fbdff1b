package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// selection is a line of the Makefile that runs tests of some packages by their names.
type selection struct {
	variables string
	pattern   string
	packages  []string
}

var (
	runLine   = regexp.MustCompile(`(?m)^\t(.*)\bgo test .*-run (?:'([^']+)'|(\S+))((?: \./\S+)+)$`)
	sizeNames = regexp.MustCompile(`^MEDIASTACK_TEST_(FULL|ITEMS|OBJECTS)$`)
)

// makefileSelections returns those of the Makefile.
func makefileSelections(t *testing.T) []selection {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	must(t, err)
	var found []selection
	for _, match := range runLine.FindAllStringSubmatch(string(makefile), -1) {
		pattern, _, _ := strings.Cut(match[2]+match[3], "/") // not those of subtests
		found = append(found, selection{variables: match[1], pattern: pattern, packages: strings.Fields(match[4])})
	}
	return found
}

// testFiles parses the tests of a package.
func testFiles(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	must(t, err)
	var files []*ast.File
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must(t, err)
		files = append(files, file)
	}
	return files
}

// functions returns the functions of some files, without methods.
func functions(files []*ast.File) map[string]*ast.FuncDecl {
	found := map[string]*ast.FuncDecl{}
	for _, file := range files {
		for _, declared := range file.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Recv == nil {
				found[function.Name.Name] = function
			}
		}
	}
	return found
}

// A step that selects tests by names that no test has passes, and tests nothing.
func TestTargets_SelectTestsThatExist(t *testing.T) {
	t.Parallel()
	selections := makefileSelections(t)
	if len(selections) < 8 {
		t.Fatalf("the Makefile has only the selections %+v", selections)
	}
	for _, selected := range selections {
		for _, alternative := range alternatives(selected.pattern) {
			pattern := regexp.MustCompile(alternative)
			matched := false
			for _, path := range selected.packages {
				for name := range functions(testFiles(t, filepath.Join("../..", path))) {
					matched = matched || strings.HasPrefix(name, "Test") && pattern.MatchString(name)
				}
			}
			if !matched {
				t.Errorf("no test of %q has the name %s", selected.packages, alternative)
			}
		}
	}
}

// alternatives separates a pattern of the form A(B|C)|D into AB, AC and D.
func alternatives(pattern string) (all []string) {
	for _, part := range regexp.MustCompile(`[^|(]+(?:\([^)]*\))?`).FindAllString(pattern, -1) {
		prefix, group, _ := strings.Cut(part, "(")
		for end := range strings.SplitSeq(strings.TrimSuffix(group, ")"), "|") {
			all = append(all, prefix+end)
		}
	}
	return all
}

// Two tests of the operator, and the one of a million removals, had a full size that no target ran.
func TestTargets_RunEachTestThatHasAFullSize(t *testing.T) {
	t.Parallel()
	selections := makefileSelections(t)
	sized := 0
	for _, path := range packagesWithSizes(t) {
		files := testFiles(t, filepath.Join("../..", path))
		for name := range readers(files) {
			if !strings.HasPrefix(name, "Test") || name == "TestMain" {
				continue
			}
			sized++
			selected := path == "hack/test/proxy" // test-bodies runs all of its tests
			for _, one := range selections {
				for _, dir := range one.packages {
					selected = selected || dir == "./"+path && strings.Contains(one.variables, "MEDIASTACK_TEST_") && regexp.MustCompile(one.pattern).MatchString(name)
				}
			}
			if !selected {
				t.Errorf("%s of %s has a full size that no target of the Makefile runs", name, path)
			}
		}
	}
	if sized < 12 {
		t.Errorf("only %d tests with a full size were found", sized)
	}
}

// packagesWithSizes returns the packages whose tests have a full size.
func packagesWithSizes(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, top := range []string{"api", "charts", "controllers", "docs", "hack", "runtime"} {
		must(t, filepath.WalkDir(filepath.Join("../..", top), func(path string, entry os.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			if entry.Name() == "node_modules" {
				return filepath.SkipDir
			}
			relative, err := filepath.Rel("../..", path)
			if err == nil && len(readers(testFiles(t, path))) > 0 {
				found = append(found, relative)
			}
			return err
		}))
	}
	return found
}

// readers returns the names of the functions that read the variable of a full size, or that call one which does.
func readers(files []*ast.File) map[string]bool {
	found, constants := map[string]bool{}, map[string]bool{}
	names := func(node ast.Node) (is bool) {
		ast.Inspect(node, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				value, _ := strconv.Unquote(text.Value)
				is = is || sizeNames.MatchString(value)
			}
			return true
		})
		return is
	}
	for _, file := range files {
		for _, declared := range file.Decls {
			group, ok := declared.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok && names(value) {
					constants[value.Names[0].Name] = true
				}
			}
		}
	}
	all := functions(files)
	for changed := true; changed; {
		changed = false
		for name, function := range all {
			if !found[name] && function.Body != nil && (names(function.Body) || uses(function.Body, found, constants)) {
				found[name], changed = true, true
			}
		}
	}
	return found
}

// uses reports whether code calls one of these functions, or passes one of these constants to a function.
func uses(code ast.Node, functions, constants map[string]bool) (is bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		called := call.Fun
		if instance, ok := called.(*ast.IndexExpr); ok {
			called = instance.X
		}
		if name, ok := called.(*ast.Ident); ok {
			is = is || functions[name.Name]
		}
		for _, argument := range call.Args {
			if name, ok := argument.(*ast.Ident); ok {
				is = is || constants[name.Name]
			}
		}
		return true
	})
	return is
}
