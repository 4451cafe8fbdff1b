package main

import (
	"context"
	"os"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
)

// Only the cluster's own network reaches etcd, which asks nobody who they are.
const etcdURL = "http://127.0.0.1:2379"

// environment lets child processes find the programs as this one does.
func (k *cluster) environment() []string {
	env := []string{"PATH=" + k.programs.clusterDir + ":" + os.Getenv("PATH")}
	for _, name := range []string{setup.CacheEnv, setup.AssetsEnv, setup.BinEnv} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// startControlPlane starts etcd, the API server, the controllers and the scheduler.
func (k *cluster) startControlPlane(ctx context.Context) error {
	_, err := k.group.Start(ctx, servers.Spec{
		Name: "etcd", Path: k.programs.kube.Etcd, LogFile: k.log("etcd"),
		Args: []string{
			"--data-dir", k.data.path("etcd"), "--log-level", "warn", "--unsafe-no-fsync",
			"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL, "--listen-peer-urls", "http://127.0.0.1:0",
		},
		Ready: servers.Answers(etcdURL + "/readyz"),
	})
	if err != nil {
		return err
	}
	_, err = k.group.Start(ctx, servers.Spec{
		Name: "kube-apiserver", Path: k.programs.kube.APIServer, LogFile: k.log("kube-apiserver"),
		Args: []string{
			"--etcd-servers", etcdURL, "--profiling=false", "--allow-privileged",
			"--bind-address", hostAddress, "--advertise-address", hostAddress, "--secure-port", strconv.Itoa(apiServerPort),
			"--tls-cert-file", k.certificate("kube-apiserver"), "--tls-private-key-file", k.key("kube-apiserver"),
			"--client-ca-file", k.data.path(authorityFile),
			"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file", k.data.path(tokenKeyFile), "--service-account-signing-key-file", k.data.path(tokenKeyFile),
			"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
			"--service-cluster-ip-range", serviceNetwork,
			"--kubelet-client-certificate", k.certificate("kubelet-client"), "--kubelet-client-key", k.key("kubelet-client"),
			"--kubelet-preferred-address-types", "InternalIP",
			"--requestheader-client-ca-file", k.data.path(authorityFile), "--requestheader-allowed-names", "front-proxy-client",
			"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group", "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
			"--proxy-client-cert-file", k.certificate("front-proxy"), "--proxy-client-key-file", k.key("front-proxy"),
		},
		Ready: k.apiServerReady,
	})
	if err != nil {
		return err
	}
	_, err = k.group.Start(ctx, servers.Spec{
		Name: "kube-controller-manager", Path: k.programs.kubernetes("kube-controller-manager"), LogFile: k.log("kube-controller-manager"),
		Args: []string{
			"--kubeconfig", k.kubeconfig("kube-controller-manager"), "--secure-port", "0", "--profiling=false",
			"--leader-elect=false", "--use-service-account-credentials",
			"--service-account-private-key-file", k.data.path(tokenKeyFile), "--root-ca-file", k.data.path(authorityFile),
			"--cluster-signing-cert-file", k.certificate("ca"), "--cluster-signing-key-file", k.key("ca"),
			"--allocate-node-cidrs=false", "--service-cluster-ip-range", serviceNetwork,
		},
	})
	if err != nil {
		return err
	}
	_, err = k.group.Start(ctx, servers.Spec{
		Name: "kube-scheduler", Path: k.programs.kubernetes("kube-scheduler"), LogFile: k.log("kube-scheduler"),
		Args: []string{"--kubeconfig", k.kubeconfig("kube-scheduler"), "--secure-port", "0", "--profiling=false", "--leader-elect=false"},
	})
	return err
}

func (k *cluster) apiServerReady(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", k.data.path(adminKubeconfig))
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return servers.AnswersTo(client, config.Host+"/readyz")(ctx)
}
