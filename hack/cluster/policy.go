package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// The network plugin of the nodes enforces no NetworkPolicy, and none that does can be built from Go modules
// alone. So each node translates those of its pods into rules of nftables, again whenever a pod, a
// namespace or a policy changes. Of the API it lacks IPv6, which the cluster has not.

// enforcePolicies starts to enforce NetworkPolicies, until ctx ends.
func (n *node) enforcePolicies(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", n.data.path(adminKubeconfig))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	changed := make(chan struct{}, 1)
	notify := func(any) {
		select {
		case changed <- struct{}{}:
		default: // the next run sees this change, too
		}
	}
	pods, namespaces, policies := factory.Core().V1().Pods(), factory.Core().V1().Namespaces(), factory.Networking().V1().NetworkPolicies()
	for _, informer := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), policies.Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: notify, DeleteFunc: notify, UpdateFunc: func(_, after any) { notify(after) },
		})
		if err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	enforce := func() error {
		world := policyWorld{node: n.name, namespaces: map[string]labels.Set{}}
		var err error
		if world.pods, err = pods.Lister().List(labels.Everything()); err != nil {
			return err
		}
		if world.policies, err = policies.Lister().List(labels.Everything()); err != nil {
			return err
		}
		all, err := namespaces.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		for _, namespace := range all {
			world.namespaces[namespace.Name] = namespace.Labels
		}
		rules, err := world.rules()
		if err != nil {
			return err
		}
		return run(ctx, strings.NewReader(rules), "nft", "-f", "-")
	}
	if err := enforce(); err != nil {
		return fmt.Errorf("enforce NetworkPolicies: %w", err)
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				if err := enforce(); err != nil && ctx.Err() == nil {
					fmt.Printf("%s NetworkPolicies are not enforced as they are: %v\n", time.Now().UTC().Format(time.RFC3339), err)
				}
			}
		}
	}()
	return nil
}

// policyWorld is what the rules of one node depend on.
type policyWorld struct {
	node       string
	pods       []*corev1.Pod
	namespaces map[string]labels.Set
	policies   []*networkingv1.NetworkPolicy
}

// direction is ingress or egress, as the rules of one pod need it.
type direction struct {
	policyType networkingv1.PolicyType
	// chain begins the name of the pod's chain; own is the side of a packet that the pod is on, and peer the other one.
	chain, own, peer string
}

var directions = []direction{
	{networkingv1.PolicyTypeIngress, "in_", "daddr", "saddr"},
	{networkingv1.PolicyTypeEgress, "out_", "saddr", "daddr"},
}

// rules replace those that were there, in one transaction. Packets pass the chain of the pod that sends
// them and of the pod that gets them: each returns what a policy allows, and drops the rest.
func (w policyWorld) rules() (string, error) {
	var jumps, chains strings.Builder
	for _, pod := range w.pods {
		if pod.Spec.NodeName != w.node || !hasAddress(pod) {
			continue
		}
		for _, d := range directions {
			allowed, isolated, err := w.allowed(pod, d)
			if err != nil {
				return "", err
			}
			if isolated {
				chain := d.chain + strings.ReplaceAll(pod.Status.PodIP, ".", "_")
				fmt.Fprintf(&jumps, "\t\tip %s %s jump %s\n", d.own, pod.Status.PodIP, chain)
				fmt.Fprintf(&chains, "\tchain %s { # %s/%s\n%s\t\tdrop\n\t}\n", chain, pod.Namespace, pod.Name, allowed)
			}
		}
	}
	return "add table inet policies\ndelete table inet policies\ntable inet policies {\n" + chains.String() +
		"\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\t\tct state established,related accept\n" + jumps.String() + "\t}\n}\n", nil
}

func hasAddress(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && !pod.Spec.HostNetwork && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// policyRule is a rule of a policy, whatever its direction.
type policyRule struct {
	policyType networkingv1.PolicyType
	peers      []networkingv1.NetworkPolicyPeer
	ports      []networkingv1.NetworkPolicyPort
}

// allowed returns the rules of one direction for a pod, and whether a policy isolates it.
func (w policyWorld) allowed(pod *corev1.Pod, d direction) (rules string, isolated bool, err error) {
	var all strings.Builder
	for _, policy := range w.policies {
		selected, err := matches(&policy.Spec.PodSelector, pod.Labels)
		if err != nil {
			return "", false, err
		}
		if policy.Namespace != pod.Namespace || !selected || !hasType(policy, d.policyType) {
			continue
		}
		isolated = true
		var rulesOf []policyRule
		for _, rule := range policy.Spec.Ingress {
			rulesOf = append(rulesOf, policyRule{networkingv1.PolicyTypeIngress, rule.From, rule.Ports})
		}
		for _, rule := range policy.Spec.Egress {
			rulesOf = append(rulesOf, policyRule{networkingv1.PolicyTypeEgress, rule.To, rule.Ports})
		}
		for _, rule := range rulesOf {
			if rule.policyType != d.policyType {
				continue
			}
			if err := w.allow(&all, d, policy.Namespace, rule, pod); err != nil {
				return "", false, fmt.Errorf("%s/%s: %w", policy.Namespace, policy.Name, err)
			}
		}
	}
	return all.String(), isolated, nil
}

func hasType(policy *networkingv1.NetworkPolicy, wanted networkingv1.PolicyType) bool {
	for _, has := range policy.Spec.PolicyTypes {
		if has == wanted {
			return true
		}
	}
	return false
}

// side is what a rule says of the other end of a packet.
type side struct {
	match string
	pods  []*corev1.Pod // that match, where pods are selected
}

// allow writes the rules of one rule of a policy: each peer with each port.
func (w policyWorld) allow(out *strings.Builder, d direction, namespace string, rule policyRule, pod *corev1.Pod) error {
	sides := []side{{pods: w.pods}}
	if len(rule.peers) > 0 {
		sides = nil
	}
	for _, peer := range rule.peers {
		found, err := w.peer(d, namespace, peer)
		if err != nil {
			return err
		}
		sides = append(sides, found...)
	}
	for _, side := range sides {
		if len(rule.ports) == 0 {
			fmt.Fprintf(out, "\t\t%sreturn\n", side.match)
		}
		for _, port := range rule.ports {
			for _, match := range matchPort(port, d, pod, side) {
				fmt.Fprintf(out, "\t\t%sreturn\n", match)
			}
		}
	}
	return nil
}

// peer returns what a peer matches; nothing if it is no address of this cluster.
func (w policyWorld) peer(d direction, namespace string, peer networkingv1.NetworkPolicyPeer) ([]side, error) {
	if block := peer.IPBlock; block != nil {
		if strings.Contains(block.CIDR, ":") {
			return nil, nil // the cluster has no IPv6
		}
		match := fmt.Sprintf("ip %s %s ", d.peer, block.CIDR)
		if len(block.Except) > 0 {
			match += fmt.Sprintf("ip %s != { %s } ", d.peer, strings.Join(block.Except, ", "))
		}
		return []side{{match: match}}, nil
	}
	var addresses []string
	var pods []*corev1.Pod
	for _, pod := range w.pods {
		there := pod.Namespace == namespace
		var err error
		if peer.NamespaceSelector != nil {
			there, err = matches(peer.NamespaceSelector, w.namespaces[pod.Namespace])
		}
		selected := true
		if err == nil && peer.PodSelector != nil {
			selected, err = matches(peer.PodSelector, pod.Labels)
		}
		if err != nil {
			return nil, err
		}
		if there && selected && hasAddress(pod) {
			addresses, pods = append(addresses, pod.Status.PodIP), append(pods, pod)
		}
	}
	if len(addresses) == 0 {
		return nil, nil
	}
	return []side{{match: fmt.Sprintf("ip %s { %s } ", d.peer, strings.Join(addresses, ", ")), pods: pods}}, nil
}

// matchPort returns the matches of a port at a side. A name is that of a port of the pod that is
// connected to: the pod itself for ingress, and each pod of the side for egress.
func matchPort(port networkingv1.NetworkPolicyPort, d direction, pod *corev1.Pod, other side) (matches []string) {
	protocol := corev1.ProtocolTCP
	if port.Protocol != nil {
		protocol = *port.Protocol
	}
	transport := strings.ToLower(string(protocol))
	switch {
	case port.Port == nil:
		return []string{fmt.Sprintf("%smeta l4proto %s ", other.match, transport)}
	case port.Port.IntVal != 0 && port.EndPort != nil:
		return []string{fmt.Sprintf("%s%s dport %d-%d ", other.match, transport, port.Port.IntVal, *port.EndPort)}
	case port.Port.IntVal != 0:
		return []string{fmt.Sprintf("%s%s dport %d ", other.match, transport, port.Port.IntVal)}
	case d.policyType == networkingv1.PolicyTypeIngress:
		if number := namedPort(pod, port.Port.StrVal, protocol); number != 0 {
			matches = append(matches, fmt.Sprintf("%s%s dport %d ", other.match, transport, number))
		}
	default:
		for _, one := range other.pods {
			if number := namedPort(one, port.Port.StrVal, protocol); number != 0 && hasAddress(one) {
				matches = append(matches, fmt.Sprintf("ip daddr %s %s dport %d ", one.Status.PodIP, transport, number))
			}
		}
	}
	return matches
}

// namedPort returns the number of a pod's port; 0 if the pod has none of that name.
func namedPort(pod *corev1.Pod, name string, protocol corev1.Protocol) int32 {
	for _, container := range pod.Spec.Containers {
		for _, has := range container.Ports {
			if has.Name == name && cmp.Or(has.Protocol, corev1.ProtocolTCP) == protocol {
				return has.ContainerPort
			}
		}
	}
	return 0
}

func matches(selector *metav1.LabelSelector, set labels.Set) (bool, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(set), err
}
