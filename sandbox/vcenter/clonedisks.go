package vcenter

import (
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// completeDisks checks the disks that a clone is made with beyond its source's, before any of it is made, and gives each
// what it is to be known by.
func (f *front) completeDisks(folder reference, devices []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	all := object.VirtualDeviceList(slices.Clone(esx.VirtualDevice)) // every machine has these
	for _, change := range devices {
		all = append(all, change.GetVirtualDeviceConfigSpec().Device)
	}
	for i, change := range devices {
		spec := change.GetVirtualDeviceConfigSpec()
		disk, ok := spec.Device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		if fault := checkUnit(all, nil, disk, int32(i)); fault != nil {
			return fault
		}
		if fault := f.completeDisk(folder, spec, disk); fault != nil {
			return fault
		}
	}
	nameDisks(devices)
	return nil
}

func (f *front) completeDisk(folder reference, spec *types.VirtualDeviceConfigSpec, disk *types.VirtualDisk) types.BaseMethodFault {
	backing, ok := backingOf(disk)
	if !ok || backing.FileName == "" {
		return nil
	}
	if spec.FileOperation != "" {
		return f.checkPlace(folder, spec)
	}
	file, ok := f.fileAt(folder, backing.FileName)
	if !ok {
		return &types.InvalidDatastorePath{DatastorePath: backing.FileName}
	}
	identity, err := f.identify(file)
	if err != nil {
		return &types.FileNotFound{FileFault: types.FileFault{File: backing.FileName}}
	}
	identity.give(disk, backing)
	f.disks.noteAttached(file)
	return nil
}

// checkCreate does the same for a machine that is made of nothing.
func (f *front) checkCreate(c *call, call any) types.BaseMethodFault {
	request, ok := call.(*types.CreateVM_Task)
	if !ok || !slices.ContainsFunc(request.Config.DeviceChange, isDisk) {
		return nil
	}
	if fault := f.completeDisks(c.this, request.Config.DeviceChange); fault != nil {
		return fault
	}
	c.body = encoded(methods.CreateVM_TaskBody{Req: request})
	return nil
}

// editDisk has a disk of the source grow. It is a file of the clone's own afterwards, as it was before.
func editDisk(edited, old *types.VirtualDisk, index int32) types.BaseMethodFault {
	capacity, ok := grown(old, edited)
	if !ok {
		fault := &types.InvalidDeviceOperation{BadOp: types.VirtualDeviceConfigSpecOperationEdit}
		fault.DeviceIndex = index
		return fault
	}
	keep(edited, old)
	edited.CapacityInBytes, edited.CapacityInKB = capacity, capacity/1024
	return nil
}

// provision has disks of the source provisioned as the clone's location says. vcsim doesn't look at that.
func provision(devices []types.BaseVirtualDeviceConfigSpec, locators []types.VirtualMachineRelocateSpecDiskLocator) types.BaseMethodFault {
	for _, locator := range locators {
		at := slices.IndexFunc(devices, func(d types.BaseVirtualDeviceConfigSpec) bool {
			disk, ok := d.GetVirtualDeviceConfigSpec().Device.(*types.VirtualDisk)
			return ok && disk.Key == locator.DiskId
		})
		if at < 0 {
			return &types.InvalidArgument{InvalidProperty: "spec.location.disk.diskId"}
		}
		wanted, ok := locator.DiskBackingInfo.(*types.VirtualDiskFlatVer2BackingInfo)
		if !ok {
			continue
		}
		if backing, ok := backingOf(devices[at].GetVirtualDeviceConfigSpec().Device.(*types.VirtualDisk)); ok {
			backing.ThinProvisioned, backing.EagerlyScrub = wanted.ThinProvisioned, wanted.EagerlyScrub
		}
	}
	return nil
}
