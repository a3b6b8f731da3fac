//go:build !linux

package node

import "errors"

// Check says in one line why there can't be a node here.
func Check() error { return errors.New("a node needs Linux") }

// Sweep has nothing to look for where there are no nodes.
func Sweep() error { return nil }
