package vcenter

import (
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// changesDevices lists what a change of a machine's devices needs on the machine, or on the folder of one that is made. there are
// the devices from before.
func (f *front) changesDevices(on reference, changes []types.BaseVirtualDeviceConfigSpec, there object.VirtualDeviceList) []need {
	var all []need
	for _, change := range changes {
		spec := change.GetVirtualDeviceConfigSpec()
		disk, ok := spec.Device.(*types.VirtualDisk)
		if !ok {
			all = append(all, need{on, changesDevice(spec)})
			continue
		}
		all = append(all, need{on, changesDisk(spec, disk, there)})
		if backing, ok := backingOf(disk); ok && spec.FileOperation == types.VirtualDeviceConfigSpecFileOperationCreate {
			all = append(all, f.onDatastore(backing.FileName, "Datastore.AllocateSpace")...)
		}
	}
	return all
}

func changesDevice(spec *types.VirtualDeviceConfigSpec) string {
	if spec.Operation == types.VirtualDeviceConfigSpecOperationEdit {
		return "VirtualMachine.Config.EditDevice"
	}
	return "VirtualMachine.Config.AddRemoveDevice"
}

func changesDisk(spec *types.VirtualDeviceConfigSpec, disk *types.VirtualDisk, there object.VirtualDeviceList) string {
	switch spec.Operation {
	case types.VirtualDeviceConfigSpecOperationRemove:
		return "VirtualMachine.Config.RemoveDisk"
	case types.VirtualDeviceConfigSpecOperationEdit:
		old, ok := there.FindByKey(disk.Key).(*types.VirtualDisk)
		if !ok {
			return "VirtualMachine.Config.EditDevice"
		}
		if capacity, _ := grown(old, disk); capacity != old.CapacityInBytes {
			return "VirtualMachine.Config.DiskExtend"
		}
		return "VirtualMachine.Config.EditDevice"
	}
	if spec.FileOperation == "" {
		return "VirtualMachine.Config.AddExistingDisk"
	}
	return "VirtualMachine.Config.AddNewDisk"
}

// devicesOf are the devices that a machine has.
func (f *front) devicesOf(machine reference) (devices object.VirtualDeviceList) {
	vm, ok := f.service.Context.Map.Get(machine).(*simulator.VirtualMachine)
	if !ok {
		return nil
	}
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() { devices = vm.Config.Hardware.Device })
	return devices
}

// handlesFiles is what a call for files needs, on the datastore where they are or come to be.
func (f *front) handlesFiles(body any) []need {
	const manages = "Datastore.FileManagement"
	switch request := body.(type) {
	case *types.MakeDirectory:
		return f.onDatastore(request.Name, manages)
	case *types.DeleteDatastoreFile_Task:
		return f.onDatastore(request.Name, manages)
	case *types.MoveDatastoreFile_Task:
		return append(f.onDatastore(request.SourceName, manages), f.onDatastore(request.DestinationName, manages)...)
	case *types.CopyDatastoreFile_Task:
		return append(f.onDatastore(request.SourceName, manages), f.onDatastore(request.DestinationName, manages)...)
	case *types.CreateVirtualDisk_Task:
		return f.onDatastore(request.Name, manages)
	case *types.DeleteVirtualDisk_Task:
		return f.onDatastore(request.Name, manages)
	case *types.ExtendVirtualDisk_Task:
		return f.onDatastore(request.Name, manages)
	case *types.MoveVirtualDisk_Task:
		return append(f.onDatastore(request.SourceName, manages), f.onDatastore(request.DestName, manages)...)
	case *types.CopyVirtualDisk_Task:
		return append(f.onDatastore(request.SourceName, manages), f.onDatastore(request.DestName, manages)...)
	case *types.SearchDatastore_Task:
		return f.onDatastore(request.DatastorePath, "Datastore.Browse")
	case *types.SearchDatastoreSubFolders_Task:
		return f.onDatastore(request.DatastorePath, "Datastore.Browse")
	}
	return nil
}

// onDatastore is a privilege on the datastore that a path names.
func (f *front) onDatastore(name, privilege string) []need {
	var at object.DatastorePath
	if !at.FromString(name) {
		return nil
	}
	for _, entity := range f.service.Context.Map.All("Datastore") {
		if entity.Entity().Name == at.Datastore {
			return []need{{entity.Reference(), privilege}}
		}
	}
	return nil
}
