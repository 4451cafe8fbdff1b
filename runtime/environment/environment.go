// Package environment finds misspelled settings in the environment of a process. The operator and
// the runtime call it when they start: both take their settings from one ConfigMap, so that each
// knows the names of the other.
package environment

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/alecthomas/kong"
)

// prefix begins the name of every setting.
const prefix = "SERVICE_"

//go:generate go run mediastack.dev/hack/settings ../..
//go:embed names.txt
var names string

// Names returns the names of all settings of all programs, sorted.
func Names() []string { return strings.Fields(names) }

// serviceLink matches the variables that the kubelet sets for a Service of the namespace, unless the
// pod has enableServiceLinks: false. A Service whose name begins with "service" has ones with our prefix.
var serviceLink = regexp.MustCompile(`^SERVICE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)=|^SERVICE_([A-Z0-9_]+_)?PORT=(tcp|udp|sctp)://`)

// Check returns an error that names the variables of environ ("NAME=value") that begin like a
// setting and are none, each with the setting that is spelled most like it. program has the settings
// of the caller. Variables of Kubernetes' service links are accepted.
func Check(environ []string, program *kong.Application) error {
	known := append(Names(), Declared(program)...)
	var unknown []string
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) || serviceLink.MatchString(variable) {
			continue
		}
		unknown = append(unknown, fmt.Sprintf("%s is not a setting; the nearest is %s", name, nearest(name, known)))
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return errors.New(strings.Join(unknown, "; "))
}

// nearest returns the known name with the smallest edit distance.
func nearest(name string, known []string) string {
	return slices.MinFunc(known, func(a, b string) int {
		return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
	})
}

// Explain adds to the error of a value that cannot be parsed what the setting is, and so what it may be.
func Explain(failed error, program *kong.Application) error {
	if failed == nil {
		return nil
	}
	explained := failed
	_ = kong.Visit(program, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && flag.Help != "" && slices.ContainsFunc(flag.Envs, func(name string) bool { return strings.Contains(failed.Error(), "(from envar "+name+"=") }) {
			explained = fmt.Errorf("%w; %s: %s", failed, flag.Envs[0], flag.Help)
		}
		return next(nil)
	})
	return explained
}

// Declared returns the names of the settings that a program's commands declare.
func Declared(program *kong.Application) (declared []string) {
	_ = kong.Visit(program, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, name := range flag.Envs {
				if strings.HasPrefix(name, prefix) {
					declared = append(declared, name)
				}
			}
		}
		return next(nil)
	})
	slices.Sort(declared)
	return slices.Compact(declared)
}
