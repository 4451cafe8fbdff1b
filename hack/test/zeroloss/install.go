package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"mediastack.dev/hack/certificate"
	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/zeroloss/tenant"
)

const (
	baseURL     = "https://" + serviceHost
	controlPort = "8090"
	// imageTag is the tag that make gives the images of the product.
	imageTag = "e2e"
)

// installation is the product, its stores and the clients.
type installation struct {
	*cluster
	*stores
	authority        *certificate.Authority // of the certificate of the service
	issued           *big.Int               // the serial number of the newest certificate
	secret, previous string
	settings         map[string]string
	values           map[string]string // of the chart, that operations change
	clients          map[string]string // addresses, by the node
	lost             *loss             // of the operation that runs
	http             *http.Client
}

// install installs the product as the guide says.
func install(ctx context.Context, k *cluster, s *stores) (*installation, error) {
	issuer, err := certificate.NewAuthority("zero-loss", certificateLife)
	if err != nil {
		return nil, err
	}
	i := &installation{cluster: k, stores: s, authority: issuer, secret: servers.RandomSecret(32), settings: map[string]string{}, values: map[string]string{}, http: &http.Client{}}
	for _, name := range []string{system, tenants} {
		if err := apply(ctx, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {pod-security.kubernetes.io/enforce: restricted}}\n", name)); err != nil {
			return nil, err
		}
	}
	if err := i.writeSecret(ctx); err != nil {
		return nil, err
	}
	if err := i.issue(ctx); err != nil {
		return nil, err
	}
	if err := i.release(ctx); err != nil {
		return nil, err
	}
	return i, settle(ctx)
}

// writeSecret writes the Secret of the product.
func (i *installation) writeSecret(ctx context.Context) error {
	data := map[string]string{
		"SERVICE_DATABASE_URL": i.databaseURL(), "SERVICE_SECRET": i.secret,
		"SERVICE_S3_ACCESS_KEY": i.key, "SERVICE_S3_SECRET_KEY": i.secretKey,
	}
	if i.previous != "" {
		data["SERVICE_SECRET_PREVIOUS"] = i.previous
	}
	secret, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "stringData": data,
		"metadata": map[string]string{"name": "mediastack-runtime", "namespace": system},
	})
	if err != nil {
		return err
	}
	return apply(ctx, string(secret))
}

// release installs or upgrades the chart, with the settings.
func (i *installation) release(ctx context.Context) error {
	home := filepath.Join(i.dir, "helm")
	_, port, err := net.SplitHostPort(i.toDB.String())
	if err != nil {
		return err
	}
	args := []string{
		"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home, i.helm,
		"upgrade", "--install", release, filepath.Join(i.root, "charts", "mediastack"), "--namespace", system, "--wait", "--timeout", settleLimit.String(),
		"--set", "baseURL=" + baseURL, "--set", "s3.endpoint=http://" + i.toS3.String(), "--set", "image.tag=" + imageTag, "--set", "tls.secretName=" + certificateSecret,
		"--set", "networkPolicy.database.port=" + port,
	}
	for name, value := range i.values {
		args = append(args, "--set-string", name+"="+value)
	}
	for name, value := range i.settings {
		args = append(args, "--set-string", "settings."+name+"="+value)
	}
	_, err = run(ctx, "", "env", args...)
	return err
}

// clientManifest is a correct client on one node, with an account of its own. It knows the address of the
// Service: the cluster has one DNS server, which may be on a node that is drained or lost.
const clientManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: $NODE, namespace: ` + tenants + `}
spec:
  selector: {matchLabels: {app: $NODE}}
  template:
    metadata: {labels: {app: $NODE}}
    spec:
      nodeSelector: {kubernetes.io/hostname: $NODE}
      tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}
      hostAliases: [{ip: $ADDRESS, hostnames: [` + serviceHost + `]}]
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: client
          image: ` + image + `
          args: [client]
          env:
            - {name: TENANT_API_KEY, valueFrom: {secretKeyRef: {name: $SECRET, key: apiKey}}}
            - {name: TENANT_BASE_URL, valueFrom: {secretKeyRef: {name: $SECRET, key: baseURL}}}
            - {name: TENANT_MCP_URL, valueFrom: {secretKeyRef: {name: $SECRET, key: mcpURL}}}
            - {name: TENANT_RATE, value: "$RATE"}
            - {name: TENANT_AUTHORITY, value: $AUTHORITY}
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          readinessProbe: {tcpSocket: {port: ` + controlPort + `}, periodSeconds: 1}
`

func accountManifest(name string) string {
	return fmt.Sprintf("---\napiVersion: mediastack.dev/v1alpha1\nkind: MediaAccount\nmetadata: {name: %s, namespace: %s}\nspec: {displayName: %s, storage: {maxStorage: 20Gi}, deletionPolicy: Delete}\n", name, tenants, name)
}

// startClients starts a client on each node. Together they send rate requests per second.
func (i *installation) startClients(ctx context.Context, rate float64) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := clusterCommand(ctx, "load", "--program", image, program); err != nil {
		return err
	}
	address, err := query(ctx, "get", "service/mediastack-runtime", "--output=jsonpath={.spec.clusterIP}")
	if err != nil {
		return err
	}
	for node := range i.Nodes {
		if err := apply(ctx, accountManifest(node)); err != nil {
			return err
		}
		if _, err := run(ctx, "", "kubectl", "--namespace", tenants, "wait", "--for=condition=Ready", "--timeout=2m", "mediaaccount/"+node); err != nil {
			return err
		}
		secret, err := run(ctx, "", "kubectl", "--namespace", tenants, "get", "mediaaccount/"+node, "--output=jsonpath={.status.keys[0].secretName}")
		if err != nil {
			return err
		}
		values := strings.NewReplacer("$NODE", node, "$ADDRESS", address, "$SECRET", secret, "$RATE", fmt.Sprint(rate/float64(len(i.Nodes))), "$AUTHORITY", strconv.Quote(string(i.authority.PEM)))
		if err := apply(ctx, values.Replace(clientManifest)); err != nil {
			return err
		}
		if _, err := run(ctx, "", "kubectl", "--namespace", tenants, "rollout", "status", "--timeout=2m", "deployment/"+node); err != nil {
			return err
		}
	}
	i.clients, err = i.clientAddresses(ctx)
	return err
}

// clientAddresses are those of the pods, by their nodes; a client that started again has forgotten what it knew.
func (i *installation) clientAddresses(ctx context.Context) (map[string]string, error) {
	output, err := run(ctx, "", "kubectl", "--namespace", tenants, "get", "pods", "--output=jsonpath={range .items[*]}{.spec.nodeName} {.status.podIP} {.status.containerStatuses[0].restartCount} {end}")
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for pod := range slices.Chunk(strings.Fields(output), 3) {
		if len(pod) != 3 || pod[2] != "0" {
			return nil, fmt.Errorf("the pods of the clients have the nodes, addresses and restarts %q", output)
		}
		addresses[pod[0]] = net.JoinHostPort(pod[1], controlPort)
	}
	if len(addresses) != len(i.Nodes) {
		return nil, fmt.Errorf("the clients have the addresses %q, not one for each node", addresses)
	}
	return addresses, nil
}

// ask sends one request to every client and adds the results up. Of a client on a node that was lost in the
// meantime it adds what the service has and what it lacks only: its requests failed with it.
func (i *installation) ask(ctx context.Context, path string) (sum tenant.Result, err error) {
	addresses, err := i.clientAddresses(ctx)
	if err != nil {
		return sum, err
	}
	if !maps.Equal(addresses, i.clients) {
		return sum, fmt.Errorf("the clients moved from %q to %q", i.clients, addresses)
	}
	parts := make(chan tenant.Result)
	group, all := errgroup.WithContext(ctx)
	for node, address := range addresses {
		group.Go(func() error {
			var part tenant.Result
			if err := i.askOne(all, "http://"+address+path, &part); err != nil {
				return err
			}
			if i.lost != nil && i.lost.node == node {
				part = part.Compared()
			}
			parts <- part
			return nil
		})
	}
	go func() {
		err = group.Wait()
		close(parts)
	}()
	for part := range parts {
		sum.Add(part)
	}
	return sum, err
}

func (i *installation) askOne(ctx context.Context, url string, into *tenant.Result) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	got, err := exchange.Expect(ctx, i.http, http.StatusOK, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(got.Body, into)
}
