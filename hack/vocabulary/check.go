package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	// badDocStart is how a doc comment must not begin, after the name that it documents.
	badDocStart = regexp.MustCompile(`^\S+ (gives|tells|says whether|tells whether|joins|answers whether)\b`)
	testName    = regexp.MustCompile(`^Test[A-Z0-9][A-Za-z0-9]*_[A-Z0-9][A-Za-z0-9_]*$`)
	superlative = regexp.MustCompile(`^(most|longest|largest|least|shortest)[A-Z]|(Longest|Largest|Least|Shortest|Most)$`)
)

// checkFile returns the violations of one file, by line.
func checkFile(list *wordList, path string, content []byte) ([]violation, error) {
	if filepath.Ext(path) != ".go" {
		return list.checkText(prose, 1, content), nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	c := &goChecker{list: list, files: files, isTest: strings.HasSuffix(path, "_test.go")}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			c.found = append(c.found, list.checkText(prose, c.line(comment.Pos()), []byte(comment.Text))...)
		}
	}
	c.name(file.Name)
	ast.Inspect(file, c.visit)
	slices.SortStableFunc(c.found, func(a, b violation) int { return a.line - b.line })
	return c.found, nil
}

// goChecker collects the violations of one Go file.
type goChecker struct {
	list   *wordList
	files  *token.FileSet
	isTest bool
	found  []violation
}

func (c *goChecker) line(pos token.Pos) int { return c.files.Position(pos).Line }

func (c *goChecker) add(pos token.Pos, format string, args ...any) {
	c.found = append(c.found, violation{c.line(pos), fmt.Sprintf(format, args...)})
}

// visit checks the names that a node declares, its doc comment and its text. Names that are only used
// may come from other modules.
func (c *goChecker) visit(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.ImportSpec:
		if node.Name != nil {
			c.name(node.Name)
		}
		return false // an import's path is not ours to choose
	case *ast.FuncDecl:
		c.name(node.Name)
		c.doc(node.Doc)
		c.test(node)
	case *ast.GenDecl:
		c.doc(node.Doc)
	case *ast.TypeSpec:
		c.name(node.Name)
		c.doc(node.Doc)
	case *ast.ValueSpec:
		c.name(node.Names...)
		c.doc(node.Doc)
	case *ast.Field:
		c.name(node.Names...)
		c.doc(node.Doc)
	case *ast.AssignStmt:
		if node.Tok == token.DEFINE {
			c.defined(node.Lhs...)
		}
	case *ast.RangeStmt:
		if node.Tok == token.DEFINE {
			c.defined(node.Key, node.Value)
		}
	case *ast.LabeledStmt:
		c.name(node.Label)
	case *ast.BasicLit:
		if node.Kind == token.STRING {
			c.found = append(c.found, c.list.checkText(prose, c.line(node.Pos()), []byte(node.Value))...)
		}
	}
	return true
}

func (c *goChecker) defined(expressions ...ast.Expr) {
	for _, expression := range expressions {
		if name, ok := expression.(*ast.Ident); ok {
			c.name(name)
		}
	}
}

func (c *goChecker) name(names ...*ast.Ident) {
	for _, name := range names {
		c.found = append(c.found, c.list.checkText(identifiers, c.line(name.Pos()), []byte(name.Name))...)
		if superlative.MatchString(name.Name) {
			c.add(name.Pos(), "%s: a bound is maxX or minX", name.Name)
		}
	}
}

func (c *goChecker) doc(comment *ast.CommentGroup) {
	if comment == nil {
		return
	}
	if start := badDocStart.FindStringSubmatch(comment.Text()); start != nil {
		c.add(comment.Pos(), "a doc comment begins %q: write returns, reports whether, or the verb of the action", start[1])
	}
}

func (c *goChecker) test(function *ast.FuncDecl) {
	name := function.Name.Name
	isTest := c.isTest && function.Recv == nil && strings.HasPrefix(name, "Test") && name != "TestMain"
	if isTest && !testName.MatchString(name) {
		c.add(function.Pos(), "%s: a test is named Test<Subject>_<Outcome>", name)
	}
}
