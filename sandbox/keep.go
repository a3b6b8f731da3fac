package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

const keepUsage = `Runs a command that ends with its owner, and with this process, however these end.

`

// keep runs a command for as long as its owner lives: a script that is killed can't end what it has started.
func keep(args []string) error {
	f := flag.NewFlagSet("keep", flag.ContinueOnError)
	owner := f.Int("owner", 0, "`PID` of a process; when it ends, so does the command")
	log := f.String("log", "", "the `file` that what the command prints is added to")
	words := args
	for i, word := range args {
		if word == "--" {
			args, words = args[:i], args[i+1:]
			break
		}
	}
	if err := parseFlags(f, args, keepUsage); err != nil {
		return err
	}
	if len(words) == 0 || *owner == 0 || *log == "" {
		return badInput{errors.New("use: sandbox keep --owner PID --log FILE -- COMMAND …")}
	}
	// What a killed command has said stays: the next one is told apart by where it begins.
	out, err := os.OpenFile(*log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return badInput{err}
	}
	// The command dies with the thread that starts it.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go watchOwner(ctx, *owner, stop)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, dieWithParent()
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	return nil
}
