package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// makeLink joins the machine and the network namespace of a process. What is sent to the place's addresses goes through
// the link or nowhere: the route to nowhere is the first thing made and the last removed.
func (p Place) makeLink(pid int) error {
	if err := netlink.RouteReplace(p.nowhere()); err != nil {
		return fmt.Errorf("route of %s: %w", p.Range(), err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = p.Name()
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: nodeLink, PeerNamespace: netlink.NsPid(pid)}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("link %s: %w", p.Name(), err)
	}
	return setUp(p.Name(), netip.PrefixFrom(p.Machine(), p.Link().Bits()), p.Node(), p.Pods(), p.Services())
}

// nodeLink is what the link is called on the node.
const nodeLink = "eth0"

// joinLink sets up the node's end. The node has no route to anywhere else: nothing in it reaches beyond the machine.
func (p Place) joinLink() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	// The node's own programs are routed before kube-proxy's rules turn a service's address into a pod's.
	if err := setUp(nodeLink, netip.PrefixFrom(p.Node(), p.Link().Bits()), p.Machine(), p.Services()); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

func setUp(name string, address netip.Prefix, gateway netip.Addr, ranges ...netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
		return fmt.Errorf("address %s of %s: %w", address, name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	for _, reached := range ranges {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(reached), Gw: gateway.AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("route of %s: %w", reached, err)
		}
	}
	return nil
}

// linked tells whether the machine has the link, or the route that outlives it.
func (p Place) linked() bool {
	if _, err := netlink.LinkByName(p.Name()); err == nil {
		return true
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, p.nowhere(), netlink.RT_FILTER_DST|netlink.RT_FILTER_TYPE)
	return err == nil && len(routes) > 0
}

// removeLink removes the link, with all routes through it, and then the route to nowhere.
func (p Place) removeLink() error {
	var errs []error
	link, err := netlink.LinkByName(p.Name())
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.As(err, new(netlink.LinkNotFoundError)) {
		errs = append(errs, fmt.Errorf("link %s: %w", p.Name(), err))
	}
	if err := netlink.RouteDel(p.nowhere()); err != nil && !errors.Is(err, unix.ESRCH) {
		errs = append(errs, fmt.Errorf("route of %s: %w", p.Range(), err))
	}
	return errors.Join(errs...)
}

func (p Place) nowhere() *netlink.Route {
	return &netlink.Route{Type: unix.RTN_BLACKHOLE, Dst: ipNet(p.Range())}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
