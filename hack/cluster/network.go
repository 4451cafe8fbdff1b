package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// The addresses of the cluster, all of them in its own network: nothing outside sees them.
const (
	bridge = "cluster0"
	// hostAddress is where the control plane and the stores listen.
	hostAddress    = "10.200.0.1"
	apiServerPort  = 6443
	postgresPort   = 5432
	s3Port         = 9000
	smtpPort       = 1025
	podNetwork     = "10.244.0.0/16"
	serviceNetwork = "10.96.0.0/16"
	kubernetesIP   = "10.96.0.1"
	dnsAddress     = "10.96.0.10"
)

func hostPort(port int) string { return net.JoinHostPort(hostAddress, strconv.Itoa(port)) }

func apiServerURL() string { return "https://" + hostPort(apiServerPort) }

// nodeAddress is the address of a node, 1 to 9, at the bridge, and podRange the one of its pods.
func nodeAddress(number int) string { return fmt.Sprintf("10.200.0.%d", 10+number) }
func podRange(number int) string    { return fmt.Sprintf("10.244.%d.0/24", number) }

// makeBridge makes the bridge that the nodes are connected to. Services and pods are reached through the
// nodes, as a router in front of a cluster does it.
func makeBridge(ctx context.Context) error {
	lines := []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"addr add " + hostAddress + "/24 dev " + bridge,
		"link set " + bridge + " up",
		"route add " + serviceNetwork + " via " + nodeAddress(1),
	}
	for number := 1; number <= nodeCount; number++ {
		lines = append(lines, "route add "+podRange(number)+" via "+nodeAddress(number))
	}
	return ip(ctx, lines)
}

// connectNode connects this process's network, the one of a node, with the bridge. Process 1 is in the
// network of the bridge.
func connectNode(ctx context.Context, number int) error {
	outside := nodeName(number)
	err := ip(ctx, []string{
		"link set lo up",
		"link add eth0 type veth peer name " + outside + " netns 1",
		"addr add " + nodeAddress(number) + "/24 dev eth0",
		"link set eth0 up",
		"route add default via " + hostAddress,
	})
	if err != nil {
		return err
	}
	var routes []string
	for other := 1; other <= nodeCount; other++ {
		if other != number {
			routes = append(routes, "route add "+podRange(other)+" via "+nodeAddress(other))
		}
	}
	if err := ip(ctx, routes); err != nil {
		return err
	}
	if err := run(ctx, nil, "nsenter", "--target", "1", "--net", "ip", "link", "set", outside, "master", bridge, "up"); err != nil {
		return err
	}
	// These settings belong to the network, so the machine's stay as they are. The second one is
	// there where bridges can be filtered, which Services between pods of one node need.
	for name, required := range map[string]bool{"ipv4/ip_forward": true, "bridge/bridge-nf-call-iptables": false} {
		err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0)
		if err != nil && (required || !os.IsNotExist(err)) {
			return err
		}
	}
	return nil
}

// ip runs the lines as commands of the program ip.
func ip(ctx context.Context, lines []string) error {
	return run(ctx, strings.NewReader(strings.Join(lines, "\n")+"\n"), "ip", "-batch", "-")
}
