package restore

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv/wait"
)

// archiving returns the settings that archive the write-ahead log into a directory, which everyone may
// write to: the server has a user of its own.
func archiving(t *testing.T, archive string) map[string]string {
	t.Helper()
	must(t, os.Mkdir(archive, 0o700))
	must(t, os.Chmod(archive, 0o777))
	return map[string]string{"archive_mode": "on", "archive_command": "cp %p " + archive + "/%f"}
}

// archived closes the current file of the write-ahead log, and waits until the archive has it.
func (s *site) archived(archive string) {
	s.t.Helper()
	file := s.sql("SELECT pg_walfile_name(pg_switch_wal())")
	// After a failure PostgreSQL tries again a minute later.
	wait.UntilNoneWithin(s.t, 3*time.Minute, func() string {
		if s.sql("SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver") < file {
			return file + " is not archived"
		}
		if _, err := os.Stat(filepath.Join(archive, file)); err != nil {
			return err.Error()
		}
		return ""
	})
}

// recovering returns the settings with which a base backup recovers to a time, and asks for the recovery.
// Connections are accepted when it is complete.
func recovering(t *testing.T, dir, archive, until string) map[string]string {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "recovery.signal"), nil, 0o644))
	return map[string]string{
		"restore_command": "cp " + archive + "/%f %p", "recovery_target_time": until, "recovery_target_action": "promote", "hot_standby": "off",
	}
}

func s3Client(t *testing.T, access servers.S3Access) *minio.Client {
	t.Helper()
	c, err := minio.New(strings.TrimPrefix(access.Endpoint, "http://"), &minio.Options{Region: access.Region,
		Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, "")})
	must(t, err)
	return c
}

// copyBuckets copies every bucket with its objects, the markers included, as mc mirror, aws s3 sync and
// rclone do: the current version of each object with its content type, and nothing else.
func copyBuckets(t *testing.T, from, to servers.S3Access) {
	t.Helper()
	ctx := t.Context()
	source, target := s3Client(t, from), s3Client(t, to)
	buckets, err := source.ListBuckets(ctx)
	must(t, err)
	for _, bucket := range buckets {
		must(t, target.MakeBucket(ctx, bucket.Name, minio.MakeBucketOptions{}))
		for object := range source.ListObjects(ctx, bucket.Name, minio.ListObjectsOptions{Recursive: true}) {
			must(t, object.Err)
			copyObject(t, source, target, bucket.Name, object.Key)
		}
	}
}

func copyObject(t *testing.T, source, target *minio.Client, bucket, key string) {
	t.Helper()
	body, err := source.GetObject(t.Context(), bucket, key, minio.GetObjectOptions{})
	must(t, err)
	defer func() { _ = body.Close() }()
	info, err := body.Stat()
	must(t, err)
	// As the runtime does: the store answers an empty body that is signed in chunks before its end, and
	// takes the rest for another request.
	_, err = target.PutObject(t.Context(), bucket, key, body, info.Size, minio.PutObjectOptions{ContentType: info.ContentType, DisableContentSha256: true})
	must(t, err)
}

// restoredKinds are the kinds that a backup of the cluster has, in the order in which Velero restores
// them: those with a priority, then the others by name.
var restoredKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"},
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "ConfigMap"},
	v1alpha1.GroupVersion.WithKind("MediaAccount"),
	v1alpha1.GroupVersion.WithKind("MediaSettings"),
	v1alpha1.GroupVersion.WithKind("MediaWebhook"),
	v1alpha1.GroupVersion.WithKind("RetainedMediaAccount"),
}

// backUpObjects returns the objects of the namespaces, and those of the whole cluster, as the API server
// has them.
func (s *site) backUpObjects(namespaces ...string) (backup []*unstructured.Unstructured) {
	s.t.Helper()
	for _, kind := range restoredKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		must(s.t, s.admin.List(s.t.Context(), list))
		for _, object := range list.Items {
			namespace := object.GetNamespace()
			if kind.Kind == "Namespace" {
				namespace = object.GetName()
			}
			if namespace == "" || slices.Contains(namespaces, namespace) {
				backup = append(backup, object.DeepCopy())
			}
		}
	}
	return backup
}

// asVelero returns an object as Velero 1.17 creates it: without the status, without owners, and without
// what the server sets. Finalizers, labels and annotations stay.
func asVelero(backup *unstructured.Unstructured) *unstructured.Unstructured {
	object := backup.DeepCopy()
	metadata := object.Object["metadata"].(map[string]any)
	for _, field := range []string{
		"generateName", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "ownerReferences", "managedFields",
	} {
		delete(metadata, field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["velero.io/backup-name"], labels["velero.io/restore-name"] = "daily", "drill"
	object.SetLabels(labels)
	return object
}

// withoutFinalizers is for tools that restore none.
func withoutFinalizers(object *unstructured.Unstructured) { object.SetFinalizers(nil) }

// withOwners is for tools that restore owner references, which name objects that are gone.
func withOwners(backup []*unstructured.Unstructured) func(*unstructured.Unstructured) {
	owners := map[string][]metav1.OwnerReference{}
	for _, saved := range backup {
		owners[saved.GetKind()+"/"+saved.GetName()] = saved.GetOwnerReferences()
	}
	return func(object *unstructured.Unstructured) {
		object.SetOwnerReferences(owners[object.GetKind()+"/"+object.GetName()])
	}
}

// restoreObjects creates the objects of a backup that do not exist, in the order of the backup, as Velero
// does by default.
func (s *site) restoreObjects(backup []*unstructured.Unstructured, change ...func(*unstructured.Unstructured)) {
	s.t.Helper()
	for _, saved := range backup {
		object := asVelero(saved)
		for _, one := range change {
			one(object)
		}
		err := s.admin.Create(s.t.Context(), object)
		if !apierrors.IsAlreadyExists(err) {
			must(s.t, err)
		}
	}
}

// updateObjects is restoreObjects for objects that exist: Velero patches them with its policy "update".
func (s *site) updateObjects(backup []*unstructured.Unstructured) {
	s.t.Helper()
	for _, saved := range backup {
		object := asVelero(saved)
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(object.GroupVersionKind())
		must(s.t, s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), now))
		must(s.t, s.admin.Patch(s.t.Context(), object, client.MergeFrom(asVelero(now))))
	}
}
