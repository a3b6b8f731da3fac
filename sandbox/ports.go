package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// reserved holds the ports of this process against other sandboxes, until it ends.
var reserved []*os.File

// freePort picks a port below those that the kernel hands out by itself, so that no outgoing connection takes it before
// the part that it is for does. A lock keeps other sandboxes, which may start at the same moment, from picking it too.
func freePort() (int, error) {
	locks := filepath.Join(os.TempDir(), "drover-sandbox-ports")
	if err := os.MkdirAll(locks, 0o777); err != nil {
		return 0, err
	}
	for range 100 {
		port := 20000 + rand.IntN(12000)
		lock, err := os.OpenFile(filepath.Join(locks, strconv.Itoa(port)), os.O_CREATE|os.O_RDONLY, 0o666)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil || syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = lock.Close()
			if l != nil {
				_ = l.Close()
			}
			continue
		}
		reserved = append(reserved, lock)
		return port, l.Close()
	}
	return 0, errors.New("no free port between 20000 and 32000 on loopback")
}
