package vcenter

import (
	"context"
	"net/http/httptest"
	"net/url"
	"path"
	"reflect"
	"testing"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// site is a vCenter behind its front, and a client of it that sends what govc can't.
type site struct {
	*testing.T
	front      *front
	client     *govmomi.Client
	datacenter *object.Datacenter
	datastore  *object.Datastore
	folder     *object.Folder
	pool       *object.ResourcePool
	template   *object.VirtualMachine
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir()) // vcsim leaves its datastores there
	service, err := Inventory{Hosts: 2, Seed: true}.create()
	must(t, err)
	s := &site{T: t, front: newFront(service, Inventory{}, "user", "secret")}
	server := httptest.NewServer(s.front)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL + "/sdk")
	must(t, err)
	address.User = url.UserPassword("user", "secret")
	ctx := t.Context()
	s.client, err = govmomi.NewClient(ctx, address, true)
	must(t, err)
	finder := find.NewFinder(s.client.Client)
	s.datacenter, err = finder.Datacenter(ctx, "DC0")
	must(t, err)
	finder.SetDatacenter(s.datacenter)
	s.datastore, err = finder.Datastore(ctx, "LocalDS_0")
	must(t, err)
	s.folder, err = finder.Folder(ctx, "/DC0/vm/"+folderName)
	must(t, err)
	s.pool, err = finder.DefaultResourcePool(ctx)
	must(t, err)
	s.template, err = finder.VirtualMachine(ctx, "/DC0/vm/"+folderName+"/"+templateName)
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) must(err error) {
	s.Helper()
	must(s.T, err)
}

// end waits for a task, and names the fault that it ends with, if any.
func (s *site) end(submitted *object.Task, err error) string {
	s.Helper()
	s.must(err)
	_, err = submitted.WaitForResult(context.Background())
	if err == nil {
		return ""
	}
	failed, ok := err.(task.Error)
	if !ok {
		s.Fatal(err)
	}
	return reflect.TypeOf(failed.Fault()).Elem().Name()
}

// done waits for a task that ends well.
func (s *site) done(submitted *object.Task, err error) {
	s.Helper()
	s.want("", s.end(submitted, err))
}

func (s *site) want(fault, ended string) {
	s.Helper()
	if ended != fault {
		s.Fatalf("the task ended with %q, not with %q", ended, fault)
	}
}

// machine is a clone of the template, powered off.
func (s *site) machine(name string) *object.VirtualMachine {
	s.Helper()
	return s.clone(name, types.VirtualMachineCloneSpec{})
}

func (s *site) clone(name string, spec types.VirtualMachineCloneSpec) *object.VirtualMachine {
	s.Helper()
	s.done(s.cloning(name, spec))
	return s.found(name)
}

func (s *site) found(name string) *object.VirtualMachine {
	s.Helper()
	finder := find.NewFinder(s.client.Client)
	machine, err := finder.VirtualMachine(s.Context(), "/DC0/vm/"+folderName+"/"+name)
	s.must(err)
	return machine
}

func (s *site) cloning(name string, spec types.VirtualMachineCloneSpec) (*object.Task, error) {
	pool := s.pool.Reference()
	spec.Location.Pool = &pool
	return s.template.Clone(s.Context(), s.folder, name, spec)
}

func (s *site) on(machine *object.VirtualMachine) {
	s.Helper()
	s.done(machine.PowerOn(s.Context()))
}

func (s *site) off(machine *object.VirtualMachine) {
	s.Helper()
	s.done(machine.PowerOff(s.Context()))
}

func (s *site) properties(machine *object.VirtualMachine) mo.VirtualMachine {
	s.Helper()
	var properties mo.VirtualMachine
	s.must(machine.Properties(s.Context(), machine.Reference(), []string{"config", "guest", "snapshot"}, &properties))
	return properties
}

func (s *site) devices(machine *object.VirtualMachine) object.VirtualDeviceList {
	s.Helper()
	return s.properties(machine).Config.Hardware.Device
}

// disk is the machine's disk of that file.
func (s *site) disk(machine *object.VirtualMachine, file string) *types.VirtualDisk {
	s.Helper()
	for _, device := range s.devices(machine).SelectByType((*types.VirtualDisk)(nil)) {
		if disk := device.(*types.VirtualDisk); backing(disk).FileName == file {
			return disk
		}
	}
	s.Fatalf("%s has no disk %s", machine.Name(), file)
	return nil
}

// first is the disk that the machine was cloned with.
func (s *site) first(machine *object.VirtualMachine) *types.VirtualDisk {
	s.Helper()
	return s.devices(machine).SelectByType((*types.VirtualDisk)(nil))[0].(*types.VirtualDisk)
}

func backing(disk *types.VirtualDisk) *types.VirtualDiskFlatVer2BackingInfo {
	return disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
}

// newDisk is a disk for the machine's controller, at the next place.
func (s *site) newDisk(machine *object.VirtualMachine, file string, kilobytes int64) *types.VirtualDisk {
	s.Helper()
	devices := s.devices(machine)
	controller, err := devices.FindDiskController("")
	s.must(err)
	disk := devices.CreateDisk(controller, s.datastore.Reference(), file)
	disk.CapacityInKB = kilobytes
	return disk
}

const (
	add    = types.VirtualDeviceConfigSpecOperationAdd
	edit   = types.VirtualDeviceConfigSpecOperationEdit
	remove = types.VirtualDeviceConfigSpecOperationRemove

	createFile  = types.VirtualDeviceConfigSpecFileOperationCreate
	destroyFile = types.VirtualDeviceConfigSpecFileOperationDestroy
)

type (
	operation     = types.VirtualDeviceConfigSpecOperation
	fileOperation = types.VirtualDeviceConfigSpecFileOperation
)

func changing(op operation, file fileOperation, device types.BaseVirtualDevice) types.VirtualMachineConfigSpec {
	change := &types.VirtualDeviceConfigSpec{Operation: op, FileOperation: file, Device: device}
	return types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{change}}
}

func (s *site) change(machine *object.VirtualMachine, op operation, file fileOperation, device types.BaseVirtualDevice) (*object.Task, error) {
	return machine.Reconfigure(s.Context(), changing(op, file, device))
}

// data adds a disk to the machine that lies in a folder of its own.
func (s *site) data(machine *object.VirtualMachine, name string) string {
	s.Helper()
	s.directory("drover")
	file := "[LocalDS_0] drover/" + name + ".vmdk"
	s.done(s.change(machine, add, createFile, s.newDisk(machine, file, 1<<20)))
	return file
}

func (s *site) directory(name string) {
	s.Helper()
	if s.exists("[LocalDS_0] " + name) {
		return
	}
	s.must(object.NewFileManager(s.client.Client).MakeDirectory(s.Context(), "[LocalDS_0] "+name, s.datacenter, true))
}

func (s *site) exists(file string) bool {
	s.Helper()
	_, err := s.datastore.Stat(s.Context(), s.inDatastore(file))
	return err == nil
}

func (s *site) inDatastore(file string) string {
	var p object.DatastorePath
	p.FromString(file)
	return path.Clean(p.Path)
}

func (s *site) assertExist(want bool, files ...string) {
	s.Helper()
	for _, file := range files {
		if s.exists(file) != want {
			s.Errorf("%s: there is %t, not %t", file, !want, want)
		}
	}
}

func (s *site) simulated(machine *object.VirtualMachine) *simulator.VirtualMachine {
	return s.front.service.Context.Map.Get(machine.Reference()).(*simulator.VirtualMachine)
}
