package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// makeCgroups makes the node's cgroup in each hierarchy and puts a process into them.
func (p Place) makeCgroups(pid int) error {
	hierarchies, err := mountedHierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		parent := h.own()
		group := filepath.Join(parent, p.Name())
		if err := os.Mkdir(group, 0o755); err != nil {
			return err
		}
		if unified() {
			enableControllers(parent)
		}
		// Without processors and memory of its own, a cgroup of this controller takes no process.
		for _, own := range []string{"cpuset.cpus", "cpuset.mems"} {
			if value, err := os.ReadFile(filepath.Join(parent, own)); err == nil && !unified() {
				if err := os.WriteFile(filepath.Join(group, own), value, 0); err != nil {
					return err
				}
			}
		}
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return err
		}
	}
	return nil
}

// enableControllers gives the children of a v2 cgroup all controllers that it can; a kubelet that misses one says so.
func enableControllers(group string) {
	controllers, _ := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	for controller := range strings.FieldsSeq(string(controllers)) {
		_ = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0)
	}
}

// nodeCgroups finds the cgroups of all nodes, by name. A node that was left behind may have them below a cgroup where
// this process isn't.
func nodeCgroups() map[string][]string {
	found := map[string][]string{}
	hierarchies, _ := mountedHierarchies()
	for _, h := range hierarchies {
		_ = filepath.WalkDir(h.mount, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return nil // another process may remove its own meanwhile
			}
			if strings.HasPrefix(entry.Name(), namePrefix) {
				found[entry.Name()] = append(found[entry.Name()], path)
				return fs.SkipDir
			}
			return nil
		})
	}
	return found
}

// removeCgroups removes the node's cgroups with all below. One is busy for a moment after its last process has ended.
func (p Place) removeCgroups() error {
	groups := nodeCgroups()[p.Name()]
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var errs []error
		for _, group := range groups {
			errs = append(errs, removeTree(group))
		}
		if err := errors.Join(errs...); err == nil || time.Now().After(end) {
			return err
		}
	}
}

func removeTree(group string) error {
	entries, err := os.ReadDir(group)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(group, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(group); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cgroup %s: %w", group, err)
	}
	return nil
}
