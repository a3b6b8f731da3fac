package vcenter

import (
	"bytes"
	"net"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Those addresses may be given by hand: 00:50:56:00:00:00 to 00:50:56:3f:ff:ff. vCenter makes others itself.
var (
	manualPrefix = []byte{0x00, 0x50, 0x56}
	manualLast   = byte(0x3f)
)

// checkAddresses refuses a card with an address that can't be given by hand, unless it is one of those that are there. vcsim takes any.
func checkAddresses(changes []types.BaseVirtualDeviceConfigSpec, there object.VirtualDeviceList) types.BaseMethodFault {
	for i, change := range changes {
		spec := change.GetVirtualDeviceConfigSpec()
		device, ok := spec.Device.(types.BaseVirtualEthernetCard)
		if !ok || spec.Operation == types.VirtualDeviceConfigSpecOperationRemove {
			continue
		}
		card := device.GetVirtualEthernetCard()
		if !isManual(card) || isAllowed(card.MacAddress) {
			continue
		}
		own, ok := there.FindByKey(card.Key).(types.BaseVirtualEthernetCard)
		if ok && own.GetVirtualEthernetCard().MacAddress == card.MacAddress {
			continue
		}
		fault := &types.InvalidDeviceSpec{DeviceIndex: int32(i)}
		fault.Property = "virtualDeviceSpec.device.macAddress"
		return fault
	}
	return nil
}

// isManual tells whether an address is given by hand.
func isManual(card *types.VirtualEthernetCard) bool {
	isUntold := card.AddressType == "" && card.MacAddress != ""
	return isUntold || strings.EqualFold(card.AddressType, string(types.VirtualEthernetCardMacTypeManual))
}

func isAllowed(address string) bool {
	mac, err := net.ParseMAC(address)
	return err == nil && len(mac) == 6 && bytes.HasPrefix(mac, manualPrefix) && mac[3] <= manualLast
}

// checkCards refuses such addresses where a machine is made or changed.
func (f *front) checkCards(c *call, call any) (fault types.BaseMethodFault) {
	switch request := call.(type) {
	case *types.CreateVM_Task:
		return checkAddresses(request.Config.DeviceChange, nil)
	case *types.ReconfigVM_Task:
		vm, ok := f.service.Context.Map.Get(c.this).(*simulator.VirtualMachine)
		if !ok || len(request.Spec.DeviceChange) == 0 {
			return nil
		}
		ctx := f.service.Context.For(f.service.Context.Map.Path)
		ctx.WithLock(vm, func() { fault = checkAddresses(request.Spec.DeviceChange, vm.Config.Hardware.Device) })
	}
	return fault
}
