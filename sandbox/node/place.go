// Package node is one real Kubernetes node in namespaces of its own, and the registry that it pulls images from.
//
// A keeper process (keeper_linux.go) claims a place on the machine, makes what the node has there, and starts the
// node's first process (init_linux.go), which runs containerd, the kubelet and kube-proxy. Namespaces end with that
// process, that process ends with the keeper, and the keeper ends with its supervisor and takes the rest away.
package node

import (
	"net/netip"
	"strconv"
)

// Places is how many nodes a machine has room for.
const Places = 64

// registryPort is that of the registry which the node pulls images from.
const registryPort = 5000

// A link's name has 15 characters at most.
const namePrefix = "drover-node-"

// Place is what one node has for itself on the machine: a name and a range of addresses. The link, the cgroups and the
// node all have that name. All addresses lie in 198.18.0.0/15, which no network uses.
type Place struct {
	Number int `json:"number"`
}

// Name is that of the node, and of all that the machine has of it.
func (p Place) Name() string { return namePrefix + strconv.Itoa(p.Number) }

// Range holds all addresses of the place.
func (p Place) Range() netip.Prefix { return p.part(0, 22) }

// Pods is the range of the pods' addresses.
func (p Place) Pods() netip.Prefix { return p.part(0, 24) }

// Services is the range of the services' cluster addresses.
func (p Place) Services() netip.Prefix { return p.part(2, 23) }

// Link is the network of the machine and the node.
func (p Place) Link() netip.Prefix { return p.part(1, 30) }

// Machine is the machine's address on the link. The API server listens there.
func (p Place) Machine() netip.Addr { return p.Link().Addr().Next() }

// Node is the node's address on the link.
func (p Place) Node() netip.Addr { return p.Machine().Next() }

// Registry is where the machine pushes images to.
func (p Place) Registry() netip.AddrPort { return netip.AddrPortFrom(p.Node(), registryPort) }

// APIServer is the cluster address of the service kubernetes.default: the first of the range.
func (p Place) APIServer() netip.Addr { return p.Services().Addr().Next() }

func (p Place) part(third, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, byte(4*p.Number + third), 0}), bits)
}
