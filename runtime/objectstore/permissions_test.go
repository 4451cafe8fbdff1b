package objectstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/preflight"
)

// policy is an IAM policy, as far as the documented one goes.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid      string
	Effect   string
	Action   []string
	Resource []string
}

// documentedPolicy returns the policy of docs/reference/s3-permissions.md.
func documentedPolicy(t *testing.T) (p policy) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/s3-permissions.md")
	must(t, err)
	block := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no policy")
	}
	must(t, json.Unmarshal(block[1], &p))
	return p
}

func (p policy) text(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(p)
	must(t, err)
	return string(text)
}

// without returns the policy without an action.
func (p policy) without(action string) policy {
	less := policy{Version: p.Version}
	for _, s := range p.Statement {
		s.Action = slices.DeleteFunc(slices.Clone(s.Action), func(one string) bool { return one == action })
		if len(s.Action) > 0 {
			less.Statement = append(less.Statement, s)
		}
	}
	return less
}

// awsOnly are actions that AWS asks for, and MinIO does not: it permits them with s3:ListBucket and
// s3:DeleteObject.
var awsOnly = []string{"s3:ListBucketVersions", "s3:DeleteObjectVersion"}

// The documented policy is enough for everything that the service does with S3, and each of its actions is
// needed.
func TestPolicy_IsEnoughAndHasNothingThatIsNotNeeded(t *testing.T) {
	t.Parallel()
	documented := documentedPolicy(t)
	user := testenv.NewMinIOUser(t, documented.text(t))
	if err := useEverything(t, user); err != nil {
		t.Fatalf("the documented policy: %v", err)
	}
	store := open(t, user.Access)
	if _, err := store.BucketExists(t.Context(), "other-"+uuid.NewString()); err == nil {
		t.Error("the policy reaches buckets of others")
	}
	for _, s := range documented.Statement {
		for _, action := range s.Action {
			user.SetPolicy(documented.without(action).text(t))
			err := useEverything(t, user)
			if (err == nil) != slices.Contains(awsOnly, action) {
				t.Errorf("without %s: %v", action, err)
			}
		}
	}
}

// The page names the actions that a key for runtime and purge alone can do without.
func TestPolicy_OfRuntimeAndPurgeHasNoActionsOnBuckets(t *testing.T) {
	t.Parallel()
	documented := documentedPolicy(t)
	user := testenv.NewMinIOUser(t, documented.text(t))
	store, bucket := open(t, user.Access), "media-"+uuid.NewString()
	_, err := store.Claim(t.Context(), newClaim(bucket)) // the operator
	must(t, err)
	narrow := documented
	for _, action := range []string{"s3:CreateBucket", "s3:DeleteBucket", "s3:DeleteObjectVersion", "s3:GetBucketVersioning", "s3:ListBucketVersions"} {
		narrow = narrow.without(action)
	}
	user.SetPolicy(narrow.text(t))
	must(t, provesConditionalPuts(t, user.Access, bucket))
	must(t, useObjects(t, store, bucket))
	must(t, useMultipart(t, store, bucket))
	if _, err := store.Claim(t.Context(), newClaim("media-"+uuid.NewString())); err == nil {
		t.Error("the key creates buckets")
	}
}

// useEverything does what operator, runtime and purge do with S3, and returns the first error.
func useEverything(t *testing.T, user *testenv.MinIOUser) error {
	t.Helper()
	store, bucket := open(t, user.Access), "media-"+uuid.NewString()
	for _, step := range []struct {
		name string
		run  func(*testing.T, *objectstore.Store, string) error
	}{
		{"ping", func(t *testing.T, store *objectstore.Store, _ string) error { return store.Ping(t.Context()) }},
		{"preflight", passPreflight},
		{"claim", func(t *testing.T, store *objectstore.Store, bucket string) error {
			_, err := store.Claim(t.Context(), newClaim(bucket))
			return err
		}},
		{"readiness", func(t *testing.T, _ *objectstore.Store, bucket string) error {
			return provesConditionalPuts(t, user.Access, bucket)
		}},
		{"objects", useObjects},
		{"multipart uploads", useMultipart},
		{"versions", func(t *testing.T, _ *objectstore.Store, bucket string) error {
			return rawClient(t, user.Root).EnableVersioning(t.Context(), bucket)
		}},
		{"erasure", erase},
	} {
		if err := step.run(t, store, bucket); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// provesConditionalPuts returns an error unless the readiness check finds out whether the store has
// conditional puts. It goes on probing as long as it does not know, and reports nothing.
func provesConditionalPuts(t *testing.T, access testenv.S3Access, bucket string) error {
	var puts atomic.Int64
	access = testenv.S3Proxy(t, access, func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPut {
			puts.Add(1)
		}
		return false
	})
	readiness := objectstore.NewReadiness(objectstore.ReadinessConfig{}, open(t, access), func(context.Context) (string, error) { return bucket, nil }, slog.New(slog.DiscardHandler))
	if err := readiness.Check(t.Context()); err != nil {
		return err
	}
	probes := puts.Load()
	if err := readiness.Check(t.Context()); err != nil {
		return err
	}
	if probes == 0 || puts.Load() != probes {
		return fmt.Errorf("the readiness check does not know whether the store has conditional puts, after %d probes", puts.Load())
	}
	return nil
}

func passPreflight(t *testing.T, store *objectstore.Store, _ string) error {
	report := &preflight.Report{}
	store.Preflight(t.Context(), report)
	if report.Count(preflight.Missing) > 0 || report.Count(preflight.Note) > 0 {
		return fmt.Errorf("%+v", report)
	}
	return nil
}

func useObjects(t *testing.T, store *objectstore.Store, bucket string) error {
	ctx := t.Context()
	marker, err := store.Marker(ctx, bucket)
	if err != nil {
		return err
	}
	if err := store.WriteWitness(ctx, bucket, marker, marker.Witness); err != nil {
		return err
	}
	for _, key := range []string{"media/a/original", "media/b/original"} {
		if err := store.Put(ctx, bucket, key, "text/plain", strings.NewReader("abc"), 3); err != nil {
			return err
		}
	}
	if _, err := store.Stat(ctx, bucket, "media/a/original"); err != nil {
		return err
	}
	body, err := store.Open(ctx, bucket, "media/a/original", 1, 1)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	_ = body.Close()
	if err := store.List(ctx, bucket, "media/", func(media.ObjectInfo) error { return nil }); err != nil {
		return err
	}
	if err := store.Remove(ctx, bucket, []string{"media/a/original"}); err != nil {
		return err
	}
	if _, err := store.Stat(ctx, bucket, "media/a/original"); !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("the removed object: %w", err)
	}
	return nil
}

func useMultipart(t *testing.T, store *objectstore.Store, bucket string) error {
	ctx := t.Context()
	for _, key := range []string{"media/c/original", "media/d/original"} {
		upload, err := store.StartMultipart(ctx, bucket, key, "text/plain")
		if err != nil {
			return err
		}
		if err := upload.Part(ctx, strings.NewReader("abc"), 3); err != nil {
			return err
		}
		if key == "media/d/original" {
			return store.AbortIncomplete(ctx, bucket, key)
		}
		if err := upload.Complete(ctx, "text/plain"); err != nil {
			return err
		}
	}
	return errors.New("there was no upload to abort")
}

// erase removes a bucket that keeps versions.
func erase(t *testing.T, store *objectstore.Store, bucket string) error {
	ctx := t.Context()
	if err := store.Put(ctx, bucket, "media/b/original", "text/plain", strings.NewReader("abcd"), 4); err != nil {
		return err
	}
	if err := store.Remove(ctx, bucket, []string{"media/b/original"}); err != nil {
		return err
	}
	if _, err := store.StartMultipart(ctx, bucket, "media/e/original", "text/plain"); err != nil {
		return err
	}
	drained, err := store.Drain(ctx, bucket, "", func() bool { return true })
	if err == nil && drained.Kept > 0 {
		err = errors.New(drained.Denial)
	}
	if err != nil {
		return err
	}
	return store.RemoveDrained(ctx, bucket)
}
