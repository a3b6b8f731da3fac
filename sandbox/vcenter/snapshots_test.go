package vcenter

import (
	"testing"

	"github.com/vmware/govmomi/vim25/types"
)

func TestADiskWithASnapshotIsADeltaThatNeitherGrowsNorIsDetached(t *testing.T) {
	s := newSite(t)
	machine := s.machine("kept")
	file := s.data(machine, "data")
	id := backing(s.disk(machine, file)).Uuid
	s.done(machine.CreateSnapshot(t.Context(), "first", "", false, false))

	delta := s.disk(machine, "[LocalDS_0] drover/data-000001.vmdk")
	if parent := backing(delta).Parent; parent == nil || parent.FileName != file || backing(delta).Uuid != id || delta.CapacityInKB != 1<<20 {
		t.Fatalf("%+v", backing(delta))
	}
	if boot := backing(s.first(machine)); boot.Parent == nil {
		t.Fatalf("%+v", boot)
	}
	s.assertExist(true, file, "[LocalDS_0] drover/data-000001.vmdk")
	delta.CapacityInKB, delta.CapacityInBytes = 1<<21, 0
	s.want("InvalidDeviceOperation", s.end(s.change(machine, edit, "", delta)))
	s.want("GenericVmConfigFault", s.end(s.change(machine, remove, "", delta)))
	later := s.data(machine, "later")
	s.done(s.change(machine, remove, "", s.disk(machine, later)))

	s.done(machine.CreateSnapshot(t.Context(), "second", "", false, false))
	second := s.disk(machine, "[LocalDS_0] drover/data-000002.vmdk")
	if parent := backing(second).Parent; parent == nil || parent.FileName != "[LocalDS_0] drover/data-000001.vmdk" || parent.Parent.FileName != file {
		t.Fatalf("%+v", backing(second))
	}
	s.done(machine.RemoveSnapshot(t.Context(), "second", false, nil))
	s.disk(machine, "[LocalDS_0] drover/data-000001.vmdk")
	s.assertExist(false, "[LocalDS_0] drover/data-000002.vmdk")
	s.done(machine.RemoveAllSnapshot(t.Context(), nil))
	base := s.disk(machine, file)
	if backing(base).Parent != nil || backing(base).Uuid != id {
		t.Fatalf("%+v", backing(base))
	}
	s.assertExist(false, "[LocalDS_0] drover/data-000001.vmdk")
	s.assertExist(true, file, "[LocalDS_0] drover/data-flat.vmdk")
	s.done(s.change(machine, remove, "", base))
}

func TestADiskThatIsIndependentOfSnapshotsHasNone(t *testing.T) {
	s := newSite(t)
	machine := s.machine("kept")
	s.directory("drover")
	file := "[LocalDS_0] drover/apart.vmdk"
	apart := s.newDisk(machine, file, 1024)
	backing(apart).DiskMode = string(types.VirtualDiskModeIndependent_persistent)
	s.done(s.change(machine, add, createFile, apart))
	s.done(machine.CreateSnapshot(t.Context(), "first", "", false, false))
	s.done(s.change(machine, remove, "", s.disk(machine, file)))
}

func TestDestroyDeletesASnapshotsFilesToo(t *testing.T) {
	s := newSite(t)
	machine := s.machine("doomed")
	file := s.data(machine, "data")
	s.done(machine.CreateSnapshot(t.Context(), "first", "", false, false))
	s.done(machine.Destroy(t.Context()))
	s.assertExist(false, file, "[LocalDS_0] drover/data-flat.vmdk", "[LocalDS_0] drover/data-000001.vmdk", "[LocalDS_0] drover/data-000001-delta.vmdk")
}

func TestACloneOfAMachineWithASnapshotHasDisksOfItsOwn(t *testing.T) {
	s := newSite(t)
	machine := s.machine("source")
	s.done(machine.CreateSnapshot(t.Context(), "first", "", false, false))
	pool := s.pool.Reference()
	spec := types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &pool}}
	s.done(machine.Clone(t.Context(), s.folder, "copy", spec))
	if disk := backing(s.first(s.found("copy"))); disk.Parent != nil || disk.Uuid == backing(s.first(machine)).Uuid {
		t.Fatalf("%+v", disk)
	}
}
