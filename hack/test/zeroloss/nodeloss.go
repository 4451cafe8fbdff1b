package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mediastack.dev/hack/test/zeroloss/tenant"
)

const (
	// lossLimit is how long Kubernetes may take to lead connections away from a node that is lost. A cluster that
	// leaves pods on such a node takes 350 s.
	lossLimit = 8 * time.Minute
	// watchedLoss is how long the clients are watched after that, before the node returns.
	watchedLoss = 10 * time.Second
	// remembered is how long Linux leads a connection to where it led one from the same port before, if that one
	// was never answered: conntrack keeps it for 120 s. So clients meet a lost endpoint for as long.
	remembered = 130 * time.Second
	// distribution is the value of the chart for the way of connections to replicas.
	distribution = "service.trafficDistribution"
)

// loss is what is known of a node that was lost.
type loss struct {
	node string
	at   time.Time
	// placed are the ready replicas of each node before.
	placed map[string]int
	// led is when the endpoints of the Service were right again, from the loss on.
	led time.Duration
}

// scaleUp makes five replicas. Every connection is one that the Service has led as the value says.
func scaleUp(value string) func(*installation, context.Context) error {
	return func(i *installation, ctx context.Context) error {
		if i.values[distribution] != value {
			i.values[distribution] = value
			if err := i.release(ctx); err != nil {
				return err
			}
			if err := roll("runtime")(i, ctx); err != nil {
				return err
			}
		}
		if err := scaleTo(ctx, "5"); err != nil {
			return err
		}
		return settle(ctx)
	}
}

// scaleTo returns when as many replicas are there, without those that end.
func scaleTo(ctx context.Context, replicas string) error {
	if err := kubectl(ctx, "scale", "--replicas="+replicas, "deployment/mediastack-runtime"); err != nil {
		return err
	}
	return kubectl(ctx, "wait", "--for=jsonpath={.status.replicas}="+replicas, "--timeout="+settleLimit.String(), "deployment/mediastack-runtime")
}

// loseNode removes replicas in steps, and then takes away the node that has most of those that are left. It
// returns when the node is back.
func loseNode(steps ...string) func(*installation, context.Context) error {
	return func(i *installation, ctx context.Context) (err error) {
		for _, replicas := range steps {
			if err := scaleTo(ctx, replicas); err != nil {
				return err
			}
		}
		placed, err := i.placement(ctx)
		if err != nil {
			return err
		}
		lost := &loss{node: fullest(placed), placed: placed, at: time.Now()}
		i.lost = lost
		if err := i.node(ctx, "lose", lost.node); err != nil {
			return errors.Join(err, i.node(context.WithoutCancel(ctx), "return", lost.node))
		}
		err = until(ctx, lossLimit, func() error { return ledAway(ctx, lost.node) })
		lost.led = time.Since(lost.at)
		if err == nil {
			err = watched(ctx, watchedLoss)
		}
		err = errors.Join(err, i.node(context.WithoutCancel(ctx), "return", lost.node))
		if err != nil {
			return err
		}
		if err := kubectl(ctx, "wait", "--for=condition=Ready", "--timeout="+settleLimit.String(), "node/"+lost.node); err != nil {
			return err
		}
		return watched(ctx, time.Until(lost.at.Add(lost.led+remembered)))
	}
}

// watched returns after a time in which clients are watched.
func watched(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// node takes a node away, or returns it.
func (i *installation) node(ctx context.Context, what, node string) error {
	_, err := clusterCommand(ctx, what, node)
	return err
}

// clusterCommand runs the program of the cluster.
func clusterCommand(ctx context.Context, args ...string) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	return run(ctx, "", filepath.Join(filepath.Dir(program), "mediastack-cluster"), args...)
}

// placement are the ready replicas of the runtime on each node, without those that end.
func (i *installation) placement(ctx context.Context) (map[string]int, error) {
	var found struct {
		Items []struct {
			Metadata struct {
				DeletionTimestamp string `json:"deletionTimestamp"`
			} `json:"metadata"`
			Spec struct {
				NodeName string `json:"nodeName"`
			} `json:"spec"`
			Status struct {
				Conditions []struct {
					Type   string `json:"type"`
					Status string `json:"status"`
				} `json:"conditions"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := read(ctx, &found, "pods", selector("runtime")); err != nil {
		return nil, err
	}
	placed := map[string]int{}
	for node := range i.Nodes {
		placed[node] = 0
	}
	for _, pod := range found.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" && pod.Metadata.DeletionTimestamp == "" {
				placed[pod.Spec.NodeName]++
			}
		}
	}
	return placed, nil
}

// fullest is the node with most replicas; the first of several by its name.
func fullest(placed map[string]int) (node string) {
	for _, name := range slices.Sorted(maps.Keys(placed)) {
		if node == "" || placed[name] > placed[node] {
			node = name
		}
	}
	return node
}

// ledAway fails while the Service leads connections to a node, or nowhere.
func ledAway(ctx context.Context, lost string) error {
	var slices struct {
		Items []struct {
			Endpoints []struct {
				NodeName   string `json:"nodeName"`
				Conditions struct {
					Ready bool `json:"ready"`
				} `json:"conditions"`
			} `json:"endpoints"`
		} `json:"items"`
	}
	if err := read(ctx, &slices, "endpointslices", "--selector=kubernetes.io/service-name=mediastack-runtime"); err != nil {
		return err
	}
	there, elsewhere := 0, 0
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			switch {
			case !endpoint.Conditions.Ready:
			case endpoint.NodeName == lost:
				there++
			default:
				elsewhere++
			}
		}
	}
	if there > 0 || elsewhere == 0 {
		return fmt.Errorf("the Service has %d endpoints on %s, which is lost, and %d on others", there, lost, elsewhere)
	}
	return nil
}

// read reads objects of the namespace of the product.
func read(ctx context.Context, into any, args ...string) error {
	output, err := query(ctx, append(append([]string{"get"}, args...), "--output=json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(output), into)
}

// describe says what clients saw of the loss: those of other nodes, as the one on the node was lost with it.
func (l *loss) describe(result tenant.Result) string {
	var placed []string
	for _, node := range slices.Sorted(maps.Keys(l.placed)) {
		placed = append(placed, fmt.Sprintf("%d on %s", l.placed[node], node))
	}
	text := fmt.Sprintf("ready replicas before: %s; %s was lost; the Service led to other nodes alone after %.1f s", strings.Join(placed, ", "), l.node, l.led.Seconds())
	if result.Failed == 0 {
		return text + "; no request failed"
	}
	last := slices.MaxFunc(result.FailedBegan, time.Time.Compare)
	return text + fmt.Sprintf("; %d requests failed: %d of them began later than that, the last one %.1f s after the loss", result.Failed, l.failedAfter(l.led, result), last.Sub(l.at).Seconds())
}

// failedAfter counts the requests that failed though they began so long after the loss.
func (l *loss) failedAfter(limit time.Duration, result tenant.Result) (failed int) {
	for _, began := range result.FailedBegan {
		if began.After(l.at.Add(limit)) {
			failed++
		}
	}
	return failed
}
