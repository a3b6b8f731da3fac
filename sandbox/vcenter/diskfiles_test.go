package vcenter

import (
	"bytes"
	"io"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

func (s *site) upload(file, text string) {
	s.Helper()
	s.must(s.datastore.Upload(s.Context(), bytes.NewReader([]byte(text)), s.inDatastore(file), &soap.DefaultUpload))
}

func (s *site) download(file string) string {
	s.Helper()
	reader, _, err := s.datastore.Download(s.Context(), s.inDatastore(file), &soap.DefaultDownload)
	s.must(err)
	defer reader.Close()
	text, err := io.ReadAll(reader)
	s.must(err)
	return string(text)
}

func TestSizeUuidAndDataAreTheFiles(t *testing.T) {
	s := newSite(t)
	one, two := s.machine("one"), s.machine("two")
	file, other := s.data(one, "data"), s.data(one, "other")
	made := s.disk(one, file)
	if id := backing(made).Uuid; id == "" || id == backing(s.disk(one, other)).Uuid || made.CapacityInBytes != 1<<30 {
		t.Fatalf("%q, %d", id, made.CapacityInBytes)
	}
	marker := "written by a test"
	s.upload("[LocalDS_0] drover/data-flat.vmdk", marker)
	s.upload(file, s.download(file)+"# "+marker+"\n")

	assertSame := func(machine *object.VirtualMachine, file string) {
		t.Helper()
		disk := s.disk(machine, file)
		if backing(disk).Uuid != backing(made).Uuid || disk.CapacityInKB != made.CapacityInKB || disk.CapacityInBytes != made.CapacityInBytes {
			t.Fatalf("%+v is not %+v", disk, made)
		}
	}
	s.done(s.change(one, remove, "", s.disk(one, file)))
	lie := s.newDisk(two, file, 4096)
	backing(lie).Uuid = "6000c290-0000-0000-0000-000000000000"
	s.done(s.change(two, add, "", lie))
	assertSame(two, file)

	s.done(s.change(two, remove, "", s.disk(two, file)))
	moved := "[LocalDS_0] drover/moved.vmdk"
	disks := object.NewVirtualDiskManager(s.client.Client)
	s.done(disks.MoveVirtualDisk(t.Context(), file, s.datacenter, moved, s.datacenter, false))
	if id, err := disks.QueryVirtualDiskUuid(t.Context(), moved, s.datacenter); err != nil || id != backing(made).Uuid {
		t.Fatal(id, err)
	}
	s.done(s.attach(one, moved))
	assertSame(one, moved)
	// A file that is made where another was has nothing of it.
	s.done(s.change(two, add, createFile, s.newDisk(two, file, 2048)))
	if again := s.disk(two, file); backing(again).Uuid == backing(made).Uuid || again.CapacityInKB != 2048 {
		t.Fatalf("%+v", again)
	}

	s.done(disks.ExtendVirtualDisk(t.Context(), other, s.datacenter, 1<<21, nil))
	s.done(s.change(one, remove, "", s.disk(one, moved)))
	copied := "[LocalDS_0] drover/copied.vmdk"
	s.done(disks.CopyVirtualDisk(t.Context(), moved, s.datacenter, copied, s.datacenter, nil, false))
	s.done(disks.ExtendVirtualDisk(t.Context(), moved, s.datacenter, 1<<21, nil))
	s.done(s.attach(one, copied))
	if disk := s.disk(one, copied); backing(disk).Uuid == backing(made).Uuid || disk.CapacityInBytes != 1<<30 {
		t.Fatalf("%+v", disk)
	}
	s.done(s.attach(two, moved))
	if disk := s.disk(two, moved); backing(disk).Uuid != backing(made).Uuid || disk.CapacityInBytes != 1<<31 {
		t.Fatalf("%+v", disk)
	}
	if text := s.download("[LocalDS_0] drover/moved-flat.vmdk"); text != marker {
		t.Fatalf("%q", text)
	}
	if text := s.download(moved); !bytes.Contains([]byte(text), []byte("# "+marker)) {
		t.Fatalf("%q", text)
	}
}

func TestEveryDiskHasAUuidOfItsOwnThatStays(t *testing.T) {
	s := newSite(t)
	machine, twin := s.machine("one"), s.machine("twin")
	boot, file := s.first(machine), backing(s.first(machine)).FileName
	if backing(boot).Uuid == "" || backing(boot).Uuid == backing(s.first(twin)).Uuid || backing(boot).Uuid == backing(s.first(s.template)).Uuid {
		t.Fatalf("%+v", backing(boot))
	}
	s.done(s.change(machine, remove, "", boot))
	s.done(s.attach(twin, file))
	if seen := s.disk(twin, file); backing(seen).Uuid != backing(boot).Uuid || seen.CapacityInKB != boot.CapacityInKB {
		t.Fatalf("%+v is not %+v", seen, boot)
	}

	disks := object.NewVirtualDiskManager(s.client.Client)
	made := "[LocalDS_0] drover/made.vmdk"
	s.directory("drover")
	spec := &types.FileBackedVirtualDiskSpec{CapacityKb: 8192}
	s.done(disks.CreateVirtualDisk(t.Context(), made, s.datacenter, spec))
	id, err := disks.QueryVirtualDiskUuid(t.Context(), made, s.datacenter)
	s.must(err)
	s.done(s.attach(twin, made))
	if disk := s.disk(twin, made); backing(disk).Uuid != id || disk.CapacityInKB != 8192 {
		t.Fatalf("%+v, %s", disk, id)
	}
	s.done(s.change(twin, remove, "", s.disk(twin, made)))
	datacenter, wanted := s.datacenter.Reference(), "6000c290-0000-0000-0000-000000000001"
	set := types.SetVirtualDiskUuid{This: disks.Reference(), Name: made, Datacenter: &datacenter, Uuid: wanted}
	_, err = methods.SetVirtualDiskUuid(t.Context(), s.client.Client, &set)
	s.must(err)
	s.done(s.attach(twin, made))
	if disk := s.disk(twin, made); backing(disk).Uuid != wanted {
		t.Fatalf("%+v", disk)
	}
}

func TestADiskThatCanNotBeAddedLeavesEverythingAsItWas(t *testing.T) {
	s := newSite(t)
	machine := s.machine("one")
	file := s.data(machine, "data")
	before := len(s.devices(machine))
	removal := changing(remove, "", s.disk(machine, file)).DeviceChange[0]
	for fault, change := range map[string]types.VirtualMachineConfigSpec{
		"FileNotFound":      changing(add, "", s.existing(machine, "[LocalDS_0] drover/none.vmdk")),
		"FileAlreadyExists": changing(add, createFile, s.newDisk(machine, file, 1024)),
		"InvalidDeviceSpec": changing(remove, "", &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: 4711}}),
	} {
		change.DeviceChange = append([]types.BaseVirtualDeviceConfigSpec{removal}, change.DeviceChange...)
		s.want(fault, s.end(machine.Reconfigure(t.Context(), change)))
	}
	nowhere := changing(add, createFile, s.newDisk(machine, "[LocalDS_0] nowhere/data.vmdk", 1024))
	s.want("FileNotFound", s.end(machine.Reconfigure(t.Context(), nowhere)))
	if after := len(s.devices(machine)); after != before {
		t.Fatalf("%d devices, not %d", after, before)
	}
}
