package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

var pinned = regexp.MustCompile(`^docker\.io/library/golang:\d+\.\d+\.\d+-bookworm$`)

// dockerfile parses the Dockerfile of an image.
func dockerfile(t *testing.T, name string) (stages []instructions.Stage, base string) {
	t.Helper()
	parsed, err := parser.Parse(bytes.NewReader(read(t, filepath.Join("../../images", name+".Dockerfile"))))
	if err != nil {
		t.Fatal(err)
	}
	stages, arguments, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, argument := range arguments {
		for _, one := range argument.Args {
			if one.Key == "GO_IMAGE" && one.Value != nil {
				base = *one.Value
			}
		}
	}
	return stages, base
}

// The Dockerfiles and this program must build the same image: its root by this program, and the
// same configuration.
func TestDockerfiles_BuildTheSameImages(t *testing.T) {
	t.Parallel()
	for _, name := range imageNames {
		stages, base := dockerfile(t, name)
		if len(stages) != 2 || stages[1].BaseName != "scratch" || !pinned.MatchString(base) {
			t.Fatalf("%s: %d stages on %q", name, len(stages), base)
		}
		var commands []string
		for _, command := range stages[0].Commands {
			if run, ok := command.(*instructions.RunCommand); ok {
				commands = append(commands, strings.Join(run.CmdLine, " "))
			}
		}
		all := strings.Join(commands, "\n")
		for _, want := range []string{`-ldflags "-s -w -X main.version=${VERSION}" -o bin/ `, "bin/mediastack-images root " + name + " /image"} {
			if !strings.Contains(all, want) {
				t.Errorf("%s: the build stage does not run %q:\n%s", name, want, all)
			}
		}
		if !strings.Contains(string(read(t, "../../Makefile")), `-ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/ `) {
			t.Errorf("make build links with other flags than the Dockerfiles")
		}

		image, _ := readArchive(t, fixtures[name].archive)
		file, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, name, stages[1].Commands, file.Config)
	}
}

// compare compares the last stage of a Dockerfile with the configuration of an image.
func compare(t *testing.T, name string, commands []instructions.Command, want v1.Config) {
	t.Helper()
	var got v1.Config
	labels, ports := map[string]string{}, []string{}
	for _, command := range commands {
		switch c := command.(type) {
		case *instructions.UserCommand:
			got.User = c.User
		case *instructions.EntrypointCommand:
			got.Entrypoint = c.CmdLine
		case *instructions.WorkdirCommand:
			got.WorkingDir = c.Path
		case *instructions.EnvCommand:
			for _, pair := range c.Env {
				got.Env = append(got.Env, pair.Key+"="+pair.Value)
			}
		case *instructions.LabelCommand:
			for _, pair := range c.Labels {
				labels[pair.Key] = strings.NewReplacer(`"`, "", "${VERSION}", testRelease.version, "${REVISION}", testRelease.revision).Replace(pair.Value)
			}
		case *instructions.ExposeCommand:
			ports = append(ports, c.Ports...)
		}
	}
	if got.User != want.User || !slices.Equal(got.Entrypoint, want.Entrypoint) || got.WorkingDir != want.WorkingDir || !slices.Equal(got.Env, want.Env) {
		t.Errorf("%s: the Dockerfile configures %+v, the image has %+v", name, got, want)
	}
	for key, value := range want.Labels {
		if key != "org.opencontainers.image.created" && labels[key] != value { // BuildKit sets the time
			t.Errorf("%s: the Dockerfile has the label %s=%q, the image %q", name, key, labels[key], value)
		}
	}
	for port := range want.ExposedPorts {
		if !slices.Contains(ports, strings.TrimSuffix(port, "/tcp")) {
			t.Errorf("%s: the Dockerfile does not expose %s", name, port)
		}
	}
}

// The Dockerfiles copy what the command root writes.
func TestRoot_IsThatOfTheImage(t *testing.T) {
	t.Parallel()
	for _, name := range imageNames {
		folder := filepath.Join(t.TempDir(), "image")
		command := rootCommand{source: checkout(), Image: name, Folder: folder}
		if err := command.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		image, _ := readArchive(t, fixtures[name].archive)
		run(t, nil, "diff", "--recursive", "--no-dereference", folder, unpack(t, image))
		if err := command.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is not empty") {
			t.Errorf("%s: into a folder with files: %v", name, err)
		}
	}
}
