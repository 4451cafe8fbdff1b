package servers

import (
	"slices"
	"time"
)

// OperatorBinary is the name of the product's operator.
const OperatorBinary = "mediastack-operator"

// OperatorConfig configures the product's operator.
type OperatorConfig struct {
	// Name is what messages call it.
	Name string
	// Binary is the path of the program.
	Binary  string
	LogFile string
	// Kubeconfig is the path of what it reaches the cluster with.
	Kubeconfig string
	// LeaderElection is the namespace of its lease; without one it leads alone.
	LeaderElection string
	// Health and Metrics are the addresses of its listeners; it has none without an address. Without Health it counts
	// as ready once it runs.
	Health, Metrics string
	// Env are its settings: see StoreSettings.
	Env []string
}

// OperatorSpec returns how the operator is started.
func OperatorSpec(config OperatorConfig) Spec {
	listen := func(address string) string {
		if address == "" {
			return "0"
		}
		return address
	}
	spec := Spec{Name: config.Name, Path: config.Binary, LogFile: config.LogFile, Env: config.Env, Grace: 30 * time.Second,
		Args: []string{"--kubeconfig", config.Kubeconfig, "--health-listen", listen(config.Health), "--metrics-listen", listen(config.Metrics)}}
	if config.LeaderElection != "" {
		spec.Args = slices.Concat(spec.Args, []string{"--leader-elect", "--leader-election-namespace", config.LeaderElection})
	}
	if config.Health != "" {
		spec.Ready = Answers("http://" + config.Health + "/readyz")
	}
	return spec
}
