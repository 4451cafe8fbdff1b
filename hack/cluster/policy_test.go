package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func policyPod(namespace, name, node, address string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "admin", ContainerPort: 8081}}}}},
		Status:     corev1.PodStatus{PodIP: address},
	}
}

func port(value intstr.IntOrString) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Port: &value}
}

func TestPolicies_BecomeRulesForThePodsOfANode(t *testing.T) {
	t.Parallel()
	scrapers := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "monitoring"}}}
	public := networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.0.0.0/8"}}}
	absent := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "absent"}}}
	world := policyWorld{
		node:       "node1",
		namespaces: map[string]labels.Set{"system": {}, "monitoring": {"name": "monitoring"}, "team": {}},
		pods: []*corev1.Pod{
			policyPod("system", "runtime", "node1", "10.244.1.2"), policyPod("system", "free", "node1", "10.244.1.3"),
			policyPod("system", "runtime", "node2", "10.244.2.2"), policyPod("monitoring", "prometheus", "node2", "10.244.2.3"),
			policyPod("team", "runtime", "node1", "10.244.1.4"),
		},
		policies: []*networkingv1.NetworkPolicy{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "runtime"},
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "runtime"}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
				Ingress: []networkingv1.NetworkPolicyIngressRule{
					{Ports: []networkingv1.NetworkPolicyPort{port(intstr.FromString("http"))}},
					{From: []networkingv1.NetworkPolicyPeer{scrapers}, Ports: []networkingv1.NetworkPolicyPort{port(intstr.FromString("admin"))}},
					{From: []networkingv1.NetworkPolicyPeer{absent}},
				},
				Egress: []networkingv1.NetworkPolicyEgressRule{
					{Ports: []networkingv1.NetworkPolicyPort{port(intstr.FromInt32(5432))}},
					{To: []networkingv1.NetworkPolicyPeer{scrapers}, Ports: []networkingv1.NetworkPolicyPort{port(intstr.FromString("http"))}},
					{To: []networkingv1.NetworkPolicyPeer{public}, Ports: []networkingv1.NetworkPolicyPort{port(intstr.FromInt32(443))}},
				},
			},
		}},
	}
	got, err := world.rules()
	if err != nil {
		t.Fatal(err)
	}
	want := `add table inet policies
delete table inet policies
table inet policies {
	chain in_10_244_1_2 { # system/runtime
		tcp dport 8080 return
		ip saddr { 10.244.2.3 } tcp dport 8081 return
		drop
	}
	chain out_10_244_1_2 { # system/runtime
		tcp dport 5432 return
		ip daddr 10.244.2.3 tcp dport 8080 return
		ip daddr 0.0.0.0/0 ip daddr != { 10.0.0.0/8 } tcp dport 443 return
		drop
	}
	chain forward {
		type filter hook forward priority filter; policy accept;
		ct state established,related accept
		ip daddr 10.244.1.2 jump in_10_244_1_2
		ip saddr 10.244.1.2 jump out_10_244_1_2
	}
}
`
	if got != want {
		t.Errorf("the rules are\n%s", strings.ReplaceAll(got, "\t", "  "))
	}
}
