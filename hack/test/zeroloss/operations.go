package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/chaos/faults"
)

// operation is one thing that an admin does, or that happens.
type operation struct {
	name    string
	planned bool
	do      func(*installation, context.Context) error
	// prepare is done before, without being part of it.
	prepare func(*installation, context.Context) error
	// within is how long after the loss of a node requests may fail; without a bound if it is zero.
	within time.Duration
}

// outage is how long a store is away.
const outage = 25 * time.Second

// operations are in this order; the product is whole again before each.
var operations = []operation{
	{name: "rolling update of the runtime", planned: true, do: roll("runtime")},
	{name: "rolling update of the operator", planned: true, do: roll("operator")},
	{name: "drain of node1", planned: true, do: drain("node1")},
	{name: "drain of node2", planned: true, do: drain("node2")},
	{name: "scale of the runtime, 2-5-2", planned: true, do: (*installation).scale},
	{name: "delete of a pod of the runtime", planned: true, do: deletePod()},
	{name: "change of a setting (ConfigMap)", planned: true, do: (*installation).changeSetting},
	{name: "rotation of SERVICE_SECRET", planned: true, do: (*installation).rotateSecret},
	{name: "rotation of the database password", planned: true, do: (*installation).rotatePassword},
	{name: "rotation of the S3 key", planned: true, do: (*installation).rotateKey},
	{name: "rotation of the certificate", planned: true, do: (*installation).rotateCertificate},
	{name: "force-delete of a pod of the runtime", do: deletePod("--force", "--grace-period=0")},
	{name: "SIGKILL of a runtime", do: killOne(runtimeProgram)},
	{name: "SIGKILL of an image worker", do: killOne(workerProgram)},
	{name: "kill of the leading operator while 30 accounts are created", do: (*installation).killLeader},
	{name: "restart of PostgreSQL", do: (*installation).restartPostgres},
	{name: "failover of PostgreSQL to a replica", do: (*installation).failOver, prepare: (*installation).startReplica},
	{name: "S3 away for 25 s", do: outageOfS3(faults.Cut)},
	{name: "S3 hangs for 25 s", do: outageOfS3(faults.Stall)},
	{name: "loss of a node after a scale 5-2 in one step", do: loseNode("2"), prepare: scaleUp("")},
	{name: "loss of a node after a scale 5-4-3-2", do: loseNode("4", "3", "2"), prepare: scaleUp("")},
	{name: "loss of a node after a scale 5-4-3-2, PreferSameNode", do: loseNode("4", "3", "2"), prepare: scaleUp("PreferSameNode"), within: 5 * time.Second},
}

func roll(component string) func(*installation, context.Context) error {
	return func(_ *installation, ctx context.Context) error {
		before, err := pods(ctx, component)
		if err != nil {
			return err
		}
		if err := kubectl(ctx, "rollout", "restart", "deployment/mediastack-"+component); err != nil {
			return err
		}
		if err := settle(ctx); err != nil {
			return err
		}
		after, err := pods(ctx, component)
		for _, old := range before {
			if strings.Contains(strings.Join(after, " "), old) {
				err = errors.Join(err, fmt.Errorf("the pod %s is still there", old))
			}
		}
		return err
	}
}

// drain drains a node of the product's pods: the clients, and the only DNS server of the cluster, stay.
func drain(node string) func(*installation, context.Context) error {
	return func(_ *installation, ctx context.Context) error {
		err := kubectl(ctx, "drain", node, "--ignore-daemonsets", "--pod-selector=app.kubernetes.io/name=mediastack", "--timeout="+settleLimit.String())
		return errors.Join(err, kubectl(ctx, "uncordon", node))
	}
}

func (*installation) scale(ctx context.Context) error {
	for _, replicas := range []string{"5", "2"} {
		if err := kubectl(ctx, "scale", "--replicas="+replicas, "deployment/mediastack-runtime"); err != nil {
			return err
		}
		if err := settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

func deletePod(how ...string) func(*installation, context.Context) error {
	return func(_ *installation, ctx context.Context) error {
		found, err := pods(ctx, "runtime")
		if err != nil {
			return err
		}
		return kubectl(ctx, append([]string{"delete", "pod/" + found[0]}, how...)...)
	}
}

func killOne(program string) func(*installation, context.Context) error {
	return func(i *installation, ctx context.Context) error {
		found, err := i.processes(program)
		if err != nil {
			return err
		}
		if err := kill(found[0]); err != nil {
			return err
		}
		return until(ctx, settleLimit, func() error {
			now, err := i.processes(program)
			if err == nil && (len(now) < len(found) || slices.ContainsFunc(now, func(p procfs.Proc) bool { return p.PID == found[0].PID })) {
				err = fmt.Errorf("%d of %d run again", len(now), len(found))
			}
			return err
		})
	}
}

func (i *installation) changeSetting(ctx context.Context) error {
	i.settings["SERVICE_UPLOAD_GRACE"] = "6m"
	return i.release(ctx)
}

// rotateSecret makes every process accept the new secret before one signs with it.
func (i *installation) rotateSecret(ctx context.Context) error {
	i.previous = servers.RandomSecret(32)
	if err := i.rollWithSecret(ctx); err != nil {
		return err
	}
	i.secret, i.previous = i.previous, i.secret
	return i.rollWithSecret(ctx)
}

// rollWithSecret writes the Secret and rolls what reads it.
func (i *installation) rollWithSecret(ctx context.Context) error {
	if err := i.writeSecret(ctx); err != nil {
		return err
	}
	return errors.Join(roll("runtime")(i, ctx), roll("operator")(i, ctx))
}

// rotatePassword changes to a second role, so that both passwords are valid while pods are replaced.
func (i *installation) rotatePassword(ctx context.Context) error {
	former := i.role
	i.role, i.password = "mediastack_b", servers.RandomSecret(16)
	if err := i.addRole(ctx, i.role, i.password); err != nil {
		return err
	}
	if err := i.rollWithSecret(ctx); err != nil {
		return err
	}
	return i.execute(ctx, "ALTER ROLE "+former+" NOLOGIN")
}

// rotateKey changes to a second user of the store, which may use the same buckets.
func (i *installation) rotateKey(ctx context.Context) error {
	former := i.key
	if err := i.addKey(ctx); err != nil {
		return err
	}
	if err := i.rollWithSecret(ctx); err != nil {
		return err
	}
	return i.removeKey(ctx, former)
}

const createdAccounts = 30

// killLeader kills the operator that leads when some of the accounts are ready, and waits for all of them.
func (i *installation) killLeader(ctx context.Context) error {
	var manifests strings.Builder
	for n := range createdAccounts {
		manifests.WriteString(accountManifest(fmt.Sprintf("created-%02d", n)))
	}
	leader, err := i.leader(ctx)
	if err != nil {
		return err
	}
	if err := apply(ctx, manifests.String()); err != nil {
		return err
	}
	ready := func() (int, error) {
		output, err := run(ctx, "", "kubectl", "--namespace", tenants, "get", "mediaaccounts", `--output=jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`)
		return strings.Count(output, "=True"), err
	}
	begun, err := ready()
	if err != nil {
		return err
	}
	all := len(i.Nodes) + createdAccounts
	if begun == all {
		return errors.New("all accounts were ready before the operator was killed")
	}
	if err := kill(leader); err != nil {
		return err
	}
	return until(ctx, settleLimit, func() error {
		now, err := ready()
		if err == nil && now < all {
			err = fmt.Errorf("%d of %d accounts are ready", now, all)
		}
		return err
	})
}

func (i *installation) restartPostgres(ctx context.Context) error {
	i.primary.Stop()
	return i.primary.Restart(ctx)
}

func (i *installation) startReplica(ctx context.Context) (err error) {
	i.replica, err = i.primary.StartStandby(ctx, i.postgres("replica"))
	return err
}

func outageOfS3(mode faults.Mode) func(*installation, context.Context) error {
	return func(i *installation, ctx context.Context) error {
		i.toS3.Set(mode)
		defer i.toS3.Set(faults.Open)
		select {
		case <-time.After(outage):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
