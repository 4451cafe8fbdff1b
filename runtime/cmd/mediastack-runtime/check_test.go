package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

func TestCheck_RejectsBadFlags(t *testing.T) {
	t.Parallel()
	stores := []string{"--database-url=postgres://u:hunter2@127.0.0.1:1/x", "--s3-endpoint=http://127.0.0.1:1", "--s3-access-key=a", "--s3-secret-key=hunter2"}
	for args, want := range map[string]string{
		"":                          "give either --account or --all",
		"--account=a/b --all":       "give either --account or --all",
		"--account=b":               "must be an id or namespace/name",
		"--account=a/b/c":           "must be an id or namespace/name",
		"--account=a/b --limit=-1":  "SERVICE_CHECK_LIMIT must",
		"--account=a/b --grace=-1s": "SERVICE_CHECK_GRACE must",
	} {
		if code, out, err := call(t.Context(), append(append([]string{"check"}, strings.Fields(args)...), stores...)...); code != exitUsage || out != "" || !strings.Contains(err, want) {
			t.Errorf("%s: %d %q %q, want %q", args, code, out, err, want)
		}
	}
	code, out, err := call(t.Context(), append([]string{"check", "--account=a/b"}, stores...)...)
	if code != exitFailed || strings.Contains(err, "hunter2") || !strings.Contains(out, `"complete":false`) {
		t.Errorf("without a database: %d %q %q", code, out, err)
	}
	if code, help, _ := call(t.Context(), "check", "--help"); code != 0 || !strings.Contains(help, "--repair") || !strings.Contains(help, "--deep") {
		t.Errorf("--help: %d %s", code, help)
	}
}

func TestCheck_FindsAndRepairsOrphans(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	store, err := postgres.Open(ctx, postgres.Config{DatabaseURL: database})
	must(t, err)
	defer store.Close()
	objects, err := objectstore.New(objectstore.Config{Endpoint: s3.Endpoint, Region: s3.Region, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	must(t, err)
	client, err := minio.New(strings.TrimPrefix(s3.Endpoint, "http://"), &minio.Options{Region: s3.Region, Creds: credentials.NewStaticV4(s3.AccessKey, s3.SecretKey, "")})
	must(t, err)
	registry := account.NewRegistry(store.Accounts, "check", time.Now)
	identity, err := store.Installations.Identity(ctx)
	must(t, err)
	var tenants []account.Account
	for range 2 {
		tenant, err := registry.Ensure(ctx, account.Spec{Namespace: "team", Name: "t-" + uuid.NewString(), MaxStorage: 1 << 30, MaxUploadSize: 1 << 30})
		must(t, err)
		_, err = objects.Claim(ctx, objectstore.ClaimRequest{Bucket: tenant.Bucket, Owner: objectstore.Owner{AccountID: tenant.ID.String(), InstallationID: identity.ID}, Epoch: identity.Epoch})
		must(t, err)
		tenants = append(tenants, tenant)
	}
	check := func(args ...string) (int, []consistency.Finding, consistency.Report, string) {
		t.Helper()
		code, out, stderr := call(ctx, append([]string{"check", "--database-url=" + database, "--s3-endpoint=" + s3.Endpoint, "--s3-region=" + s3.Region,
			"--s3-access-key=" + s3.AccessKey, "--s3-secret-key=" + s3.SecretKey, "--grace=0s"}, args...)...)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		var report consistency.Report
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
			t.Fatalf("%v: the last line is not a report: %v: %s", args, err, out)
		}
		findings := make([]consistency.Finding, len(lines)-1)
		for i := range findings {
			must(t, json.Unmarshal([]byte(lines[i]), &findings[i]))
		}
		return code, findings, report, stderr
	}
	for _, unknown := range []string{"team/nobody", uuid.NewString(), uuid.Nil.String()} {
		if code, _, report, stderr := check("--account=" + unknown); code != exitFailed || report.Complete || !strings.Contains(stderr, "account "+unknown+" not found") {
			t.Errorf("an unknown account: %d %+v %s", code, report, stderr)
		}
	}
	first, second := "--account="+tenants[0].ID.String(), "--account=team/"+tenants[1].Name
	if code, findings, report, _ := check("--all"); code != 0 || len(findings) != 0 || report.Accounts != 2 || !report.Complete {
		t.Errorf("empty accounts: %d %+v", code, report)
	}
	for range 5 {
		_, err := client.PutObject(ctx, tenants[1].Bucket, fmt.Sprintf("media/%s/original", uuid.NewString()), strings.NewReader("x"), 1, minio.PutObjectOptions{DisableContentSha256: true})
		must(t, err)
	}
	if code, _, report, _ := check(first); code != 0 || report.Objects != 0 {
		t.Errorf("another account than the damaged one: %d %+v", code, report)
	}
	if code, findings, report, _ := check(second, "--limit=3"); code != exitActionRequired || len(findings) != 3 || report.Omitted != 2 || report.Found[consistency.OrphanObject] != 5 || report.NeedsAttention != 5 {
		t.Errorf("orphans: %d %+v %+v", code, report, findings)
	}
	if code, _, report, _ := check(second, "--grace=1h"); code != 0 || report.Recent != 5 {
		t.Errorf("recent orphans: %d %+v", code, report)
	}
	if code, findings, report, _ := check("--all", "--repair"); code != 0 || len(findings) != 5 || report.Repaired != 5 || findings[0].Account != tenants[1].ID {
		t.Errorf("a repair: %d %+v %+v", code, report, findings)
	}
	if code, findings, report, _ := check(second); code != 0 || len(findings) != 0 || report.Objects != 0 {
		t.Errorf("after a repair: %d %+v %+v", code, report, findings)
	}
	_, err = store.Accounts.CloseAccount(ctx, tenants[1].ID, account.CloseOptions{})
	must(t, err)
	if code, _, _, stderr := check("--account=" + tenants[1].ID.String()); code != exitFailed || !strings.Contains(stderr, "is closed") {
		t.Errorf("a closed account: %d %s", code, stderr)
	}
	if code, _, report, _ := check("--all"); code != 0 || report.Accounts != 1 {
		t.Errorf("all but a closed account: %d %+v", code, report)
	}
}

var must = check.NoError
