package restore

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
)

// tenants is what is in Git.
const tenants = `
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-b}
---
apiVersion: mediastack.dev/v1alpha1
kind: MediaAccount
metadata: {name: photos, namespace: team-a}
spec: {apps: [{name: web}], apiKeys: {overlap: 2h}}
---
apiVersion: mediastack.dev/v1alpha1
kind: MediaSettings
metadata: {name: photos, namespace: team-a}
spec: {accountRef: {name: photos}, webpOutputQuality: 55}
---
apiVersion: mediastack.dev/v1alpha1
kind: MediaAccount
metadata: {name: files, namespace: team-b}
spec: {storage: {bucket: {name: team-b-files}}}
`

const former = `
apiVersion: mediastack.dev/v1alpha1
kind: MediaAccount
metadata: {name: former, namespace: team-b}
---
apiVersion: mediastack.dev/v1alpha1
kind: MediaAccount
metadata: {name: kept, namespace: team-b}
spec: {deletionPolicy: Delete, deleteAfter: 24h}
`

// backups are what is left of the lost site.
type backups struct {
	base, archive, dump string // paths
	until               string // the time to recover to
	objects             []*unstructured.Unstructured
	secret              string // SERVICE_SECRET

	ids      map[string]string // of the accounts, by namespace/name
	keys     map[string]string // by the names of the Secrets
	sealed   []item            // everything that was sealed before the backup
	retained item              // of the account that was retained then
	late     item              // sealed after it
	signed   item              // the file of a draft of before the backup, which a signed URL opens
	upload   string            // an upload signature of before the backup
}

// A whole installation is lost, and comes back: from a base backup with the write-ahead log or from a
// dump, with or without the Secrets of the accounts.
func TestDrill_EverythingThatWasInTheBackupIsServed(t *testing.T) {
	t.Parallel()
	withLog, withDump := newSite(t), newSite(t)
	withLog.startS3()
	withDump.startS3()
	b := takeBackups(t, withLog, withDump)

	t.Run("base backup, write-ahead log and objects from Velero", func(t *testing.T) {
		t.Parallel()
		s := withLog
		s.t, s.secret = t, b.secret
		must(t, os.Rename(b.base, s.path("pg")))
		s.startPostgres(recovering(t, s.path("pg"), b.archive, b.until))
		s.confirmRestore()
		s.startKubernetes()
		s.startRuntime()
		if wrong := s.served(b.keys["photos.default.media"], b.sealed[0]); wrong != "" {
			t.Errorf("before the take-over: %s", wrong)
		}
		s.startOperator()
		s.restoreObjects(b.objects)
		s.takeOver()
		s.isWhole(b)
		for name, key := range b.keys {
			account, app, _ := strings.Cut(strings.TrimSuffix(name, ".media"), ".")
			if got := s.key(namespaceOf(account), account, app); got != key {
				t.Errorf("Secret %s has another key", name)
			}
		}
		if wrong := s.downloads(b.signed.File, b.signed); wrong != "" {
			t.Errorf("a URL that was signed before the loss: %s", wrong)
		}
		if status := s.uploadsWith(b.upload); status != http.StatusCreated {
			t.Errorf("an upload signature of before the loss: %d", status)
		}
		s.reopen(b)
		s.ranTheGuide()
	})
	t.Run("dump, objects from Git, a new server secret", func(t *testing.T) {
		t.Parallel()
		s := withDump
		s.t = t
		s.startPostgres(nil)
		must(t, s.db.RestoreDump(t.Context(), database, b.dump))
		s.confirmRestore()
		s.startKubernetes()
		s.startRuntime()
		s.startOperator()
		s.apply(tenants)
		s.takeOver()
		s.isWhole(b)
		for name, key := range b.keys {
			account, app, _ := strings.Cut(strings.TrimSuffix(name, ".media"), ".")
			got := s.key(namespaceOf(account), account, app)
			if got == "" || got == key {
				t.Errorf("Secret %s has no new key", name)
			}
			if status, body := s.call(got, "GET", "/media/get", "", nil); status != 200 {
				t.Errorf("the new key of %s: %d %s", name, status, body)
			}
		}
		if status, _ := s.call("", "GET", b.signed.File, "", nil); status != 404 && status != 403 {
			t.Errorf("a URL that was signed with the lost secret: %d", status)
		}
		if status := s.uploadsWith(b.upload); status != http.StatusForbidden {
			t.Errorf("an upload signature of the lost secret: %d", status)
		}
		s.ranTheGuide()
	})
}

func namespaceOf(account string) string {
	if account == "photos" {
		return "team-a"
	}
	return "team-b"
}

// takeBackups makes an installation with tenants and media, backs it up in the order of the guide, copies
// its buckets to those of the sites, and loses it.
func takeBackups(t *testing.T, targets ...*site) backups {
	t.Helper()
	s, kept := newSite(t), testenv.TempDir(t)
	b := backups{
		base: filepath.Join(kept, "base"), archive: filepath.Join(kept, "archive"), dump: filepath.Join(kept, "dump"),
		secret: s.secret, ids: map[string]string{}, keys: map[string]string{},
	}
	s.startPostgres(archiving(t, b.archive))
	s.startS3()
	s.succeeds("mediastack-runtime", "migrate")
	s.startKubernetes()
	s.startRuntime()
	s.startOperator()
	s.apply(tenants + "---" + former)
	for _, object := range []*v1alpha1.MediaAccount{s.ready("team-a", "photos"), s.ready("team-b", "files"), s.ready("team-b", "former"), s.ready("team-b", "kept")} {
		b.ids[object.Namespace+"/"+object.Name] = object.Status.AccountID
	}
	for _, name := range [][2]string{{"photos", "default"}, {"photos", "web"}, {"files", "default"}} {
		b.keys[v1alpha1.SecretName(name[0], name[1])] = s.key(namespaceOf(name[0]), name[0], name[1])
	}
	photos, web, files := b.keys["photos.default.media"], b.keys["photos.web.media"], b.keys["files.default.media"]
	b.sealed = append(b.sealed, s.upload(photos, "picture.png", picture(), true), s.upload(web, "web.bin", random(1000, 1), true))
	s.upload(s.key("team-b", "kept", "default"), "kept.bin", random(100, 7), true)
	b.retained = s.upload(s.key("team-b", "former", "default"), "former.bin", random(3000, 2), true)
	must(t, s.db.BaseBackup(t.Context(), b.base))

	// These are in the write-ahead log and in the dump.
	b.sealed = append(b.sealed, s.upload(files, "large.bin", random(17<<20, 3), true), s.upload(photos, "empty.bin", nil, true))
	b.upload = s.signature(photos)
	b.signed = s.upload(photos, "draft.bin", random(500, 4), false)
	s.retain("former", v1alpha1.ReclaimRetain)
	s.retain("kept", v1alpha1.ReclaimPurge)
	// The objects are backed up before the planned deletion is cancelled, and the database after it.
	b.objects = s.backUpObjects("team-a", "team-b", operatorNamespace)
	s.cancelDeletion(b.ids["team-b/kept"])
	must(t, s.db.Dump(t.Context(), database, b.dump))
	b.until = s.sql("SELECT now()::text")

	// This one is in no backup of the database.
	b.late = s.upload(photos, "late.bin", random(700, 5), true)
	s.succeeds("mediastack-runtime", "purge") // a heartbeat
	s.archived(b.archive)
	for _, target := range targets {
		copyBuckets(t, s.s3.Access, target.s3.Access)
	}
	s.lose()
	return b
}

// retain deletes a MediaAccount of team-b, and waits for its RetainedMediaAccount.
func (s *site) retain(name string, reclaim v1alpha1.ReclaimPolicy) {
	s.t.Helper()
	must(s.t, s.admin.Delete(s.t.Context(), object[v1alpha1.MediaAccount]("team-b", name)))
	wait.UntilNone(s.t, func() string {
		list := &v1alpha1.RetainedMediaAccountList{}
		must(s.t, s.admin.List(s.t.Context(), list))
		for _, one := range list.Items {
			if one.Spec.AccountName == name && one.Spec.Reclaim == reclaim && one.Status.ObservedGeneration == one.Generation {
				return ""
			}
		}
		return "the account " + name + " is not retained"
	})
}

// cancelDeletion keeps the media of an account whose deletion is planned.
func (s *site) cancelDeletion(id string) {
	s.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"reclaim":"Retain"}}`))
	must(s.t, s.admin.Patch(s.t.Context(), object[v1alpha1.RetainedMediaAccount]("", id), patch))
	wait.UntilNone(s.t, func() string {
		if s.sql("SELECT count(*)::text FROM account WHERE id = '"+id+"' AND erase_after IS NULL") != "1" {
			return "the deletion is still planned"
		}
		return ""
	})
}

// object returns an object with a name, to delete it.
func object[T any, P interface {
	*T
	client.Object
}](namespace, name string) P {
	object := P(new(T))
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// confirmRestore does what the guide says before anything of the service runs.
func (s *site) confirmRestore() {
	s.t.Helper()
	code, lines := s.run("mediastack-runtime", "purge")
	if code != 3 || !strings.Contains(strings.Join(lines, "\n"), `"held"`) {
		s.t.Errorf("the purge of a restored database: exit code %d, %s", code, lines)
	}
	s.succeeds("mediastack-runtime", "resume-after-restore")
	if last := s.succeeds("mediastack-runtime", "resume-after-restore", "--confirm"); !strings.Contains(last, `"confirmed":true`) {
		s.t.Fatalf("the restore is not confirmed: %s", last)
	}
}

// takeOver binds the installation to the new cluster.
func (s *site) takeOver() {
	s.t.Helper()
	if code, lines := s.run("mediastack-operator", "take-over"); code != 3 {
		s.t.Errorf("take-over: exit code %d, want 3: %s", code, lines)
	}
	var summary struct {
		Done                bool
		WithoutMediaAccount int
	}
	must(s.t, json.Unmarshal([]byte(s.succeeds("mediastack-operator", "take-over", "--confirm")), &summary))
	if !summary.Done || summary.WithoutMediaAccount != 0 {
		s.t.Errorf("the take-over is %+v", summary)
	}
}

// isWhole checks that the installation has everything of the backups.
func (s *site) isWhole(b backups) {
	s.t.Helper()
	for _, name := range [][2]string{{"team-a", "photos"}, {"team-b", "files"}} {
		if object := s.ready(name[0], name[1]); object.Status.AccountID != b.ids[name[0]+"/"+name[1]] {
			s.t.Errorf("%s has the account %s, want %s", name, object.Status.AccountID, b.ids[name[0]+"/"+name[1]])
		}
	}
	for _, one := range b.sealed {
		if wrong := s.served(one.key, one); wrong != "" {
			s.t.Error(wrong)
		}
	}
	if status, _ := s.call(b.late.key, "GET", "/media/get/"+b.late.MediaID, "", nil); status != 404 {
		s.t.Errorf("the item that was sealed after the backup: %d, want 404", status)
	}
	if wrong := s.served(b.keys["photos.default.media"], s.upload(b.keys["photos.default.media"], "new.bin", random(900, 6), true)); wrong != "" {
		s.t.Errorf("after the restore: %s", wrong)
	}
	s.succeeds("mediastack-runtime", "check", "--all", "--deep")
	s.succeeds("mediastack-runtime", "purge")
	s.keeps(b.ids["team-b/kept"])
	for _, one := range b.sealed {
		if wrong := s.served(one.key, one); wrong != "" {
			s.t.Errorf("after the purge: %s", wrong)
		}
	}
	secrets := &corev1.SecretList{}
	must(s.t, s.admin.List(s.t.Context(), secrets, client.InNamespace("team-a")))
	for _, secret := range secrets.Items {
		if len(secret.OwnerReferences) != 1 {
			s.t.Errorf("Secret %s has the owners %v", secret.Name, secret.OwnerReferences)
		}
	}
}

// ranTheGuide checks that the site ran the commands that the guide says this test runs, in their order.
func (s *site) ranTheGuide() {
	s.t.Helper()
	guide, err := os.ReadFile(filepath.Join(testenv.RepoRoot(s.t), "docs/guides/backup-and-restore.md"))
	must(s.t, err)
	blocks := regexp.MustCompile("(?s)```sh TestDrill_EverythingThatWasInTheBackupIsServed\n(.*?)```").FindAllSubmatch(guide, -1)
	left, commands := s.ran, 0
	for _, block := range blocks {
		for line := range strings.FieldsFuncSeq(string(block[1]), func(r rune) bool { return r == '\n' }) {
			line, commands = strings.TrimSpace(line), commands+1
			at := slices.Index(left, line)
			if line == "" {
				continue
			}
			if at < 0 {
				s.t.Fatalf("the guide has the command %q, but the test ran %q in its place", line, left)
			}
			left = left[at+1:]
		}
	}
	if commands < 5 {
		s.t.Errorf("the guide has %d commands", commands)
	}
}

// reopen restores the account that was retained at the backup, in its namespace, which was created again.
func (s *site) reopen(b backups) {
	s.t.Helper()
	id := b.ids["team-b/former"]
	retained := object[v1alpha1.RetainedMediaAccount]("", id)
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(retained), retained))
	s.permit(id, "team-b")
	s.apply(former)
	if found := s.ready("team-b", "former"); found.Status.AccountID != id {
		s.t.Fatalf("the account is %s, want %s", found.Status.AccountID, id)
	}
	if wrong := s.served(s.key("team-b", "former", "default"), b.retained); wrong != "" {
		s.t.Error(wrong)
	}
}

// permit lets the MediaAccount of a namespace take over a retained account.
func (s *site) permit(id, namespace string) {
	s.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"claimRef":{"namespace":"`+namespace+`"}}}`))
	must(s.t, s.admin.Patch(s.t.Context(), object[v1alpha1.RetainedMediaAccount]("", id), patch))
}

// keeps checks that the media of an account is not deleted, although the backup of its
// RetainedMediaAccount says Purge.
func (s *site) keeps(id string) {
	s.t.Helper()
	found := object[v1alpha1.RetainedMediaAccount]("", id)
	wait.UntilNone(s.t, func() string {
		if err := s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			return err.Error()
		}
		if found.Spec.Reclaim != v1alpha1.ReclaimRetain || found.Status.ObservedGeneration != found.Generation {
			return "the account is not retained: " + string(found.Spec.Reclaim) + " " + describe(found.Status.Conditions)
		}
		return ""
	})
	for one := range s3Client(s.t, s.s3.Access).ListObjects(s.t.Context(), found.Spec.Bucket, minio.ListObjectsOptions{Prefix: "media/", Recursive: true}) {
		must(s.t, one.Err)
		return
	}
	s.t.Error("the media of the retained account is deleted")
}
