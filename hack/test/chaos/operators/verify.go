package operators

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/test/chaos/faults"
)

// convergenceLimit is how long the operators may take after the last fault until every object is
// Ready or gone.
const convergenceLimit = 60 * time.Second

// converge waits until every MediaAccount is Ready or gone, and every account without one has its
// RetainedMediaAccount. It returns how long that took.
func (w *worker) converge(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	for {
		pending, err := w.pending(ctx)
		if err != nil || pending == "" {
			return time.Since(begun), err
		}
		if time.Since(begun) > convergenceLimit {
			w.model.wrong(nil, "after %s, %s", convergenceLimit, pending)
			return time.Since(begun), nil
		}
		faults.Sleep(ctx, retryPause)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// pending says what has not converged; empty when everything has.
func (w *worker) pending(ctx context.Context) (string, error) {
	pending, first := 0, ""
	note := func(text string) {
		if pending++; first == "" {
			first = text
		}
	}
	for _, t := range w.model.tenants {
		switch t.state {
		case deleting:
			if err := w.awaitGone(ctx, t); err != nil {
				return "", err
			}
			if t.state == deleting {
				note(t.name + " is still being deleted: " + w.conditions(ctx, t))
			}
		case open:
			object, err := w.ready(ctx, t)
			if err != nil {
				return "", fmt.Errorf("%s: %w", t.name, err)
			}
			if object == nil {
				note(t.name + " is not Ready: " + w.conditions(ctx, t))
			}
		case absent, retained:
		}
	}
	missing, err := w.unprojected(ctx)
	if err != nil {
		return "", err
	}
	if missing != "" {
		note(missing)
	}
	if pending == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d objects have not converged: %s", pending, first), nil
}

func (w *worker) conditions(ctx context.Context, t *tenant) string {
	object := t.object()
	if err := w.env.admin.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err.Error()
	}
	ready := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
	return fmt.Sprintf("generation %d, observed %d, Ready %+v", object.Generation, object.Status.ObservedGeneration, ready)
}

// unprojected compares the RetainedMediaAccounts with the closed accounts.
func (w *worker) unprojected(ctx context.Context) (string, error) {
	closed, err := w.rows(ctx, `SELECT id::text FROM account WHERE closed_at IS NOT NULL`)
	if err != nil {
		return "", err
	}
	var list v1alpha1.RetainedMediaAccountList
	if err := w.env.admin.List(ctx, &list); err != nil {
		return "", err
	}
	shown := map[string]bool{}
	for i := range list.Items {
		shown[list.Items[i].Name] = true
	}
	for _, id := range closed {
		if !shown[id] {
			return "closed account " + id + " has no RetainedMediaAccount", nil
		}
		delete(shown, id)
	}
	for id := range shown {
		return "RetainedMediaAccount " + id + " has no closed account", nil
	}
	return "", nil
}

// rows returns the first column of a query.
func (w *worker) rows(ctx context.Context, query string) ([]string, error) {
	conn, err := pgx.Connect(ctx, w.env.adminURL)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// verify compares Kubernetes, PostgreSQL, S3 and the runtime with each other and with the model.
func (w *worker) verify(ctx context.Context) error {
	for _, check := range []func(context.Context) error{w.verifyAccounts, w.verifyBuckets, w.verifyKeyRows, w.verifyTenants} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// verifyAccounts finds open accounts without an object, and erased accounts that are still there.
func (w *worker) verifyAccounts(ctx context.Context) error {
	openAccounts, err := w.rows(ctx, `SELECT namespace || '/' || name || ' ' || id FROM account WHERE closed_at IS NULL`)
	if err != nil {
		return err
	}
	var list v1alpha1.MediaAccountList
	if err := w.env.admin.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	objects := map[string]bool{}
	for i := range list.Items {
		objects[list.Items[i].Namespace+"/"+list.Items[i].Name+" "+list.Items[i].Status.AccountID] = true
	}
	for _, account := range openAccounts {
		if !objects[account] {
			w.model.wrong(nil, "account %s is open, and no MediaAccount has it", account)
		}
		delete(objects, account)
	}
	for object := range objects {
		w.model.wrong(nil, "MediaAccount %s has no open account", object)
	}
	all, err := w.rows(ctx, `SELECT id::text FROM account`)
	if err != nil {
		return err
	}
	for _, id := range all {
		if w.model.wasErased(id) {
			w.model.wrong(nil, "account %s was deleted with policy Delete, its object is gone, and its row is left", id)
		}
	}
	return nil
}

// verifyBuckets finds buckets without an account, and accounts without a bucket.
func (w *worker) verifyBuckets(ctx context.Context) error {
	named, err := w.rows(ctx, `SELECT bucket FROM account`)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, bucket := range named {
		wanted[bucket] = true
	}
	buckets, err := w.env.raw.ListBuckets(ctx)
	if err != nil {
		return err
	}
	for _, bucket := range buckets {
		if !wanted[bucket.Name] {
			w.model.wrong(nil, "bucket %s belongs to no account", bucket.Name)
		}
		delete(wanted, bucket.Name)
	}
	claimed, err := w.rows(ctx, `SELECT bucket FROM account WHERE bucket_claimed AND erasing_at IS NULL`)
	if err != nil {
		return err
	}
	for _, bucket := range claimed {
		if wanted[bucket] {
			w.model.wrong(nil, "bucket %s is gone, and its account is not", bucket)
		}
	}
	return nil
}

// verifyKeyRows finds keys that nobody has asked for. A key of a MediaAccount of the same name that
// was deleted may live for the overlap: the API server may delete an object whose finalizer was
// added between its read and its write, and then no operator closes the account.
func (w *worker) verifyKeyRows(ctx context.Context) error {
	for what, query := range map[string]string{
		"has two keys of one generation":     `SELECT app_id || ', generation ' || generation FROM api_key WHERE delivered_at IS NOT NULL AND (expires_at IS NULL OR expires_at > now()) GROUP BY app_id, generation, object_uid HAVING count(*) > 1`,
		"has two current keys":               `SELECT app_id::text FROM api_key WHERE expires_at IS NULL AND delivered_at IS NOT NULL GROUP BY app_id HAVING count(*) > 1`,
		"has a key that was never delivered": `SELECT app_id::text FROM api_key WHERE delivered_at IS NULL AND expires_at IS NULL`,
	} {
		apps, err := w.rows(ctx, query)
		if err != nil {
			return err
		}
		for _, app := range apps {
			w.model.wrong(nil, "app %s %s", app, what)
		}
	}
	return nil
}

// verifyTenants uses every key that must work, and looks for every item that was acknowledged.
func (w *worker) verifyTenants(ctx context.Context) error {
	for _, t := range w.model.tenants {
		if t.state != open {
			continue
		}
		if t.suspended { // so that its keys can be tried
			if err := w.toggleSuspended(ctx, t); err != nil {
				return err
			}
		}
	}
	if _, err := w.converge(ctx); err != nil {
		return err
	}
	for _, t := range w.model.tenants {
		if t.state != open {
			continue
		}
		if err := w.readKeys(ctx, t); err != nil {
			w.model.wrong(t, "read the keys: %v", err)
			continue
		}
		if !t.usable {
			w.model.wrong(t, "no Secret can be read")
			continue
		}
		w.verifyItems(ctx, t)
	}
	return nil
}

func (w *worker) verifyItems(ctx context.Context, t *tenant) {
	keys := t.keys[defaultApp]
	for _, item := range t.items {
		if got := w.ask(ctx, keys[len(keys)-1], http.MethodGet, "/media/get/"+item, nil, ""); got.Status != http.StatusOK {
			w.model.wrong(t, "item %s was sealed, and is answered %d %s", item, got.Status, got.Body)
		} else {
			w.model.count("items found")
		}
	}
}
