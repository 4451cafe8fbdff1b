package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/keys"
)

// preflightArgs are the settings of a service whose stores work.
func preflightArgs(database string, s3 testenv.S3Access) []string {
	return []string{"preflight", "--base-url=http://127.0.0.1:1", "--secret=" + goodSecret, "--database-url=" + database,
		"--s3-endpoint=" + s3.Endpoint, "--s3-region=" + s3.Region, "--s3-access-key=" + s3.AccessKey, "--s3-secret-key=" + s3.SecretKey}
}

// reportLine is a line of the report.
var reportLine = regexp.MustCompile(`^((works  |missing|note   )  (database|objects|mail|address): \S.*|\d+ missing: .*)\n$`)

func TestPreflight_ReportsWhatWorks(t *testing.T) {
	t.Parallel()
	database, direct := testenv.EmptyPostgres(t), testenv.S3(t)
	var created sync.Map // names of buckets
	s3 := testenv.S3Proxy(t, direct, func(_ http.ResponseWriter, r *http.Request) bool {
		if bucket, rest, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/"); r.Method == http.MethodPut && rest == "" {
			created.Store(bucket, true)
		}
		return false
	})
	_, mailServer, err := testenv.Group(t).StartMailSink(t.Context(), 0, filepath.Join(testenv.TempDir(t), "mail.log"))
	must(t, err)
	host, port, err := net.SplitHostPort(mailServer)
	must(t, err)
	args := append(preflightArgs(database, s3), "--smtp-host="+host, "--smtp-port="+port, "--smtp-tls=none", "--mail-from=login@example.org")
	want := []string{
		"works    database: PostgreSQL ", "works    database: the schema public is empty",
		"works    objects: the S3 store at ", "works    objects: conditional puts", "works    objects: multipart uploads", "works    objects: objects, their versions and buckets can be removed",
		"works    mail: the mail server " + mailServer + " accepts the sender login@example.org",
		"note     address: http://127.0.0.1:1 does not answer from here", "nothing is missing",
	}
	code, out, stderr := call(t.Context(), args...)
	for _, line := range want {
		if !strings.Contains(out, line) {
			t.Errorf("the report lacks %q", line)
		}
	}
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q:\n%s", code, stderr, out)
	}
	if code, _, stderr := call(t.Context(), "migrate", "--database-url="+database); code != 0 {
		t.Fatal(stderr)
	}
	if _, out, _ := call(t.Context(), args...); !strings.Contains(out, "works    database: the schema is that of this version") {
		t.Errorf("after the migration:\n%s", out)
	}
	client, err := minio.New(strings.TrimPrefix(direct.Endpoint, "http://"), &minio.Options{Region: s3.Region, Creds: credentials.NewStaticV4(s3.AccessKey, s3.SecretKey, "")})
	must(t, err)
	buckets := 0
	for name := range created.Range {
		buckets++
		if exists, err := client.BucketExists(t.Context(), name.(string)); exists || err != nil {
			t.Errorf("the bucket %s is left: %v", name, err)
		}
	}
	if buckets != 2 {
		t.Errorf("two runs created %d buckets", buckets)
	}
}

func TestPreflight_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	const password = "hunter2hunter2"
	server := testenv.PostgresServerWithPassword(t, password)
	must(t, server.Server.CreateDatabase(t.Context(), "media"))
	database, s3 := server.Server.URL("media"), testenv.S3(t)
	closed := "127.0.0.1:" + strconv.Itoa(testenv.FreePort(t))
	unconditional := testenv.S3Proxy(t, s3, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotImplemented)
		}
		return r.Header.Get("If-None-Match") != ""
	})
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a wrong password":          {[]string{"--database-url=" + strings.Replace(database, password, "wrong"+password, 1)}, "does not accept the user"},
		"a missing database":        {[]string{"--database-url=" + server.Server.URL("other")}, "the database other does not exist"},
		"a closed database port":    {[]string{"--database-url=postgres://u:" + password + "@" + closed + "/media"}, closed + " cannot be reached"},
		"a wrong access key":        {[]string{"--s3-access-key=nobody"}, "rejects the credentials"},
		"a wrong secret key":        {[]string{"--s3-secret-key=" + password}, "rejects the credentials"},
		"a closed S3 port":          {[]string{"--s3-endpoint=http://" + closed}, "http://" + closed + " cannot be reached"},
		"no conditional puts":       {[]string{"--s3-endpoint=" + unconditional.Endpoint}, "lacks conditional puts"},
		"a closed mail port":        {[]string{"--smtp-host=127.0.0.1", "--smtp-port=" + closed[len("127.0.0.1:"):], "--smtp-tls=none", "--mail-from=login@example.org"}, "mail: connect to " + closed},
		"a service that is not one": {[]string{"--service-url=" + s3.Endpoint}, "the service does not answer at " + s3.Endpoint},
		"a service out of reach":    {[]string{"--service-url=http://" + closed}, "a NetworkPolicy may forbid the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := call(t.Context(), append(preflightArgs(database, s3), c.args...)...)
			if code != exitActionRequired || stderr != "" || !strings.Contains(out, "missing  ") || !strings.Contains(out, c.want) || !strings.Contains(out, "1 missing") {
				t.Errorf("exit code %d, %q, want %q:\n%s", code, stderr, c.want, out)
			}
			for line := range strings.Lines(out) {
				if !reportLine.MatchString(line) {
					t.Errorf("a line is no finding: %s", line)
				}
			}
			if strings.Contains(out, password) || strings.Contains(out, s3.SecretKey) {
				t.Errorf("a secret is in the report:\n%s", out)
			}
		})
	}
}

func TestPreflight_RejectsWhatServeRejects(t *testing.T) {
	t.Parallel()
	good := preflightArgs("postgres://u:p@127.0.0.1:1/x", testenv.S3Access{Endpoint: "http://127.0.0.1:1", Region: "r", AccessKey: "a", SecretKey: "b"})
	for args, want := range map[string]string{"--max-uploads=0": "SERVICE_MAX_UPLOADS", "--base-url=media": "SERVICE_BASE_URL", "--service-url=media": "--service-url", "--timeout=0s": "--timeout"} {
		if code, out, stderr := call(t.Context(), append(good, args)...); code != exitUsage || out != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %q %q", args, code, out, stderr)
		}
	}
}

func TestSecretsInit_PrintsASecretThatServeAccepts(t *testing.T) {
	t.Setenv("SERVICE_DATABASE_URL", "postgres://u:p@db/media")
	t.Setenv("SERVICE_S3_ACCESS_KEY", "")
	seen := map[string]bool{}
	for range 2 {
		code, out, stderr := call(t.Context(), "secrets", "init", "--name=media", "--namespace=team")
		var secret struct {
			Kind       string
			Metadata   struct{ Name, Namespace string }
			StringData map[string]string
		}
		if err := json.Unmarshal([]byte(out), &secret); code != 0 || stderr != "" || err != nil {
			t.Fatalf("exit code %d, %q, %v", code, stderr, err)
		}
		if _, err := keys.ParseSecret(secret.StringData["SERVICE_SECRET"], ""); err != nil || seen[secret.StringData["SERVICE_SECRET"]] {
			t.Errorf("the server secret is not valid, or was printed before: %v", err)
		}
		seen[secret.StringData["SERVICE_SECRET"]] = true
		delete(secret.StringData, "SERVICE_SECRET")
		if got := fmt.Sprint(secret.Kind, secret.Metadata, secret.StringData); got != "Secret{media team} map[SERVICE_DATABASE_URL:postgres://u:p@db/media]" {
			t.Errorf("the Secret is %s", got)
		}
	}
	if code, out, stderr := call(t.Context(), "secrets", "init", "--name=Media"); code != exitUsage || out != "" || !strings.Contains(stderr, "--name") {
		t.Errorf("a name that is none: %d %q", code, stderr)
	}
}
