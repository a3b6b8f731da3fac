package vcenter

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// guests are the machines whose guests report addresses that the front has them have. vcsim's have none.
type guests struct {
	mu       sync.Mutex
	reported map[reference]bool
}

// notePower has a guest that is powered on report its network, and one that is powered off none. The object is locked.
func (f *front) notePower(obj mo.Reference, changes []types.PropertyChange) {
	if obj.Reference().Type != "VirtualMachine" {
		return
	}
	for _, change := range changes {
		state, ok := change.Val.(types.VirtualMachinePowerState)
		if !ok || change.Name != "runtime.powerState" {
			continue
		}
		vm, ok := f.service.Context.Map.Get(obj.Reference()).(*simulator.VirtualMachine)
		if !ok {
			return
		}
		var network map[string][]netip.Prefix
		if state == types.VirtualMachinePowerStatePoweredOn {
			network = metadataOf(vm.Config.ExtraConfig)
		}
		if len(network) > 0 || f.guests.forget(vm.Self) {
			go f.reportNetwork(vm, state, network)
		}
	}
}

func (g *guests) forget(machine reference) (was bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was = g.reported[machine]
	delete(g.reported, machine)
	return was
}

func (g *guests) note(machine reference) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reported == nil {
		g.reported = map[reference]bool{}
	}
	g.reported[machine] = true
}

// reportNetwork has a guest report addresses for its cards, as VMware Tools do, unless the machine was switched again.
func (f *front) reportNetwork(vm *simulator.VirtualMachine, state types.VirtualMachinePowerState, network map[string][]netip.Prefix) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() {
		if vm.Runtime.PowerState != state {
			return
		}
		net, all := slices.Clone(vm.Guest.Net), []netip.Prefix(nil)
		for i := range net {
			addresses := network[strings.ToLower(net[i].MacAddress)]
			net[i].IpAddress, net[i].IpConfig = nil, nil
			if len(addresses) > 0 {
				net[i].IpAddress, net[i].IpConfig = reportOf(addresses)
			}
			all = append(all, addresses...)
		}
		if len(all) > 0 {
			f.guests.note(vm.Self)
		}
		primary := primaryOf(all)
		ctx.Update(vm, []types.PropertyChange{
			{Name: "guest.net", Val: net},
			{Name: "guest.ipAddress", Val: primary},
			{Name: "summary.guest.ipAddress", Val: primary},
		})
	})
}

func reportOf(addresses []netip.Prefix) (plain []string, config *types.NetIpConfigInfo) {
	config = &types.NetIpConfigInfo{}
	for _, address := range addresses {
		plain = append(plain, address.Addr().String())
		config.IpAddress = append(config.IpAddress, types.NetIpConfigInfoIpAddress{
			IpAddress: address.Addr().String(), PrefixLength: int32(address.Bits()),
			State: string(types.NetIpConfigInfoIpAddressStatusPreferred),
		})
	}
	return plain, config
}

// primaryOf is the address that a guest has for vCenter: the first one of IPv4, if there is any.
func primaryOf(addresses []netip.Prefix) string {
	for _, address := range addresses {
		if address.Addr().Is4() {
			return address.Addr().String()
		}
	}
	if len(addresses) > 0 {
		return addresses[0].Addr().String()
	}
	return ""
}
