package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vmware/govmomi/session/cache"
	"github.com/vmware/govmomi/vim25"

	"drover.dev/sandbox/node"
	"drover.dev/sandbox/program"
	"drover.dev/sandbox/vcenter"
)

// supervise runs every part of one sandbox until it is told to stop, its owner ends or a part does.
func supervise(args []string) error {
	// Parts die with the thread that starts them: this goroutine starts them all, and keeps its thread.
	runtime.LockOSThread()
	syscall.CloseOnExec(reportFD)
	syscall.CloseOnExec(lockFD)
	report := os.NewFile(reportFD, "report")
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := os.WriteFile(filepath.Join(o.dir, "supervisor.pid"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	s := &supervisor{options: o, began: time.Now(), report: report}
	defer s.end()

	// Until all is ready, 'sandbox up' is an owner too: interrupted, it leaves nothing behind.
	starting, started := context.WithCancel(ctx)
	defer started()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with 'sandbox up'
		if starting.Err() == nil {
			stop()
		}
	}()
	if o.owner != 0 {
		go watchOwner(ctx, o.owner, stop)
	}
	if err := s.start(ctx); err != nil {
		kind := "failed"
		if errors.As(err, new(badInput)) {
			kind = "bad"
		}
		fmt.Fprintln(report, kind, strconv.Quote(err.Error()))
		return err
	}
	started()
	fmt.Fprintln(report, "ready")
	report.Close()
	return s.wait(ctx)
}

type supervisor struct {
	options
	began  time.Time
	report *os.File
	parts  []*part
}

func (s *supervisor) start(ctx context.Context) error {
	ca, err := newAuthority(filepath.Join(s.dir, "pki"), "ca")
	if err != nil {
		return err
	}
	plane := &controlPlane{dir: s.dir, ca: ca}
	var worker *worker
	if s.node {
		if worker, err = s.startNode(ctx, plane); err != nil {
			return err
		}
	}
	// vCenters fill their inventory while the control plane comes up.
	var vcenters []func() (vcenter.Address, error)
	for n := range s.vcenters {
		address, err := s.startVCenter(ctx, plane, n+1)
		if err != nil {
			return err
		}
		vcenters = append(vcenters, address)
	}
	env := environment(s.dir)
	if s.kubernetes {
		if err := s.startKubernetes(ctx, plane, worker, &env); err != nil {
			return err
		}
	}
	for n, wait := range vcenters {
		address, err := wait()
		if err != nil {
			return err
		}
		env.addVCenter(n+1, address, ca.pair().cert)
		if err := saveSession(ctx, s.dir, address); err != nil {
			return err
		}
	}
	s.ready("vcsim")
	return env.write(s.dir)
}

func (s *supervisor) startKubernetes(ctx context.Context, plane *controlPlane, worker *worker, env *exports) error {
	if err := plane.start(ctx, s.add, s.ready); err != nil {
		return err
	}
	if worker != nil {
		if err := worker.join(s); err != nil {
			return err
		}
	}
	if err := plane.manage(ctx, s.add, s.ready); err != nil {
		return err
	}
	env.set("KUBECONFIG", plane.kubeconfig)
	if worker == nil {
		return nil
	}
	env.set("NODE_NAME", worker.place.Name())
	if err := worker.admitPushes(s.dir, env); err != nil {
		return err
	}
	return worker.wait(ctx, s)
}

// startVCenter returns a function that waits for the vCenter's address.
func (s *supervisor) startVCenter(ctx context.Context, plane *controlPlane, n int) (func() (vcenter.Address, error), error) {
	name := "vcsim"
	if n > 1 {
		name += strconv.Itoa(n)
	}
	// Where pods can reach it, if there are any.
	ip := plane.address()
	serving, err := plane.ca.server(name, ip)
	if err != nil {
		return nil, err
	}
	args := append(s.inventory.Args(), "--ip="+ip, "--cert="+serving.cert, "--key="+serving.key)
	p, out, err := startReporting(s.dir, name, "vcsim", args...)
	if err != nil {
		return nil, err
	}
	s.add(p)
	return func() (vcenter.Address, error) {
		var address vcenter.Address
		err := p.waitReady(ctx, func(context.Context) error { return json.NewDecoder(out).Decode(&address) })
		return address, err
	}, nil
}

func (s *supervisor) add(p *part) { s.parts = append(s.parts, p) }

func (s *supervisor) ready(what string) {
	fmt.Fprintf(s.report, "part %s after %.1f s\n", what, time.Since(s.began).Seconds())
}

// wait returns when the sandbox is told to stop, or a part has ended by itself that isn't to be started again.
func (s *supervisor) wait(ctx context.Context) error {
	ended := make(chan *part)
	watch := func(p *part) {
		<-p.ended
		select {
		case ended <- p:
		case <-ctx.Done():
		}
	}
	for _, p := range s.parts {
		go watch(p)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-ended:
			if !slices.Contains(s.restart, p.name) {
				log.Printf("%s ended by itself (%s); stopping the rest\n%s", p.name, p.cmd.ProcessState, tail(p.log, 15))
				return nil
			}
			log.Printf("%s ended (%s), and is started again", p.name, p.cmd.ProcessState)
			if err := p.startAgain(); err != nil {
				return err
			}
			go watch(p)
		}
	}
}

// end stops the parts at once: nothing in a sandbox is worth a slow goodbye.
func (s *supervisor) end() {
	for _, p := range s.parts {
		p.kill()
	}
	if s.node {
		// The keeper leaves nothing behind, unless it was killed itself.
		if err := node.Sweep(); err != nil {
			log.Print(err)
		}
	}
	if err := clear(s.dir); err != nil {
		log.Print(err)
	}
}

// exports are the lines of DIR/env.
type exports []string

func environment(dir string) exports {
	var e exports
	// Caches and saved sessions stay inside the sandbox.
	e.set("KUBECACHEDIR", filepath.Join(dir, "kube-cache"))
	e.set("GOVMOMI_HOME", govmomiHome(dir))
	e = append(e, "export PATH="+shellQuote(filepath.Join(dir, "bin"))+`:"$PATH"`)
	return e
}

// govmomiHome is where govc keeps its sessions.
func govmomiHome(dir string) string { return filepath.Join(dir, "govmomi") }

// saveSession logs in for all govcs to come. Each that finds no session saves its own, and one that reads the file in that moment
// ends with "EOF".
func saveSession(ctx context.Context, dir string, address vcenter.Address) error {
	u, err := url.Parse(address.URL())
	if err != nil {
		return err
	}
	s := cache.Session{URL: u, Insecure: true, DirSOAP: filepath.Join(govmomiHome(dir), "sessions")}
	if err := s.Login(ctx, new(vim25.Client), nil); err != nil {
		return fmt.Errorf("govc's session with %s: %w", address.Host, err)
	}
	return nil
}

func (e *exports) set(name, value string) { *e = append(*e, "export "+name+"="+shellQuote(value)) }

func (e *exports) addVCenter(n int, address vcenter.Address, caFile string) {
	prefix := "VC"
	if n > 1 {
		prefix += strconv.Itoa(n)
	}
	e.set(prefix+"_HOST", address.Host)
	e.set(prefix+"_USER", address.User)
	e.set(prefix+"_PASS", address.Password)
	e.set(prefix+"_CA_FILE", caFile)
	if n > 1 {
		e.set(prefix+"_GOVC_URL", address.URL())
		e.set(prefix+"_CONTROL", address.Control)
		return
	}
	e.set("GOVC_URL", address.URL())
	e.set("GOVC_INSECURE", "true")
	e.set("VCSIM_CONTROL", address.Control)
}

// write puts the environment where callers find it, whole or not at all, and the programs beside it.
func (e exports) write(dir string) error {
	for _, name := range []string{"kubectl", "kustomize", "govc"} {
		if err := os.Symlink(program.Path(name), filepath.Join(dir, "bin", name)); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, "env")
	if err := os.WriteFile(path+".new", []byte(strings.Join(e, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
