package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

// description is what scripts need to use a running stack.
type description struct {
	BaseURL     string        `json:"baseURL"`
	MCPURL      string        `json:"mcpURL"`
	AdminURL    string        `json:"adminURL"`
	APIKey      string        `json:"apiKey"`
	Owner       string        `json:"owner"` // who may log in
	Account     string        `json:"account"`
	Kubeconfig  string        `json:"kubeconfig"`
	Kubectl     string        `json:"kubectl"`
	DatabaseURL string        `json:"databaseURL"`
	S3          s3Description `json:"s3"`
	SMTP        string        `json:"smtp"`
	Picture     string        `json:"picture"`  // a file to upload
	Download    string        `json:"download"` // where the printed lines store what they fetch
	Logs        string        `json:"logs"`
	Runtime     string        `json:"runtime"`
	Env         string        `json:"env"`
}

type s3Description struct {
	Endpoint  string `json:"endpoint"`
	Region    string `json:"region"`
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	Bucket    string `json:"bucket"`
}

// lines are pasted into a shell, so they use only programs that every system has.
var lines = template.Must(template.New("lines").Parse(`
  base URL    {{.BaseURL}}
  API key     {{.APIKey}}
  kubeconfig  {{.Kubeconfig}}
  logs        {{.Logs}} (mail that was sent is in mailsink.log)

Upload a picture, seal it, list it and download its WebP conversion (the sample's MediaSettings pins useWebP and webpOutputQuality):

  export URL={{.BaseURL}} API_KEY={{.APIKey}}
  KEY="x-service-apikey: $API_KEY"
  ID=$(curl -sS -H "$KEY" -F access=public -F caption='My first picture' -F file=@'{{.Picture}}' $URL/media/create | sed 's/.*"mediaId":"\([^"]*\)".*/\1/')
  curl -sS -H "$KEY" -X POST $URL/media/seal/$ID; echo
  curl -sS -H "$KEY" $URL/media/get; echo
  curl -sS -o '{{.Download}}' -w '%{http_code} %{content_type}, %{size_download} bytes\n' "$(curl -sS -H "$KEY" $URL/media/get/$ID | sed 's/.*"file":"\([^"]*\)".*/\1/')"

Connect an assistant with {{.MCPURL}} and log in as {{.Owner}}.
{{.BaseURL}}/account/connections lists the authorized applications, {{.BaseURL}}/account/files the files. The limits on login codes
are higher here than by default. This prints the newest login code:

  grep -Eo '^ {4}[0-9]{8}' '{{.Logs}}/mailsink.log' | tail -1

Inspect the account, and compare its rows with its bucket:

  export KUBECONFIG={{.Kubeconfig}}
{{if ne .Kubectl "kubectl"}}  kubectl() { '{{.Kubectl}}' "$@"; }
{{end}}  kubectl -n team-a get mediaaccounts,mediasettings,secrets
  (. {{.Env}}; {{.Runtime}} check --account {{.Account}})

`))

// print writes the lines to paste.
func (d description) print(w io.Writer) error {
	var text bytes.Buffer
	if err := lines.Execute(&text, d); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// printIgnoredFlags names the flags of the command line that a running stack does not take.
func printIgnoredFlags(w io.Writer, command *kong.Context) error {
	var ignored []string
	for _, element := range command.Path {
		if flag := element.Flag; flag != nil && flag.Name != "data-dir" && flag.Name != "detach" {
			ignored = append(ignored, "--"+flag.Name)
		}
	}
	if len(ignored) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "Ignored: %s. A stack runs already, and flags take effect when a stack starts: run `make stop` first.\n", strings.Join(ignored, ", "))
	return err
}

// printRunning prints the description of a stack that another process runs.
func printRunning(ctx context.Context, w io.Writer, data *dataDir, pid int) error {
	content, err := os.ReadFile(data.path(descriptionFile))
	if errors.Is(err, os.ErrNotExist) {
		_, err := fmt.Fprintf(w, "A stack is starting in %s (process %d).\n", data.dir, pid)
		return err
	}
	if err != nil {
		return err
	}
	var running description
	if err := json.Unmarshal(content, &running); err != nil {
		return fmt.Errorf("read %s: %w", data.path(descriptionFile), err)
	}
	if err := running.refresh(ctx, data); err != nil {
		if _, err := fmt.Fprintf(w, "The API key below may be an old one: %v.\n", err); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(w, "A stack runs in %s (process %d), with the programs that it was started with. `make stop` ends it; `make stop && make run` starts the programs that were built since.\n", data.dir, pid); err != nil {
		return err
	}
	if settings := inheritedEnv(); len(settings) > 0 {
		if _, err := fmt.Fprintf(w, "The settings in the environment reach a stack when it starts; this one runs already.\n"); err != nil {
			return err
		}
	}
	return running.print(w)
}
