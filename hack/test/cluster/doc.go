// Package cluster goes through the product as the admin and the tenants of a real Kubernetes cluster do:
// images in pods of two nodes, the Helm chart, Services, CronJobs and the network between them. make e2e
// starts the cluster and runs the tests, which have the build tag cluster, in its network.
package cluster
