package node

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// What a keeper and the node's first process tell each other.
const (
	enterWord = "enter" // to the node: it has its link, and is in its cgroups
	upWord    = "up"    // to the keeper: the node is set up, and waits for its cluster
	joinWord  = "join"  // to the node: the cluster is there, and DIR/pki has what it takes to join it
)

// LockFD is where a keeper has the lock of the sandbox's folder, which is locked until the keeper ends.
const LockFD = 3

// Keep is the keeper's program: it makes a node, prints its place as JSON, and keeps it until its input ends, as it does
// when the supervisor has ended, however that has. Then it takes away all that the node has made.
func Keep(args []string) int {
	// The node's first process dies with the thread that starts it.
	runtime.LockOSThread()
	syscall.CloseOnExec(LockFD)
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	k := &keeper{}
	f := flag.NewFlagSet("node-keeper", flag.ExitOnError)
	f.StringVar(&k.dir, "dir", "", "the sandbox's `folder`")
	f.Func("image", "an image to serve, as `NAME=FOLDER`", func(image string) error {
		k.images = append(k.images, "--image="+image)
		return nil
	})
	_ = f.Parse(args) // ExitOnError
	err := k.keep()
	if err = errors.Join(err, k.clear()); err != nil {
		log.Print(err)
		return 1
	}
	return 0
}

type keeper struct {
	dir    string
	images []string
	place  *Place
	lock   io.Closer
	first  *exec.Cmd
	ended  chan struct{}
}

func (k *keeper) keep() error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	orders := make(chan string)
	go readOrders(os.Stdin, orders)

	if err := Sweep(); err != nil {
		log.Print(err)
	}
	place, lock, err := claim()
	if err != nil {
		return err
	}
	k.place, k.lock = &place, lock
	node, err := k.start(place)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(place); err != nil {
		return err
	}
	for {
		select {
		case order, more := <-orders:
			if !more {
				return nil
			}
			if _, err := fmt.Fprintln(node, order); err != nil {
				return err
			}
		case <-stop:
			return nil
		case <-k.ended:
			return fmt.Errorf("the node ended by itself: %s", k.first.ProcessState)
		}
	}
}

func readOrders(in io.Reader, orders chan<- string) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		orders <- lines.Text()
	}
	close(orders)
}

// start runs the node's first process in new namespaces.
func (k *keeper) start(place Place) (io.Writer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"node-init", "--dir=" + k.dir, "--place=" + strconv.Itoa(place.Number)}, k.images...)
	cmd := exec.Command(self, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	node, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer told.Close()
	cmd.Stdout, cmd.Stderr = tell, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("namespaces for a node: %w", err)
	}
	tell.Close()
	k.first, k.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(k.ended)
	}()
	if err := place.makeLink(cmd.Process.Pid); err != nil {
		return nil, err
	}
	if err := place.makeCgroups(cmd.Process.Pid); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(node, enterWord); err != nil {
		return nil, err
	}
	// What keeps a node from coming up is told as that, rather than by those who miss the link later.
	if said, err := bufio.NewReader(told).ReadString('\n'); err != nil || said != upWord+"\n" {
		return nil, errors.New("the node did not come up")
	}
	return node, nil
}

// clear ends the node, and removes what doesn't end with its namespaces.
func (k *keeper) clear() error {
	if k.first != nil {
		_ = k.first.Process.Kill()
		<-k.ended // all others in its pid namespace have ended before it
	}
	if k.place == nil {
		return nil
	}
	err := errors.Join(k.place.clear(), os.RemoveAll(filepath.Join(k.dir, "node")))
	return errors.Join(err, k.lock.Close()) // only now the place is free for another
}
