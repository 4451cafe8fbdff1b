package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	pgstore "mediastack.dev/runtime/postgres"
)

// measureBare has the bare loop provide accounts while the operator does not run, and removes them from
// the cluster again. round tells the rounds apart.
func (c *cluster) measureBare(ctx context.Context, t *template, f fleet, round int) (created, error) {
	env := c.b.env
	rows := c.database + "_loop" // which the operator must not find
	if err := env.server.CreateDatabase(ctx, rows); err != nil {
		return created{}, err
	}
	if err := pgstore.Migrate(ctx, pgstore.Config{DatabaseURL: env.server.URL(rows)}, slog.New(slog.DiscardHandler)); err != nil {
		return created{}, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return created{}, err
	}
	path := filepath.Join(env.dir, "template.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return created{}, err
	}
	access := c.proxy.access
	loop, err := env.serveBaseline(ctx, bareLoop, bareLoop, loopTemplate+"="+path, loopKubeconfig+"="+c.kube.Kubeconfig, loopDatabase+"="+env.server.URL(rows),
		proxyEndpoint+"="+access.Endpoint, proxyAccess+"="+access.AccessKey, proxySecret+"="+access.SecretKey)
	if err != nil {
		return created{}, err
	}
	defer func() {
		loop.Stop()
		delete(env.watched, bareLoop)
	}()
	from := round * f.bare
	done, err := c.create(ctx, bareNamespace, from, from+f.bare, f.apps)
	if err != nil {
		return created{}, err
	}
	loop.Stop()
	return done, c.removeBare(ctx, from, from+f.bare)
}

// removeBare removes the objects of the bare loop, which no operator may see.
func (c *cluster) removeBare(ctx context.Context, from, until int) error {
	c.b.say("%s: removing the objects of the bare loop", c.b.name)
	group, removing := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for n := from; n < until; n++ {
		group.Go(func() error {
			for _, object := range newAccount(bareNamespace, accountName(n), 0) {
				free := kube.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				if err := c.api.Patch(removing, object, free); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var failed []error
	for _, kind := range []kube.Object{&v1alpha1.MediaAccount{}, &v1alpha1.MediaSettings{}, &corev1.Secret{}} {
		if err := c.api.DeleteAllOf(ctx, kind, kube.InNamespace(bareNamespace)); err != nil {
			failed = append(failed, fmt.Errorf("remove the objects of the bare loop: %w", err))
		}
	}
	return errors.Join(failed...)
}
