package node

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// unified tells whether the machine has the one hierarchy of cgroup v2, rather than one for each controller.
func unified() bool {
	var fs unix.Statfs_t
	return unix.Statfs(cgroupRoot, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// makeCgroups makes the node's cgroup in each hierarchy and puts a process into them.
func (p Place) makeCgroups(pid int) error {
	parents, err := parentCgroups()
	if err != nil {
		return err
	}
	for _, parent := range parents {
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

// cgroups are those of the node that exist.
func (p Place) cgroups() []string {
	parents, _ := parentCgroups()
	groups := make([]string, 0, len(parents))
	for _, parent := range parents {
		groups = append(groups, filepath.Join(parent, p.Name()))
	}
	return slices.DeleteFunc(groups, func(group string) bool {
		_, err := os.Stat(group)
		return err != nil
	})
}

// removeCgroups removes the node's cgroups with all below. One is busy for a moment after its last process has ended.
func (p Place) removeCgroups() error {
	var errs []error
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		errs = nil
		for _, group := range p.cgroups() {
			errs = append(errs, removeTree(group))
		}
		if errors.Join(errs...) == nil || time.Now().After(end) {
			return errors.Join(errs...)
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

// parentCgroups are the cgroups below which nodes have theirs. With v1, that is where this process is, in each
// hierarchy. With v2 it is the root, because any other cgroup that has processes can't have children with controllers.
func parentCgroups() ([]string, error) {
	if unified() {
		return []string{cgroupRoot}, nil
	}
	hierarchies, err := ownHierarchies()
	if err != nil {
		return nil, err
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer mounts.Close()
	var parents []string
	for in := bufio.NewScanner(mounts); in.Scan(); {
		// 30 23 0:26 /root /mount/point rw … - cgroup source rw,cpu,cpuacct
		place, kind, _ := strings.Cut(in.Text(), " - ")
		from, what := strings.Fields(place), strings.Fields(kind)
		if len(from) < 5 || len(what) < 3 || what[0] != "cgroup" {
			continue
		}
		i := slices.IndexFunc(hierarchies, func(h hierarchy) bool { return h.mounted(what[2]) })
		if i < 0 {
			continue
		}
		below, err := filepath.Rel(from[3], hierarchies[i].path)
		if err != nil || strings.HasPrefix(below, "..") {
			below = "."
		}
		parents = append(parents, filepath.Join(from[4], below))
		hierarchies = slices.Delete(hierarchies, i, i+1)
	}
	return parents, nil
}

// hierarchy is one of cgroup v1, and where in it this process is.
type hierarchy struct{ controllers, path string }

func (h hierarchy) mounted(options string) bool {
	have := strings.Split(options, ",")
	for controller := range strings.SplitSeq(h.controllers, ",") {
		if !slices.Contains(have, controller) {
			return false
		}
	}
	return true
}

func ownHierarchies() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var own []hierarchy
	for line := range strings.Lines(string(text)) {
		// 4:memory:/path; controllers are missing for v2, which has none where v1 is in use.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && fields[1] != "" {
			own = append(own, hierarchy{fields[1], fields[2]})
		}
	}
	return own, nil
}
