package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"drover.dev/sandbox/program"
)

// How long a part may take to come up. Far more than any needs: a loaded machine is no failure.
const readyDeadline = 90 * time.Second

// part is one running program of the sandbox.
type part struct {
	name  string
	log   string
	cmd   *exec.Cmd
	ended chan struct{}
	// orders, where a part has them, end it when they end; it has something to do before it goes.
	orders io.WriteCloser
}

// startPart runs a program with its output in DIR/log. Only the supervisor's own goroutine may call it: see dieWithParent.
func startPart(dir, name, program string, args ...string) (*part, error) {
	p := newPart(dir, name, program, args...)
	return p, p.start()
}

// startReporting is startPart for a program that prints what others need to know of it.
func startReporting(dir, name, program string, args ...string) (*part, io.Reader, error) {
	p := newPart(dir, name, program, args...)
	out, err := p.startReporting()
	return p, out, err
}

func newPart(dir, name, program string, args ...string) *part {
	p := &part{name: name, log: filepath.Join(dir, "log", name+".log"), cmd: command(program, args...), ended: make(chan struct{})}
	p.cmd.Dir = dir
	// Memory is cheaper here than the time to tidy it up.
	p.cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"), "GOGC=400")
	p.cmd.SysProcAttr = dieWithParent()
	return p
}

func (p *part) startReporting() (io.Reader, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := r.SetReadDeadline(time.Now().Add(readyDeadline)); err != nil {
		return nil, err
	}
	p.cmd.Stdout = w
	return r, p.start()
}

func (p *part) start() error {
	if err := os.RemoveAll(p.log); err != nil {
		return err
	}
	return p.run()
}

// startAgain runs the program of a part that has ended, and adds to its log.
func (p *part) startAgain() error {
	before := p.cmd
	p.cmd = &exec.Cmd{Path: before.Path, Args: before.Args, Dir: before.Dir, Env: before.Env, SysProcAttr: before.SysProcAttr}
	p.ended = make(chan struct{})
	return p.run()
}

func (p *part) run() error {
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stderr = log
	if p.cmd.Stdout == nil {
		p.cmd.Stdout = log
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return nil
}

// command runs a file where word is a path, else the program or own word of that name.
func command(word string, args ...string) *exec.Cmd {
	if strings.ContainsRune(word, filepath.Separator) {
		return exec.Command(word, args...)
	}
	cmd := exec.Command(program.Path(word), args...)
	if word == "kubectl" || word == "kustomize" { // which have a binary of their own, and go by its name
		cmd.Args[0] = word
	} else {
		cmd.Args = append([]string{cmd.Path, word}, args...)
	}
	return cmd
}

// waitReady polls until the part answers as it should.
func (p *part) waitReady(ctx context.Context, probe func(context.Context) error) error {
	deadline := time.Now().Add(readyDeadline)
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return p.failure(fmt.Sprintf("was not ready after %s: %v", readyDeadline, err))
		}
		select {
		case <-ctx.Done():
			return errors.New("stopped while it was starting")
		case <-p.ended:
			return p.failure(p.cmd.ProcessState.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// failure says what became of the part, with the end of its log.
func (p *part) failure(what string) error {
	return fmt.Errorf("%s did not come up: %s\nthe last lines of its log, %s:\n%s", p.name, what, p.log, tail(p.log, 15))
}

func (p *part) kill() {
	if p.orders != nil {
		_ = p.orders.Close()
	} else {
		_ = p.cmd.Process.Kill()
	}
	<-p.ended
}

func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
