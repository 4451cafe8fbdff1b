package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// retainedCommand lists the retained accounts.
type retainedCommand struct{}

// Run prints the table, the latest closed account first.
func (*retainedCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	var accounts v1alpha1.RetainedMediaAccountList
	if err := cluster.List(ctx, &accounts); err != nil {
		return err
	}
	kept := accounts.Items
	if cluster.explicit {
		kept = slices.DeleteFunc(kept, func(a v1alpha1.RetainedMediaAccount) bool { return a.Spec.AccountNamespace != cluster.namespace })
	}
	if len(kept) == 0 {
		_, err := fmt.Fprintln(out, "no retained accounts")
		return err
	}
	slices.SortStableFunc(kept, func(a, b v1alpha1.RetainedMediaAccount) int {
		return cmp.Or(b.Spec.ClosedAt.Compare(a.Spec.ClosedAt.Time), cmp.Compare(a.Name, b.Name))
	})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ACCOUNT ID\tNAMESPACE\tNAME\tITEMS\tBYTES\tCLOSED\tMEDIA\tCLAIMED BY")
	for _, account := range kept {
		spec, claim := account.Spec, "-"
		if spec.ClaimRef != nil {
			claim = spec.ClaimRef.Namespace + "/" + cmp.Or(spec.ClaimRef.Name, spec.AccountName)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", account.Name, spec.AccountNamespace, spec.AccountName,
			account.Status.Items, account.Status.Bytes, spec.ClosedAt.UTC().Format(time.RFC3339), mediaOf(&account, cluster.now()), claim)
	}
	return table.Flush()
}

const beingDeleted = "being deleted"

// mediaOf returns what happens to the media.
func mediaOf(account *v1alpha1.RetainedMediaAccount, now time.Time) string {
	purge, at := account.Spec.Reclaim == v1alpha1.ReclaimPurge, account.Status.PurgeAt
	readyCondition := meta.FindStatusCondition(account.Status.Conditions, v1alpha1.ConditionReady)
	begun := readyCondition != nil && readyCondition.Reason == v1alpha1.ReasonConflict // Retain was set too late
	switch {
	case begun, purge && (at == nil || !at.After(now)):
		return beingDeleted
	case purge:
		return "deleted at " + at.UTC().Format(time.RFC3339)
	}
	return "kept"
}

// getRetained returns a retained account.
func getRetained(ctx context.Context, cluster *cluster, id string) (*v1alpha1.RetainedMediaAccount, error) {
	var retained v1alpha1.RetainedMediaAccount
	err := cluster.Get(ctx, client.ObjectKey{Name: id}, &retained)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no retained account %q: `kubectl mediastack retained` lists them", id)
	}
	return &retained, err
}

// patch applies a change, unless the object was changed at the same time.
func patch(ctx context.Context, cluster *cluster, before, after *v1alpha1.RetainedMediaAccount) error {
	err := cluster.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("RetainedMediaAccount %s was changed at the same time; nothing was changed, run the command again", after.Name)
	}
	return err
}

// restoreCommand hands a retained account to a MediaAccount.
type restoreCommand struct {
	ID   string `arg:"" name:"account-id" help:"Id of the account, as the command retained lists it."`
	Name string `help:"Name of the MediaAccount. By default the former name."`
}

// Run sets spec.claimRef.
func (c *restoreCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	retained, err := getRetained(ctx, cluster, c.ID)
	if err != nil {
		return err
	}
	target := client.ObjectKey{Namespace: retained.Spec.AccountNamespace, Name: cmp.Or(c.Name, retained.Spec.AccountName)}
	if cluster.explicit {
		target.Namespace = cluster.namespace
	}
	if mediaOf(retained, cluster.now()) == beingDeleted {
		return fmt.Errorf("the media of account %s is being deleted; nothing was changed", c.ID)
	}
	var account v1alpha1.MediaAccount
	switch err := cluster.Get(ctx, target, &account); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case account.Status.AccountID != "":
		return fmt.Errorf("MediaAccount %s has the account %s already, and can take over no other; nothing was changed. Choose another one with --namespace and --name", target, account.Status.AccountID)
	}
	before := retained.DeepCopy()
	retained.Spec.ClaimRef = &v1alpha1.ClaimReference{Namespace: target.Namespace, Name: target.Name}
	if err := patch(ctx, cluster, before, retained); err != nil {
		return err
	}
	next := "It does so now."
	if account.Name == "" {
		next = "It does so when it is created."
	}
	if retained.Spec.Reclaim == v1alpha1.ReclaimPurge {
		next += " Until then, the media is " + mediaOf(retained, cluster.now()) + "."
	}
	_, err = fmt.Fprintf(out, "MediaAccount %s may take over account %s. %s\n", target, c.ID, next)
	return err
}

// purgeCommand deletes the media of a retained account.
type purgeCommand struct {
	ID      string `arg:"" name:"account-id" help:"Id of the account, as the command retained lists it."`
	Confirm bool   `help:"Delete the media. It cannot be undone."`
}

// Run sets spec.reclaim.
func (c *purgeCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	retained, err := getRetained(ctx, cluster, c.ID)
	if err != nil {
		return err
	}
	if retained.Spec.Reclaim == v1alpha1.ReclaimPurge {
		_, err := fmt.Fprintf(out, "The media of account %s is %s.\n", c.ID, mediaOf(retained, cluster.now()))
		return err
	}
	spec := retained.Spec
	if _, err := fmt.Fprintf(out, "Account %s, formerly MediaAccount %s/%s: %s, %s, bucket %s.\n",
		c.ID, spec.AccountNamespace, spec.AccountName, counted(retained.Status.Items, "item"), counted(retained.Status.Bytes, "byte"), spec.Bucket); err != nil {
		return err
	}
	if !c.Confirm {
		return errUnconfirmed
	}
	before := retained.DeepCopy()
	retained.Spec.Reclaim = v1alpha1.ReclaimPurge
	if err := patch(ctx, cluster, before, retained); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "Its items, objects and bucket are being deleted. The RetainedMediaAccount shows the progress.")
	return err
}

// counted is a number of things, in words: 1 item, 2 items.
func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
