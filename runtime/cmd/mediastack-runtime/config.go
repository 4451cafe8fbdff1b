package main

import (
	"fmt"
	"reflect"
	"strings"
)

// checkSet says by their environment names which required settings of a command are
// missing. The flag parser would name flags, and only after all other checks.
func checkSet(command any) error {
	var missing []string
	collectMissing(reflect.ValueOf(command).Elem(), &missing)
	if len(missing) > 0 {
		return fmt.Errorf("not set: %s", strings.Join(missing, ", "))
	}
	return nil
}

func collectMissing(config reflect.Value, missing *[]string) {
	for i := range config.NumField() {
		field := config.Type().Field(i)
		if _, embedded := field.Tag.Lookup("embed"); embedded {
			collectMissing(config.Field(i), missing)
			continue
		}
		if _, required := field.Tag.Lookup("required"); required && config.Field(i).IsZero() {
			*missing = append(*missing, field.Tag.Get("env"))
		}
	}
}
