package vcenter

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// diskFile is a VMDK on a datastore: a text that describes the disk, with its data beside it in files of similar names.
type diskFile struct {
	name string // as vSphere writes it: [LocalDS_0] folder/disk.vmdk
	path string // where the simulated datastore has it
}

// extents are the endings of a disk's files. A snapshot has a delta.
var extents = []string{".vmdk", "-flat.vmdk", "-delta.vmdk"}

// stem is the part of the path that all files of the disk have.
func (d diskFile) stem() string {
	for _, ending := range []string{"-flat.vmdk", "-delta.vmdk", ".vmdk"} {
		if stem, ok := strings.CutSuffix(d.path, ending); ok {
			return stem
		}
	}
	return d.path
}

func (d diskFile) exists() bool {
	_, err := os.Stat(d.path)
	return err == nil
}

// delete removes the disk, if it is there.
func (d diskFile) delete() {
	for _, ending := range extents {
		_ = os.Remove(d.stem() + ending)
	}
}

// fileAt finds what a path names on the datastores of an object's datacenter.
func (f *front) fileAt(entity reference, name string) (diskFile, bool) {
	var at object.DatastorePath
	if !at.FromString(name) {
		return diskFile{}, false
	}
	for _, ref := range f.ancestors(entity) {
		datacenter, ok := f.service.Context.Map.Get(ref).(*simulator.Datacenter)
		if !ok {
			continue
		}
		datastore, ok := f.service.Context.Map.FindByName(at.Datastore, datacenter.Datastore).(*simulator.Datastore)
		if !ok {
			return diskFile{}, false
		}
		return diskFile{name: name, path: filepath.Join(datastore.Summary.Url, at.Path)}, true
	}
	return diskFile{}, false
}

// disksOf are the disks of some devices.
func disksOf(devices []types.BaseVirtualDevice) []*types.VirtualDisk {
	var disks []*types.VirtualDisk
	for _, device := range devices {
		if disk, ok := device.(*types.VirtualDisk); ok {
			disks = append(disks, disk)
		}
	}
	return disks
}

// backingOf is the kind of backing that disks have here.
func backingOf(disk *types.VirtualDisk) (*types.VirtualDiskFlatVer2BackingInfo, bool) {
	backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	return backing, ok && backing != nil
}

// chain are the files that a disk is made of: its own, and those that it is a delta of.
func (f *front) chain(machine reference, disk *types.VirtualDisk) []diskFile {
	var files []diskFile
	backing, _ := backingOf(disk)
	for ; backing != nil; backing = backing.Parent {
		if file, ok := f.fileAt(machine, backing.FileName); ok {
			files = append(files, file)
		}
	}
	return files
}
