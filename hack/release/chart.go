package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartCommand writes the metadata of a release into a chart.
type chartCommand struct {
	Version   string `required:"" help:"Version of the release."`
	Images    string `required:"" type:"existingfile" help:"The list of the images, with their digests."`
	Changelog string `default:"CHANGELOG.md" type:"existingfile" help:"The changelog."`
	Samples   string `default:"config/samples" type:"existingdir" help:"Folder of sample objects."`
	Key       string `help:"Private key that signs the release, if there is one."`
	Chart     string `arg:"" type:"existingdir" help:"Folder of a copy of the chart."`
}

// Run changes the chart.
func (c *chartCommand) Run() error {
	list, err := os.ReadFile(c.Images)
	if err != nil {
		return err
	}
	byName, registry, err := digests(string(list))
	if err != nil {
		return err
	}
	added, err := c.annotations(byName, registry)
	if err != nil {
		return err
	}
	file := filepath.Join(c.Chart, "Chart.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var metadata map[string]any
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return fmt.Errorf("%s has no annotations", file)
	}
	for name, value := range added {
		annotations["artifacthub.io/"+name] = value
	}
	metadata["version"], metadata["appVersion"] = strings.TrimPrefix(c.Version, "v"), c.Version
	if err := writeYAML(file, metadata); err != nil {
		return err
	}
	return writeYAML(filepath.Join(c.Chart, "files", "digests.yaml"), byName)
}

func writeYAML(file string, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// image is an image, as Artifact Hub lists it.
type image struct {
	Name      string   `json:"name"`
	Image     string   `json:"image"`
	Platforms []string `json:"platforms,omitempty"`
}

// annotations returns what a release alone knows, by the names of Artifact Hub.
func (c *chartCommand) annotations(byName map[string]string, registry string) (map[string]string, error) {
	changelog, err := os.ReadFile(c.Changelog)
	if err != nil {
		return nil, err
	}
	changes, err := section(string(changelog), c.Version)
	if err != nil {
		return nil, err
	}
	var listed []image
	for _, name := range images {
		listed = append(listed, image{Name: name, Image: fmt.Sprintf("%s/mediastack/%s:%s@%s", registry, name, c.Version, byName[name])})
	}
	definitions, err := readDefinitions(filepath.Join(c.Chart, "files", "crds"))
	if err != nil {
		return nil, err
	}
	samples, err := readSamples(c.Samples)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{"prerelease": strconv.FormatBool(strings.Contains(c.Version, "-"))}
	values := map[string]any{"images": listed, "changes": changes, "crds": definitions, "crdsExamples": samples}
	if c.Key != "" {
		key, err := loadKey(c.Key)
		if err != nil {
			return nil, err
		}
		values["signKey"] = map[string]string{"fingerprint": string(key.hint), "url": "https://mediastack.dev/" + publicKeyFile}
	}
	for name, value := range values {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		annotations[name] = string(text)
	}
	return annotations, nil
}

// definition is a custom resource, as Artifact Hub and the Operator Lifecycle Manager list it.
type definition struct {
	Kind        string `json:"kind"`
	Version     string `json:"version"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
}

// readDefinitions reads the custom resource definitions of a folder.
func readDefinitions(folder string) ([]definition, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no definitions (%w)", folder, err)
	}
	var found []definition
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd struct {
			Metadata struct{ Name string }
			Spec     struct {
				Names    struct{ Kind string }
				Versions []struct {
					Name    string
					Storage bool
					Schema  struct {
						OpenAPIV3Schema struct{ Description string } `json:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, version := range crd.Spec.Versions {
			if version.Storage {
				found = append(found, definition{Kind: crd.Spec.Names.Kind, Version: version.Name, Name: crd.Metadata.Name, DisplayName: words(crd.Spec.Names.Kind),
					Description: strings.Join(strings.Fields(version.Schema.OpenAPIV3Schema.Description), " ")})
			}
		}
	}
	return found, nil
}

// words writes a kind as words: MediaAccount as "Media Account".
func words(kind string) string {
	var out strings.Builder
	for at, r := range kind {
		if at > 0 && r >= 'A' && r <= 'Z' {
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// readSamples reads the custom resources of a folder, and of those in it.
func readSamples(folder string) ([]json.RawMessage, error) {
	files, err := filepath.Glob(filepath.Join(folder, "media*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no samples (%w)", folder, err)
	}
	slices.Sort(files)
	optional, err := filepath.Glob(filepath.Join(folder, "*", "media*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(optional)
	files = append(files, optional...)
	var found []json.RawMessage
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found = append(found, object)
	}
	return found, nil
}
