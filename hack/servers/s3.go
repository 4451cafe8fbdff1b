package servers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"mediastack.dev/hack/setup"
)

// DevServicesBinary is the name of the program that holds the S3 store and the mail sink.
const DevServicesBinary = "mediastack-devservices"

const defaultRegion = "us-east-1"

// S3Config configures an S3 store.
type S3Config struct {
	// Dir holds the objects; it is made when absent.
	Dir string
	// LogFile takes the server's log.
	LogFile string
	// Address is the IP address to listen on; 127.0.0.1 when empty.
	Address string
	// Port is the TCP port; zero chooses a free one.
	Port int
	// AccessKey and SecretKey are the root user's; random ones are made where they are empty.
	AccessKey, SecretKey string
	// CertFile and KeyFile are PEM files of the certificate for HTTPS; HTTP when they are empty.
	// Only StartS3 uses them.
	CertFile, KeyFile string
	// Env are further settings of the server, as NAME=value.
	Env []string
}

// S3Access is what a client needs to use an S3 store.
type S3Access struct {
	// Endpoint is a URL without a path, for example http://127.0.0.1:7070.
	Endpoint string
	// Region is the region to sign for.
	Region string
	// AccessKey and SecretKey are allowed everything.
	AccessKey, SecretKey string
}

// S3 is a running S3 store.
type S3 struct {
	*Process
	// Access is how to use it.
	Access S3Access
	// Port is the TCP port.
	Port int

	group *Group
	spec  Spec
}

// Restart starts a store that has ended again, with its data and at its address.
func (s *S3) Restart(ctx context.Context) (err error) {
	s.Process, err = s.group.Start(ctx, s.spec)
	return err
}

// StartS3 starts versitygw, the store of the dev stack.
func (g *Group) StartS3(ctx context.Context, config S3Config) (*S3, error) {
	binary, err := setup.FindBinary(DevServicesBinary)
	if err != nil {
		return nil, err
	}
	return g.startS3(ctx, config, "the S3 store", "/health", func(address string) Spec {
		args := []string{"s3", "--dir", config.Dir, "--listen", address, "--region", defaultRegion}
		if config.CertFile != "" {
			args = append(args, "--cert-file", config.CertFile, "--key-file", config.KeyFile)
		}
		return Spec{Path: binary, Args: args}
	}, "DEVSERVICES_S3_ACCESS_KEY", "DEVSERVICES_S3_SECRET_KEY")
}

// StartMinIO starts MinIO, the second store that tests run against.
func (g *Group) StartMinIO(ctx context.Context, config S3Config) (*S3, error) {
	binary, err := setup.FindMinIO()
	if err != nil {
		return nil, err
	}
	return g.startS3(ctx, config, "MinIO", "/minio/health/cluster", func(address string) Spec {
		return Spec{
			Path: binary,
			Args: []string{"server", "--quiet", "--address", address, config.Dir},
			Env:  []string{"MINIO_UPDATE=off", "MINIO_BROWSER=off", "MINIO_REGION=" + defaultRegion},
		}
	}, "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD")
}

func (g *Group) startS3(ctx context.Context, config S3Config, name, health string, command func(address string) Spec, accessEnv, secretEnv string) (*S3, error) {
	port, err := ChoosePort(config.Port)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of %s: %w", name, err)
	}
	if config.AccessKey == "" {
		config.AccessKey = RandomSecret(10)
	}
	if config.SecretKey == "" {
		config.SecretKey = RandomSecret(20)
	}
	address := hostPort(config.Address, port)
	endpoint := "http://" + address
	spec := command(address)
	spec.Name = name
	spec.LogFile = config.LogFile
	spec.Env = append(append(spec.Env, config.Env...), accessEnv+"="+config.AccessKey, secretEnv+"="+config.SecretKey)
	spec.Ready = Answers(endpoint + health)
	if config.CertFile != "" {
		endpoint, spec.Ready = "https://"+address, Accepts(address)
	}
	access := S3Access{Endpoint: endpoint, Region: defaultRegion, AccessKey: config.AccessKey, SecretKey: config.SecretKey}
	store := &S3{Access: access, Port: port, group: g, spec: spec}
	return store, store.Restart(ctx)
}

// StartMailSink starts an SMTP server that prints what it receives into its log. Zero chooses a free port.
func (g *Group) StartMailSink(ctx context.Context, port int, logFile string) (process *Process, address string, err error) {
	binary, err := setup.FindBinary(DevServicesBinary)
	if err != nil {
		return nil, "", err
	}
	if port, err = ChoosePort(port); err != nil {
		return nil, "", fmt.Errorf("the mail sink: %w", err)
	}
	address = loopback(port)
	process, err = g.Start(ctx, Spec{
		Name:    "the mail sink",
		Path:    binary,
		Args:    []string{"mailsink", "--listen", address},
		LogFile: logFile,
		Ready:   Accepts(address),
	})
	return process, address, err
}

// MailSettings returns the environment of a runtime that sends its mails to the sink at an address, and so offers logins.
func MailSettings(address string) []string {
	host, port, _ := strings.Cut(address, ":")
	return []string{"SERVICE_SMTP_HOST=" + host, "SERVICE_SMTP_PORT=" + port, "SERVICE_SMTP_TLS=none", "SERVICE_MAIL_FROM=login@media.example"}
}

// RandomSecret makes a secret of the given number of random bytes, in hexadecimal.
func RandomSecret(bytes int) string {
	secret := make([]byte, bytes)
	_, _ = rand.Read(secret) // never fails, by its contract
	return hex.EncodeToString(secret)
}
