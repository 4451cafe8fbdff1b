// Command renderspec prints the OpenAPI document as the service serves it, with the settings' schemas.
// `make generate` writes it to clients/openapi.json, from which the clients are generated.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"mediastack.dev/runtime/internal/api"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "renderspec:", err)
		os.Exit(1)
	}
}

func run() error {
	document, err := api.RenderSpec("http://localhost:8080", "service")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, document, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = os.Stdout.Write(out.Bytes())
	return err
}
