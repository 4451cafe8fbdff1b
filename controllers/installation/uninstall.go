package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/installation"
)

// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts;mediasettings;mediawebhooks,verbs=delete

// UninstallStore is the database of an uninstallation. Package postgres implements it.
type UninstallStore interface {
	CheckSchema(ctx context.Context) error
	Installation(ctx context.Context) (installation.State, error)
	OpenAccounts(ctx context.Context, each func(installation.OpenAccount) error) error
	// Unpin removes the pins of the MediaSettings with the UID.
	Unpin(ctx context.Context, uid string) error
	SetFence(clusterUID string, epoch, leaderTerm int64)
}

// Webhooks are those of the database. Package postgres implements it.
type Webhooks interface {
	// RemoveWebhook removes the webhook of the MediaWebhook with the UID.
	RemoveWebhook(ctx context.Context, uid string) error
}

// Uninstall deletes the MediaAccounts, MediaSettings and MediaWebhooks of an installation so that nothing is lost, and
// nothing waits for an operator that is gone.
type Uninstall struct {
	cluster  cluster
	store    UninstallStore // nil: without the database
	webhooks Webhooks       // nil: without the database
	accounts *account.Registry
	out      *json.Encoder
}

// NewUninstall returns an Uninstall, which writes its report to out. Without a store, accounts
// stay open until an operator runs again.
func NewUninstall(kube *rest.Config, namespace string, store UninstallStore, webhooks Webhooks, accounts *account.Registry, out io.Writer) (*Uninstall, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	kube = rest.CopyConfig(kube)
	kube.QPS = -1 // the workers bound the requests in flight; client-go's default of five per second takes an hour for 10,000 accounts
	c, err := client.New(kube, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	return &Uninstall{cluster: cluster{client: c, namespace: namespace}, store: store, webhooks: webhooks, accounts: accounts, out: json.NewEncoder(out)}, nil
}

// Watching limits the command to the namespaces that the operator watches; to all if there are none.
func (u *Uninstall) Watching(namespaces []string) *Uninstall {
	u.cluster.watched = namespaces
	return u
}

// objectLine is the line of an object in the report.
type objectLine struct {
	Kind    string `json:"kind"`
	Object  string `json:"object"` // namespace/name
	Items   int64  `json:"items"`  // of the account; 0 without the database
	Message string `json:"message"`
}

// uninstallSummary is the last line of the report.
type uninstallSummary struct {
	MediaAccounts int    `json:"mediaAccounts"`
	MediaSettings int    `json:"mediaSettings"`
	MediaWebhooks int    `json:"mediaWebhooks"`
	Done          bool   `json:"done"`
	Message       string `json:"message"`
}

// objects are what an uninstallation deletes.
type objects struct {
	accounts v1alpha1.MediaAccountList
	settings v1alpha1.MediaSettingsList
	webhooks v1alpha1.MediaWebhookList
}

func (o *objects) empty() bool {
	return len(o.accounts.Items)+len(o.settings.Items)+len(o.webhooks.Items) == 0
}

// Check reports whether there are MediaAccounts.
func (u *Uninstall) Check(ctx context.Context) (needed bool, err error) {
	found, err := u.read(ctx)
	if err != nil {
		return false, err
	}
	summary := found.summary()
	summary.Done = len(found.accounts.Items) == 0
	summary.Message = "no MediaAccount exists: the operator can be removed"
	if !summary.Done {
		summary.Message = "MediaAccounts exist: delete them, or run `mediastack-operator uninstall --confirm`, before the operator is removed. " +
			"If this ended `helm uninstall`, `helm rollback RELEASE REVISION` makes the release usable again"
	}
	return !summary.Done, u.out.Encode(summary)
}

// Run reports what exists and what deleting it does, and deletes it if confirm is set: the media
// of every account is retained. It reports whether there was anything and it was not confirmed.
func (u *Uninstall) Run(ctx context.Context, confirm bool) (needed bool, err error) {
	if u.store != nil {
		if err := u.verify(ctx); err != nil {
			return false, err
		}
	}
	found, err := u.read(ctx)
	if err != nil {
		return false, err
	}
	if err := u.list(ctx, found, confirm); err != nil {
		return false, err
	}
	summary := found.summary()
	switch {
	case found.empty():
		summary.Message, summary.Done = "there is nothing to delete: the operator can be removed", true
		return false, u.out.Encode(summary)
	case !confirm:
		summary.Message = "nothing was changed: stop what applies these objects (GitOps), then run `mediastack-operator uninstall --confirm` to retain the media of every account and delete the objects"
		return true, u.out.Encode(summary)
	}
	if err := found.protected(); err != nil {
		return false, err
	}
	if err := u.remove(ctx, found); err != nil {
		return false, err
	}
	summary.Done = true
	summary.Message = "the operator can be removed. The media of every account is retained in the database and the object store: " +
		"the same objects, applied in the same namespaces, bind to it again"
	if u.store == nil {
		summary.Message = "the operator can be removed. The accounts are still open in the database: their keys are valid until an operator runs again, which retains their media"
	}
	return false, u.out.Encode(summary)
}

// verify returns an error unless the database belongs to this cluster. The writes that follow are
// fenced, as those of the operator.
func (u *Uninstall) verify(ctx context.Context) error {
	if err := u.store.CheckSchema(ctx); err != nil {
		return err
	}
	clusterUID, err := u.cluster.uid(ctx)
	if err != nil {
		return err
	}
	record, _, err := u.cluster.record(ctx)
	if err != nil {
		return err
	}
	row, err := u.store.Installation(ctx)
	if err != nil {
		return err
	}
	switch next, text := decide(clusterUID, record, row); next {
	case stop, hold:
		return errors.New(text)
	case bindRow:
		return errors.New("the database was never used by an operator: check SERVICE_DATABASE_URL, or use --without-database")
	}
	u.store.SetFence(row.ClusterUID, row.Epoch, 0)
	return nil
}

// read lists the objects; none of a kind that the API server does not have, and none of a watched
// namespace that was deleted, together with the Role of this program.
func (u *Uninstall) read(ctx context.Context) (*objects, error) {
	found := &objects{}
	for _, namespace := range u.cluster.searched() {
		var part objects
		for _, list := range []client.ObjectList{&part.accounts, &part.settings, &part.webhooks} {
			err := u.cluster.client.List(ctx, list, client.InNamespace(namespace))
			if err == nil || meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && u.cluster.deleted(ctx, namespace) {
				continue
			}
			return nil, fmt.Errorf("list the objects: %w", err)
		}
		found.accounts.Items = append(found.accounts.Items, part.accounts.Items...)
		found.settings.Items = append(found.settings.Items, part.settings.Items...)
		found.webhooks.Items = append(found.webhooks.Items, part.webhooks.Items...)
	}
	return found, nil
}

func (o *objects) summary() uninstallSummary {
	return uninstallSummary{MediaAccounts: len(o.accounts.Items), MediaSettings: len(o.settings.Items), MediaWebhooks: len(o.webhooks.Items)}
}

// protected returns an error that names the accounts whose deletion the spec forbids.
func (o *objects) protected() error {
	var errs []error
	for i := range o.accounts.Items {
		if object := &o.accounts.Items[i]; object.Spec.DeletionProtection && object.DeletionTimestamp.IsZero() {
			errs = append(errs, fmt.Errorf("MediaAccount %s/%s has spec.deletionProtection: set it to false first; nothing was changed", object.Namespace, object.Name))
		}
	}
	return errors.Join(errs...)
}

// list writes a line for each object.
func (u *Uninstall) list(ctx context.Context, found *objects, confirm bool) error {
	items := map[uuid.UUID]int64{}
	if u.store != nil {
		err := u.store.OpenAccounts(ctx, func(a installation.OpenAccount) error { items[a.ID] = a.Items; return nil })
		if err != nil {
			return err
		}
	}
	for i := range found.settings.Items {
		object := &found.settings.Items[i]
		line := objectLine{Kind: "MediaSettings", Object: client.ObjectKeyFromObject(object).String(), Message: "deleting it removes its pins"}
		if err := u.out.Encode(line); err != nil {
			return err
		}
	}
	for i := range found.webhooks.Items {
		object := &found.webhooks.Items[i]
		line := objectLine{Kind: "MediaWebhook", Object: client.ObjectKeyFromObject(object).String(), Message: "deleting it ends its deliveries, and deletes the Secret that the operator made"}
		if err := u.out.Encode(line); err != nil {
			return err
		}
	}
	for i := range found.accounts.Items {
		object := &found.accounts.Items[i]
		line := objectLine{Kind: "MediaAccount", Object: client.ObjectKeyFromObject(object).String(), Message: deletionEffect(object, confirm)}
		if id, err := uuid.Parse(object.Status.AccountID); err == nil {
			line.Items = items[id]
		}
		if err := u.out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// deletionEffect says what the deletion of a MediaAccount does.
func deletionEffect(object *v1alpha1.MediaAccount, confirmed bool) string {
	switch {
	case confirmed:
		return "its media is retained, its API keys end, and its Secrets are deleted"
	case !object.DeletionTimestamp.IsZero():
		return "it is being deleted, and waits for the operator"
	case object.Spec.DeletionProtection:
		return "spec.deletionProtection forbids to delete it"
	case object.Spec.DeletionPolicy == v1alpha1.DeletionDelete:
		return "deleting it with kubectl deletes its media after spec.deleteAfter; uninstall --confirm retains it"
	}
	return "deleting it retains its media, and ends its API keys"
}
