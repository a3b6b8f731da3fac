package main

import "syscall"

// dieWithParent has the kernel end a part when the supervisor ends, however that ends. It is bound to the thread that
// starts the part, which therefore has to live as long as the supervisor does.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
