package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drover.dev/sandbox/node"
)

// The supervisor reports on this descriptor and holds the folder's lock on the next.
const (
	reportFD = 3
	lockFD   = 4
)

// up starts the supervisor, shows its progress, and returns once everything is ready.
func up(args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	lock, err := claim(o.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	reports, report, err := os.Pipe()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(o.dir, "log", "supervisor.log"))
	if err != nil {
		return err
	}
	defer log.Close()

	// The supervisor reads it, to its end if this process ends.
	life, end, err := os.Pipe()
	if err != nil {
		return err
	}
	defer end.Close()

	cmd := command("supervise", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = life, log, log
	cmd.ExtraFiles = []*os.File{report, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C at the terminal is for the caller
	if err := cmd.Start(); err != nil {
		return err
	}
	report.Close()
	life.Close()
	return follow(reports, o.dir)
}

// follow prints the supervisor's progress until it says that all is ready, or why it isn't.
func follow(reports io.Reader, dir string) error {
	in := bufio.NewScanner(reports)
	for in.Scan() {
		kind, text, _ := strings.Cut(in.Text(), " ")
		switch kind {
		case "part":
			fmt.Fprintln(os.Stderr, "sandbox:", text)
		case "ready":
			fmt.Fprintf(os.Stderr, "sandbox: ready: . %s\n", shellQuote(filepath.Join(dir, "env")))
			return nil
		case "bad", "failed":
			message, err := strconv.Unquote(text)
			if err != nil {
				message = text
			}
			if kind == "bad" {
				return badInput{errors.New(message)}
			}
			return errors.New(message)
		}
	}
	return fmt.Errorf("the supervisor ended without a word; its log:\n%s", tail(filepath.Join(dir, "log", "supervisor.log"), 15))
}

// claim makes the folder this sandbox's own: locked for as long as the file, or a copy of its descriptor, is open.
func claim(dir string) (*os.File, error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		if _, err := os.Stat(lockPath(dir)); err != nil {
			return nil, badInput{fmt.Errorf("%s holds files that are no sandbox's: name an empty or new folder", dir)}
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, badInput{err}
	}
	lock, err := os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, badInput{err}
	}
	if err := tryLock(lock); err != nil {
		lock.Close()
		return nil, badInput{fmt.Errorf("a sandbox runs in %s already; to stop it: sandbox down --dir %s", dir, shellQuote(dir))}
	}
	if err := clear(dir); err != nil {
		return nil, err
	}
	return lock, errors.Join(os.MkdirAll(filepath.Join(dir, "log"), 0o700), os.Mkdir(filepath.Join(dir, "tmp"), 0o700),
		os.Mkdir(filepath.Join(dir, "pki"), 0o700), os.Mkdir(filepath.Join(dir, "bin"), 0o700))
}

// clear removes what a sandbox made, but for its logs and the lock.
func clear(dir string) error {
	var errs []error
	for _, name := range []string{"env", "env.new", "kubeconfig", "pki", "bin", "etcd", "tmp", "kube-cache", "govmomi", "node", "registries.conf", "supervisor.pid"} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// down stops the supervisor, which stops its parts. Stopping what doesn't run is no error.
func down(args []string) error {
	dir, err := parseDir("down", args)
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(lockPath(dir), os.O_RDWR, 0)
	if err != nil {
		return badInput{fmt.Errorf("%s is no sandbox's folder: %w", dir, err)}
	}
	defer lock.Close()
	if err := stop(dir, lock); err != nil {
		return err
	}
	return errors.Join(node.Sweep(), clear(dir))
}

// stop returns once nobody holds the folder's lock any more.
func stop(dir string, lock *os.File) error {
	for signal, patience := range []time.Duration{15 * time.Second, 5 * time.Second} {
		if tryLock(lock) == nil {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, "supervisor.pid"))
		if err != nil {
			return fmt.Errorf("the sandbox is only just starting: try again (%w)", err)
		}
		pid, err := strconv.Atoi(string(text))
		if err != nil {
			return err
		}
		_ = syscall.Kill(pid, []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[signal])
		for end := time.Now().Add(patience); time.Now().Before(end) && tryLock(lock) != nil; {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if err := tryLock(lock); err != nil {
		return fmt.Errorf("the supervisor of %s does not end: %w", dir, err)
	}
	return nil
}

func lockPath(dir string) string { return filepath.Join(dir, "sandbox.lock") }

func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
