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
	"time"

	"golang.org/x/sys/unix"
)

// join starts what needs the cluster, once it is there.
func (n *first) join(self string, c config) {
	err := await(joinWord)
	if err == nil {
		err = n.serveNames(netip.AddrPortFrom(n.place.Node(), 53), c.PKI+"/kube-proxy.kubeconfig")
	}
	if err == nil {
		err = n.start(&process{name: "kubelet", program: self, lives: lives, args: []string{"kubelet",
			"--config=" + c.Etc + "/kubelet.yaml", "--kubeconfig=" + c.PKI + "/kubelet.kubeconfig",
			"--hostname-override=" + n.place.Name(), "--node-ip=" + n.place.Node().String()}})
	}
	if err == nil {
		err = n.start(&process{name: "kube-proxy", program: self, lives: lives, args: []string{"kube-proxy",
			"--config=" + c.Etc + "/kube-proxy.yaml"}})
	}
	if err != nil {
		log.Fatal(err)
	}
}

// How often a program that gives up on a slow API server is started, and how long after its end.
const (
	lives      = 5
	afterDeath = time.Second
)

// process is one without which the node is none.
type process struct {
	name, program string
	args          []string
	lives         int // how often it may be started, from now on
}

// processes are those that run, by their numbers.
type processes struct {
	mutex sync.Mutex
	byPID map[int]*process
}

// start runs a program with its output in DIR/log.
func (n *first) start(p *process) error {
	output, err := os.OpenFile(filepath.Join(n.dir, "log", p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(p.program, p.args...)
	cmd.Stdout, cmd.Stderr = output, output
	// Held until the process is noted: it may end at once.
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.lives--
	n.byPID[cmd.Process.Pid] = p
	return nil
}

// reap waits for whatever ends, as the first process of a system has to, and starts again what the node needs, until that
// has ended too often.
func (n *first) reap() error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for processes: %w", err)
		}
		n.mutex.Lock()
		p, needed := n.byPID[pid]
		delete(n.byPID, pid)
		n.mutex.Unlock()
		if !needed {
			continue
		}
		said := fmt.Sprintf("%s ended by itself (%s); its log is %s", p.name, ending(status), filepath.Join(n.dir, "log", p.name+".log"))
		if p.lives == 0 {
			return errors.New(said)
		}
		log.Print(said)
		time.AfterFunc(afterDeath, func() {
			if err := n.start(p); err != nil {
				log.Fatal(err)
			}
		})
	}
}

func ending(status unix.WaitStatus) string {
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
