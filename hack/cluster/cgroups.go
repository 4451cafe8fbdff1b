package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroupHierarchies returns the root directories of the cgroup hierarchies: one with cgroup v2, one for
// each controller with v1.
func cgroupHierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	found, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, file := range found {
		roots = append(roots, filepath.Dir(file))
	}
	for _, controller := range []string{"cpu", "cpuset", "devices", "freezer", "memory", "pids"} {
		if !slices.Contains(roots, filepath.Join(cgroupRoot, controller)) {
			return nil, fmt.Errorf("no cgroup hierarchy has the controller %s: %s has neither cgroup v2 nor all of v1", controller, cgroupRoot)
		}
	}
	return roots, nil
}

// makeCgroups makes the cgroups that take the pods of a node.
func makeCgroups(name string) error {
	roots, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		switch {
		case root == cgroupRoot: // v2: a controller reaches the children of a cgroup that hands it on
			for _, dir := range []string{root, filepath.Join(root, name)} {
				if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpu +cpuset +io +memory +pids"), 0); err != nil {
					return fmt.Errorf("hand the cgroup controllers on: %w", err)
				}
			}
		case filepath.Base(root) == "cpuset": // v1: a new cpuset is empty and takes no process
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				content, err := os.ReadFile(filepath.Join(root, file))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(root, name, file), content, 0); err != nil {
					return fmt.Errorf("fill a cpuset: %w", err)
				}
			}
		}
	}
	return nil
}

// removeCgroups removes cgroups, which have no processes any more, and those below them.
func removeCgroups(pattern string) error {
	if !strings.HasPrefix(pattern, "mediastack-cluster-") {
		return fmt.Errorf("%q is no cgroup of a cluster", pattern)
	}
	var dirs []string
	for _, parent := range []string{cgroupRoot, filepath.Join(cgroupRoot, "*")} {
		tops, err := filepath.Glob(filepath.Join(parent, pattern))
		if err != nil {
			return err
		}
		for _, top := range tops {
			err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					dirs = append(dirs, path)
				}
				return err
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for _, dir := range slices.Backward(dirs) { // children first
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove the cgroup %s: %w", dir, err)
		}
	}
	return nil
}
