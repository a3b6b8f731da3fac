package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// alive tells whether a process runs. One that has ended but was not yet waited for is dead.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil && err != syscall.EPERM {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // no /proc on this system
	}
	// The state follows the command's name, which stands in brackets and may itself hold any character.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return len(state) == 0 || state[0] != 'Z'
}

// watchOwner calls gone once pid has ended, unless ctx ends first.
func watchOwner(ctx context.Context, pid int, gone func()) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for alive(pid) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	gone()
}
