package node

import (
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// join starts what needs the cluster, once it is there.
func (n *first) join(self string, c config) {
	err := await(joinWord)
	if err == nil {
		err = serveNames(netip.AddrPortFrom(n.place.Node(), 53), c.PKI+"/kube-proxy.kubeconfig")
	}
	if err == nil {
		err = n.start("kubelet", self, "kubelet", "--config="+c.Etc+"/kubelet.yaml", "--kubeconfig="+c.PKI+"/kubelet.kubeconfig",
			"--hostname-override="+n.place.Name(), "--node-ip="+n.place.Node().String())
	}
	if err == nil {
		err = n.start("kube-proxy", self, "kube-proxy", "--config="+c.Etc+"/kube-proxy.yaml")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// processes are those without which the node is none.
type processes struct {
	mutex sync.Mutex
	names map[int]string
}

// start runs a program with its output in DIR/log.
func (n *first) start(name, program string, args ...string) error {
	output, err := os.Create(filepath.Join(n.dir, "log", name+".log"))
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = output, output
	// Held until the name is noted: the process may end at once.
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	n.names[cmd.Process.Pid] = name
	return nil
}

// reap waits for whatever ends, as the first process of a system has to, until one ends that the node needs.
func (n *first) reap() error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for processes: %w", err)
		}
		n.mutex.Lock()
		name, needed := n.names[pid]
		n.mutex.Unlock()
		if needed {
			return fmt.Errorf("%s ended by itself (%s); its log is %s", name, ending(status), filepath.Join(n.dir, "log", name+".log"))
		}
	}
}

func ending(status unix.WaitStatus) string {
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
