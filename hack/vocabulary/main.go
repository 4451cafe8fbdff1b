// Command vocabulary holds names, comments, texts and documents to the terms of the project. It reads
// the files that git knows or would add, and fails on a word that words.yaml retires, on a doc comment
// that does not begin as Go's conventions ask, and on a test whose name is not Test<Subject>_<Outcome>.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type command struct {
	Root  string `arg:"" optional:"" default:"." type:"existingdir" help:"Folder of the checkout."`
	Words string `default:"hack/vocabulary/words.yaml" help:"List of retired words, by its path from the root."`
}

func main() {
	var cmd command
	kong.Parse(&cmd,
		kong.Name("vocabulary"),
		kong.Description("Check names, comments, texts and documents for retired words."))
	if err := run(cmd, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vocabulary:", err)
		os.Exit(1)
	}
}

// run writes one line for each violation to out. The error says how many there are.
func run(cmd command, out io.Writer) error {
	list, err := readWordList(filepath.Join(cmd.Root, cmd.Words))
	if err != nil {
		return err
	}
	paths, err := checkedFiles(cmd.Root, list)
	if err != nil {
		return err
	}
	found := 0
	for _, path := range paths {
		content, err := os.ReadFile(filepath.Join(cmd.Root, path))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted and not yet committed
		}
		if err != nil {
			return err
		}
		violations, err := checkFile(list, path, content)
		if err != nil {
			return err
		}
		for _, v := range violations {
			fmt.Fprintf(out, "%s:%d: %s\n", path, v.line, v.message)
		}
		found += len(violations)
	}
	if found > 0 {
		return fmt.Errorf("%d violations; %s says what to write instead", found, cmd.Words)
	}
	return nil
}

// checkedFiles returns the paths of the tracked and the new files which the list does not exclude.
func checkedFiles(root string, list *wordList) ([]string, error) {
	git := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	git.Dir = root
	output, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", root, err)
	}
	paths := strings.Split(strings.TrimRight(string(output), "\x00"), "\x00")
	return slices.DeleteFunc(paths, func(path string) bool {
		return !slices.Contains(list.Extensions, filepath.Ext(path)) || list.excludes(path)
	}), nil
}
