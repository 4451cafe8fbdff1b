package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// statusCommand lists MediaAccounts.
type statusCommand struct {
	AllNamespaces bool `short:"A" help:"List the accounts of all namespaces."`
}

// state is a group of accounts, in the order of the list.
type state int

const (
	stalled state = iota
	deleting
	notReady
	ready
)

func (s state) String() string { return [...]string{"Stalled", "Deleting", "NotReady", "Ready"}[s] }

// stateOf returns the state of an account, and the condition that explains it.
func stateOf(account *v1alpha1.MediaAccount) (s state, reason, message string) {
	s = notReady
	explain := v1alpha1.ConditionReady
	switch conditions := account.Status.Conditions; {
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled):
		s, explain = stalled, v1alpha1.ConditionStalled
	case account.DeletionTimestamp != nil:
		s = deleting
	case account.Status.ObservedGeneration != account.Generation:
		return notReady, v1alpha1.ReasonProgressing, "the operator has not handled the latest change"
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady):
		s = ready
	}
	if condition := meta.FindStatusCondition(account.Status.Conditions, explain); condition != nil {
		return s, condition.Reason, condition.Message
	}
	return s, v1alpha1.ReasonProgressing, "the operator has not handled it"
}

// Run prints the table and a summary.
func (c *statusCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	var scope []client.ListOption
	if !c.AllNamespaces {
		scope = append(scope, client.InNamespace(cluster.namespace))
	}
	var accounts v1alpha1.MediaAccountList
	if err := cluster.List(ctx, &accounts, scope...); err != nil {
		return err
	}
	slices.SortStableFunc(accounts.Items, func(a, b v1alpha1.MediaAccount) int {
		first, _, _ := stateOf(&a)
		second, _, _ := stateOf(&b)
		return cmp.Or(cmp.Compare(first, second), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	counts := map[state]int{}
	for i := range accounts.Items {
		account := &accounts.Items[i]
		if i == 0 {
			_, _ = fmt.Fprintln(table, "NAMESPACE\tNAME\tSTATE\tREASON\tMESSAGE")
		}
		s, reason, message := stateOf(account)
		counts[s]++
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", account.Namespace, account.Name, s, reason, message)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	summary := counted(int64(len(accounts.Items)), "account")
	if !c.AllNamespaces {
		summary += " in the namespace " + cluster.namespace
	}
	for _, s := range []state{stalled, deleting, notReady, ready} {
		if counts[s] > 0 {
			summary += fmt.Sprintf(", %d %s", counts[s], s)
		}
	}
	_, err := fmt.Fprintln(out, summary)
	return err
}

// rotateCommand raises the generation of an account's keys.
type rotateCommand struct {
	Name string `arg:"" help:"Name of the MediaAccount."`
}

// Run raises spec.apiKeys.generation above that of every key: the operator issues no key for a
// generation that it had before.
func (c *rotateCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	var account v1alpha1.MediaAccount
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.namespace, Name: c.Name}, &account); err != nil {
		return err
	}
	if account.DeletionTimestamp != nil {
		return fmt.Errorf("MediaAccount %s/%s is being deleted; nothing was changed", account.Namespace, account.Name)
	}
	before := account.DeepCopy()
	next := account.Spec.APIKeys.Generation
	for _, key := range account.Status.Keys {
		next = max(next, key.Generation)
	}
	next++
	account.Spec.APIKeys.Generation = next
	err := cluster.Patch(ctx, &account, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("MediaAccount %s/%s was changed at the same time; nothing was rotated, run the command again", account.Namespace, account.Name)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "MediaAccount %s/%s: spec.apiKeys.generation is %d. If Git manages this object, set it there too.\n", account.Namespace, account.Name, next)
	return err
}
