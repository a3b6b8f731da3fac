package node

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// claim takes the first free place, for as long as the returned lock is open, and removes what is left there of a node
// whose keeper could not.
func claim() (Place, net.Listener, error) {
	for number := range Places {
		place := Place{number}
		lock, err := place.lock()
		if err != nil {
			continue
		}
		if err := place.clear(); err != nil {
			lock.Close()
			continue
		}
		return place, lock, nil
	}
	return Place{}, nil, fmt.Errorf("all %d places for nodes on this machine are taken", Places)
}

// Sweep removes what is left of nodes whose keepers were killed.
func Sweep() error {
	if os.Geteuid() != 0 {
		return nil // none of them was this user's
	}
	var errs []error
	cgroups := nodeCgroups()
	for number := range Places {
		place := Place{number}
		if !place.linked() && len(cgroups[place.Name()]) == 0 {
			continue
		}
		lock, err := place.lock()
		if err != nil {
			continue // its keeper lives
		}
		errs = append(errs, place.clear(), lock.Close())
	}
	return errors.Join(errs...)
}

// lock holds the place against other keepers. The name of an abstract socket belongs to the network namespace, as links
// and routes do, and is free again when the process ends, however it ends.
func (p Place) lock() (net.Listener, error) { return net.Listen("unix", "@"+p.Name()) }

// clear takes everything from the place. No process of the node may be left.
func (p Place) clear() error { return errors.Join(p.removeLink(), p.removeCgroups()) }
