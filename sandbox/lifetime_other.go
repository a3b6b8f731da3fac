//go:build !linux

package main

import "syscall"

// dieWithParent can't be asked of this kernel: parts outlive a supervisor that is ended with SIGKILL.
func dieWithParent() *syscall.SysProcAttr { return nil }
