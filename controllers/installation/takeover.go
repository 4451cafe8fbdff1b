package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/installation"
)

// TakeoverStore is the database of a take-over. Package postgres implements it.
type TakeoverStore interface {
	CheckSchema(ctx context.Context) error
	Installation(ctx context.Context) (installation.State, error)
	OpenAccounts(ctx context.Context, each func(installation.OpenAccount) error) error
	PlannedDeletions(ctx context.Context, each func(installation.PlannedDeletion) error) error
	TakeOver(ctx context.Context, request installation.Takeover) (epoch, accounts int64, err error)
}

// Takeover binds the installation to this cluster, although another one is bound or the ConfigMap
// names another installation.
type Takeover struct {
	cluster cluster
	store   TakeoverStore
	out     *json.Encoder
}

// NewTakeover returns a Takeover, which writes its report to out.
func NewTakeover(kube *rest.Config, namespace string, store TakeoverStore, out io.Writer) (*Takeover, error) {
	c, err := client.New(kube, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	return &Takeover{cluster: cluster{client: c, namespace: namespace}, store: store, out: json.NewEncoder(out)}, nil
}

// Watching limits the report to the namespaces that the operator watches; to all if there are none.
func (t *Takeover) Watching(namespaces []string) *Takeover {
	t.cluster.watched = namespaces
	return t
}

// accountLine is the line of an account in the report.
type accountLine struct {
	Account      string    `json:"account"` // namespace/name
	ID           uuid.UUID `json:"id"`
	Items        int64     `json:"items"`
	Bytes        int64     `json:"bytes"`
	MediaAccount bool      `json:"mediaAccount"` // this cluster has the MediaAccount
}

// plannedDeletionLine is the line of a closed account whose media is deleted.
type plannedDeletionLine struct {
	PlannedDeletion installation.PlannedDeletion `json:"plannedDeletion"`
}

// takeoverSummary is the last line of the report.
type takeoverSummary struct {
	Installation uuid.UUID `json:"installation"`
	// ThisCluster and BoundCluster are the two sides.
	ThisCluster  string `json:"thisCluster"`
	BoundCluster string `json:"boundCluster"`
	Epoch        int64  `json:"epoch"`
	// ConfigMap is what the ConfigMap of this cluster says; null if there is none.
	ConfigMap *recordLine `json:"configMap"`
	// LastHeartbeat is how long ago any process used the database.
	LastHeartbeat string `json:"lastHeartbeat"`
	HoldReason    string `json:"holdReason,omitempty"`
	Accounts      int64  `json:"accounts"`
	// PlannedDeletions are the closed accounts whose media is deleted at their time, also after the
	// take-over.
	PlannedDeletions int64 `json:"plannedDeletions"`
	// WithoutMediaAccount are the accounts that become retained unless their MediaAccounts are applied.
	WithoutMediaAccount int64  `json:"withoutMediaAccount"`
	Done                bool   `json:"done"`
	Message             string `json:"message"`
}

type recordLine struct {
	Installation uuid.UUID `json:"installation"`
	Cluster      string    `json:"cluster"`
	Epoch        int64     `json:"epoch"`
}

// Run reports what a take-over binds, and binds it if confirm is set. It reports whether a
// take-over is needed and was not confirmed.
func (t *Takeover) Run(ctx context.Context, confirm bool) (needed bool, err error) {
	if err := t.store.CheckSchema(ctx); err != nil {
		return false, err
	}
	clusterUID, err := t.cluster.uid(ctx)
	if err != nil {
		return false, err
	}
	record, existing, err := t.cluster.record(ctx)
	if err != nil && !errors.As(err, new(mismatchError)) { // the take-over replaces an invalid one
		return false, err
	}
	row, err := t.store.Installation(ctx)
	if err != nil {
		return false, err
	}
	summary := takeoverSummary{
		Installation: row.ID, ThisCluster: clusterUID, BoundCluster: row.ClusterUID, Epoch: row.Epoch,
		LastHeartbeat: row.HeartbeatAge.Round(time.Second).String(), HoldReason: row.HoldReason,
	}
	if record != nil {
		summary.ConfigMap = &recordLine{Installation: record.InstallationID, Cluster: record.ClusterUID, Epoch: record.Epoch}
	}
	if !needsTakeover(clusterUID, record, row) {
		summary.Message = "the installation needs no take-over: nothing was changed"
		if row.HoldReason != "" {
			summary.Message += fmt.Sprintf("; it is on hold: run `%s`", resumeCommand)
		}
		return false, t.out.Encode(summary)
	}
	if err := t.list(ctx, &summary); err != nil {
		return false, err
	}
	if !confirm {
		summary.Message = fmt.Sprintf("nothing was changed: end the operator of the other cluster, then run `%s --confirm` to bind these accounts to the MediaAccounts of their namespaces and names in this cluster", takeOverCommand)
		return true, t.out.Encode(summary)
	}
	return false, t.bind(ctx, summary, row, record, existing)
}

// needsTakeover reports whether only a take-over lets the operator of this cluster write.
func needsTakeover(clusterUID string, record *Record, row installation.State) bool {
	otherCluster := row.ClusterUID != "" && row.ClusterUID != clusterUID
	otherRecord := record != nil && (record.InstallationID != row.ID || (row.ClusterUID == "" && record.ClusterUID != clusterUID))
	return otherCluster || otherRecord
}

// bind takes over and writes the ConfigMap. If it ends in between, the operator writes the
// ConfigMap, or the command is run again.
func (t *Takeover) bind(ctx context.Context, summary takeoverSummary, row installation.State, record *Record, existing *corev1.ConfigMap) error {
	request := installation.Takeover{ClusterUID: summary.ThisCluster, OldClusterUID: row.ClusterUID, OldEpoch: row.Epoch}
	if record != nil && record.InstallationID == row.ID {
		request.KnownEpoch = record.Epoch
	}
	epoch, accounts, err := t.store.TakeOver(ctx, request)
	if err != nil {
		return err
	}
	if err := t.cluster.write(ctx, Record{InstallationID: row.ID, ClusterUID: summary.ThisCluster, Epoch: epoch}, existing); err != nil {
		return fmt.Errorf("the database is bound to this cluster, but the ConfigMap could not be written; run the command again: %w", err)
	}
	summary.BoundCluster, summary.Epoch, summary.Accounts, summary.Done = summary.ThisCluster, epoch, accounts, true
	summary.Message = "the accounts bind to the MediaAccounts of their namespaces and names; API keys whose Secrets are not in this cluster are replaced, with spec.apiKeys.overlap. " +
		"Accounts without a MediaAccount become RetainedMediaAccounts after SERVICE_TAKE_OVER_GRACE (10 minutes by default)"
	if row.HoldReason != "" {
		summary.Message += fmt.Sprintf(". The installation is still on hold: run `%s`", resumeCommand)
	}
	return t.out.Encode(summary)
}

// list writes a line for each planned deletion and each open account, and counts them.
func (t *Takeover) list(ctx context.Context, summary *takeoverSummary) error {
	names, err := t.cluster.mediaAccounts(ctx)
	if err != nil {
		return err
	}
	if err := t.store.PlannedDeletions(ctx, func(planned installation.PlannedDeletion) error {
		summary.PlannedDeletions++
		return t.out.Encode(plannedDeletionLine{planned})
	}); err != nil {
		return err
	}
	return t.store.OpenAccounts(ctx, func(account installation.OpenAccount) error {
		key := client.ObjectKey{Namespace: account.Namespace, Name: account.Name}
		summary.Accounts++
		if !names[key] {
			summary.WithoutMediaAccount++
		}
		return t.out.Encode(accountLine{Account: key.String(), ID: account.ID, Items: account.Items, Bytes: account.Bytes, MediaAccount: names[key]})
	})
}

// listPage is the number of objects that one request to the API server lists.
const listPage = 500

// mediaAccounts returns the names of the MediaAccounts; none if the API server does not have the
// kind.
func (c cluster) mediaAccounts(ctx context.Context) (map[client.ObjectKey]bool, error) {
	names := map[client.ObjectKey]bool{}
	for _, namespace := range c.searched() {
		if err := c.addMediaAccounts(ctx, namespace, names); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// addMediaAccounts adds the names of the MediaAccounts of a namespace.
func (c cluster) addMediaAccounts(ctx context.Context, namespace string, names map[client.ObjectKey]bool) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MediaAccountList"))
	for next := ""; ; {
		err := c.client.List(ctx, list, client.InNamespace(namespace), client.Limit(listPage), client.Continue(next))
		if meta.IsNoMatchError(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the MediaAccounts: %w", err)
		}
		for i := range list.Items {
			names[client.ObjectKeyFromObject(&list.Items[i])] = true
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}
