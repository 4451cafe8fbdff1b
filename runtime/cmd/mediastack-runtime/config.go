package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// Validate checks that the settings of the selected command are there. kong calls it first, and then Validate of the command and of
// every configuration that is embedded in it: no command lists its configurations, so that none is forgotten.
func (c *command) Validate(selected *kong.Context) error {
	node := selected.Selected()
	if node == nil {
		return nil // kong names the commands
	}
	return requireSettings(node.Target.Addr().Interface())
}

// requireSettings returns an error if required settings of a command are missing. It names
// environment variables; the flag parser would name flags, after all other checks.
func requireSettings(command any) error {
	var missing []string
	missingSettings(reflect.ValueOf(command).Elem(), &missing)
	if len(missing) > 0 {
		return fmt.Errorf("not set: %s", strings.Join(missing, ", "))
	}
	return nil
}

func missingSettings(config reflect.Value, missing *[]string) {
	for i := range config.NumField() {
		field := config.Type().Field(i)
		if part, ok := config.Field(i).Addr().Interface().(interface{ MissingSettings() []string }); ok {
			*missing = append(*missing, part.MissingSettings()...)
		}
		if _, embedded := field.Tag.Lookup("embed"); embedded {
			missingSettings(config.Field(i), missing)
			continue
		}
		if _, required := field.Tag.Lookup("required"); required && config.Field(i).IsZero() {
			*missing = append(*missing, field.Tag.Get("env"))
		}
	}
}
