package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"regexp"
)

// secretsCommand groups the commands for secrets.
type secretsCommand struct {
	Init secretsInitCommand `cmd:"" help:"Print a Kubernetes Secret with a new server secret, and with those of SERVICE_DATABASE_URL, SERVICE_S3_ACCESS_KEY, SERVICE_S3_SECRET_KEY, SERVICE_SMTP_PASSWORD and SERVICE_CDN_PURGE_KEY that are set, for kubectl create -f -."`

	ReviewCode reviewCodeCommand `cmd:"" name:"review-code" help:"Print a new fixed login code for the reviewers of directories, and the entry of SERVICE_REVIEW_LOGINS that has its hash."`
}

// secretsInitCommand prints a Secret. It reaches no server.
type secretsInitCommand struct {
	Name      string `default:"mediastack-runtime" help:"Name of the Secret."`
	Namespace string `default:"mediastack-system" help:"Namespace of the Secret."`
}

// serverSecretBytes is the length of a new server secret.
const serverSecretBytes = 32

// kubernetesName is a DNS label, which the name of every object can be.
var kubernetesName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Validate checks the names; kong calls it.
func (c *secretsInitCommand) Validate() error {
	if !kubernetesName.MatchString(c.Name) || !kubernetesName.MatchString(c.Namespace) {
		return errors.New("--name and --namespace must be 1 to 63 of a-z, 0-9 and '-', and begin and end with a letter or digit")
	}
	return nil
}

// Run prints the Secret as JSON, which kubectl reads like YAML.
func (c *secretsInitCommand) Run(io stdio) error {
	secret := make([]byte, serverSecretBytes)
	_, _ = rand.Read(secret) // never fails
	data := map[string]string{"SERVICE_SECRET": base64.StdEncoding.EncodeToString(secret)}
	for _, name := range []string{"SERVICE_DATABASE_URL", "SERVICE_S3_ACCESS_KEY", "SERVICE_S3_SECRET_KEY", "SERVICE_SMTP_PASSWORD", "SERVICE_CDN_PURGE_KEY"} {
		if value := os.Getenv(name); value != "" {
			data[name] = value
		}
	}
	encoder := json.NewEncoder(io.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata":   map[string]any{"name": c.Name, "namespace": c.Namespace, "labels": map[string]string{"app.kubernetes.io/name": "mediastack"}},
		"stringData": data,
	})
}
