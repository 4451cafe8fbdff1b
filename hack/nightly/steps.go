package main

import "time"

// step is a target of the Makefile.
type step struct {
	target string
	// usual is how long it takes on two cores. What it took here when it passed last is printed instead, once it has.
	usual time.Duration
	// machine is a target that fails if this machine cannot run the step. It runs before all steps, so nobody learns of
	// it hours later.
	machine string
}

const clusterCheck = "cluster-check"

// steps are all steps, in the order in which they run.
var steps = []step{
	{target: "test", usual: 13 * time.Minute},
	{target: "test-race", usual: 25 * time.Minute},
	{target: "test-images", usual: 4 * time.Minute},
	{target: "test-arm64", usual: 10 * time.Minute},
	{target: "reproduce", usual: 4 * time.Minute},
	{target: "e2e", usual: 6 * time.Minute, machine: clusterCheck},
	{target: "zero-loss", usual: 20 * time.Minute, machine: clusterCheck},
	{target: "crash", usual: 22 * time.Minute},
	{target: "test-operator", usual: 30 * time.Minute},
	{target: "test-bodies", usual: 7 * time.Minute},
	{target: "test-requests", usual: time.Minute},
	{target: "test-cdn", usual: 40 * time.Minute},
	{target: "test-erasure", usual: 4 * time.Minute},
	{target: "test-migrations", usual: 6 * time.Minute},
	{target: "test-stores", usual: 3 * time.Minute},
	{target: "test-pages", usual: 3 * time.Minute},
	{target: "fuzz", usual: 30 * time.Minute},
}

// selections are variables of make that make a step less than it is. What passes with one is not recorded.
var selections = []string{"ARGS", "FUZZ", "FUZZTIME", "RERUNS", "STORES", "STORE_PACKAGES", "TEST_PACKAGES"}
