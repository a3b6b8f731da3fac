package vcenter

import (
	"testing"

	"github.com/vmware/govmomi/vim25/types"
)

func TestDestroyDeletesTheFilesOfAllAttachedDisksAndNoOthers(t *testing.T) {
	s := newSite(t)
	machine := s.machine("doomed")
	attached, detached, discarded := s.data(machine, "attached"), s.data(machine, "detached"), s.data(machine, "discarded")
	own := "[LocalDS_0] doomed/own.vmdk"
	s.done(s.change(machine, add, createFile, s.newDisk(machine, own, 1024)))
	s.done(s.change(machine, remove, "", s.disk(machine, own)))
	s.done(s.change(machine, remove, "", s.disk(machine, detached)))
	// Only the key counts.
	gone := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: s.disk(machine, discarded).Key}}
	s.done(s.change(machine, remove, destroyFile, gone))
	s.assertExist(false, discarded, "[LocalDS_0] drover/discarded-flat.vmdk")
	s.assertExist(true, attached, detached, own)

	s.done(machine.Destroy(s.Context()))
	s.assertExist(false, attached, "[LocalDS_0] drover/attached-flat.vmdk", "[LocalDS_0] doomed/doomed.vmx", "[LocalDS_0] doomed/disk1.vmdk")
	s.assertExist(true, detached, "[LocalDS_0] drover/detached-flat.vmdk", own, "[LocalDS_0] doomed/own-flat.vmdk")
}

func TestAFoldersEndDeletesTheSameFiles(t *testing.T) {
	s := newSite(t)
	machine := s.machine("doomed")
	attached, detached := s.data(machine, "attached"), s.data(machine, "detached")
	s.done(s.change(machine, remove, "", s.disk(machine, detached)))
	s.done(s.folder.Destroy(s.Context()))
	s.assertExist(false, attached)
	s.assertExist(true, detached)
}

func TestUnregisteringLeavesAllFiles(t *testing.T) {
	s := newSite(t)
	machine := s.machine("away")
	attached := s.data(machine, "attached")
	s.must(machine.Unregister(s.Context()))
	s.assertExist(true, attached, "[LocalDS_0] away/away.vmx")
}
