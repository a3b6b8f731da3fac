package vcenter

import (
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
)

// hostAdapter is the unit of a SCSI controller that is the controller's own.
const hostAdapter = 7

// checkUnit refuses a new disk at a controller that isn't there, or where another disk is. vcsim takes the first, and finds
// the second when it has made half of the rest.
func checkUnit(devices object.VirtualDeviceList, added []types.BaseVirtualDeviceConfigSpec, disk *types.VirtualDisk, index int32) types.BaseMethodFault {
	controller := devices.FindByKey(disk.ControllerKey)
	for _, change := range added {
		spec := change.GetVirtualDeviceConfigSpec()
		if spec.Operation == types.VirtualDeviceConfigSpecOperationAdd && spec.Device.GetVirtualDevice().Key == disk.ControllerKey {
			controller = spec.Device
		}
	}
	invalid := types.InvalidDeviceSpec{DeviceIndex: index}
	if _, ok := controller.(types.BaseVirtualController); !ok {
		return &types.InvalidController{InvalidDeviceSpec: invalid, ControllerKey: disk.ControllerKey}
	}
	if disk.UnitNumber == nil {
		return nil // vcsim says what it thinks of it
	}
	if _, ok := controller.(types.BaseVirtualSCSIController); ok && *disk.UnitNumber == hostAdapter {
		return &invalid
	}
	for _, other := range disksOf(devices) {
		if other != disk && other.ControllerKey == disk.ControllerKey && other.UnitNumber != nil && *other.UnitNumber == *disk.UnitNumber {
			return &invalid
		}
	}
	return nil
}
