package vcenter

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vmdk"
)

// diskIdentity is what a disk's file says of it, whoever attaches it. vcsim believes those who attach it.
type diskIdentity struct {
	capacity int64 // in bytes
	uuid     string
}

// give has a disk be as its file says.
func (i diskIdentity) give(disk *types.VirtualDisk, backing *types.VirtualDiskFlatVer2BackingInfo) {
	disk.CapacityInBytes, disk.CapacityInKB, backing.Uuid = i.capacity, i.capacity/1024, i.uuid
}

func (d diskFile) identity() (diskIdentity, error) {
	file, err := os.Open(d.path)
	if err != nil {
		return diskIdentity{}, err
	}
	defer file.Close()
	described, err := vmdk.ParseDescriptor(file)
	if err != nil {
		return diskIdentity{}, fmt.Errorf("%s: %w", d.name, err)
	}
	return diskIdentity{described.Capacity(), described.DDB["uuid"]}, nil
}

const uuidKey = "ddb.uuid"

// describe writes it down, and leaves every other line as it is: a test may have marked the file.
func (d diskFile) describe(identity diskIdentity) error {
	text, err := os.ReadFile(d.path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	hasUUID := false
	for i, line := range lines {
		words := strings.SplitN(line, " ", 3)
		switch {
		case words[0] == "RW" && len(words) == 3:
			lines[i] = fmt.Sprintf("RW %d %s", identity.capacity/vmdk.SectorSize, words[2])
		case strings.HasPrefix(line, uuidKey):
			lines[i], hasUUID = fmt.Sprintf("%s = %q", uuidKey, identity.uuid), true
		}
	}
	if !hasUUID {
		lines = append(lines, fmt.Sprintf("%s = %q", uuidKey, identity.uuid))
	}
	return os.WriteFile(d.path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// identify reads what a disk is. One whose file doesn't say it yet has the UUID that a machine knows it by, or a new one.
func (f *front) identify(file diskFile) (diskIdentity, error) {
	if identity, err := file.identity(); err != nil || identity.uuid != "" {
		return identity, err
	}
	known := uuid.NewString()
	for _, vm := range f.machines() {
		disks, _ := f.disksIn(vm)
		for _, disk := range disks {
			backing, ok := backingOf(disk)
			if !ok || backing.Uuid == "" {
				continue
			}
			if at, ok := f.fileAt(vm.Self, backing.FileName); ok && at.path == file.path {
				known = backing.Uuid
			}
		}
	}
	return f.identifyAs(file, known)
}

// identifyAs reads what a disk is, and has a file that doesn't say it have this UUID.
func (f *front) identifyAs(file diskFile, known string) (diskIdentity, error) {
	f.disks.files.Lock()
	defer f.disks.files.Unlock()
	identity, err := file.identity()
	if err != nil || identity.uuid != "" {
		return identity, err
	}
	identity.uuid = known
	return identity, file.describe(identity)
}

// nameDisks gives the disks that a new machine is made with UUIDs of their own.
func nameDisks(changes []types.BaseVirtualDeviceConfigSpec) {
	for _, change := range changes {
		spec := change.GetVirtualDeviceConfigSpec()
		disk, ok := spec.Device.(*types.VirtualDisk)
		if !ok || spec.FileOperation != types.VirtualDeviceConfigSpecFileOperationCreate {
			continue
		}
		if backing, ok := backingOf(disk); ok {
			backing.Uuid = uuid.NewString()
		}
	}
}

// diskUUID answers who asks for the UUID of a disk, or sets it. Of a file that isn't there, vcsim says so.
func (f *front) diskUUID(c *call) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	switch request := c.request().(type) {
	case *types.QueryVirtualDiskUuid:
		if file, ok := f.diskIn(request.Datacenter, request.Name); ok {
			if identity, err := f.identify(file); err == nil {
				writeAnswer(out, c.method, types.QueryVirtualDiskUuidResponse{Returnval: identity.uuid})
				return out
			}
		}
	case *types.SetVirtualDiskUuid:
		if file, ok := f.diskIn(request.Datacenter, request.Name); ok {
			if identity, err := f.identify(file); err == nil {
				identity.uuid = request.Uuid
				_ = file.describe(identity)
			}
		}
	}
	return nil
}

// diskIn finds a disk that is there.
func (f *front) diskIn(datacenter *reference, name string) (diskFile, bool) {
	if datacenter == nil {
		return diskFile{}, false
	}
	file, ok := f.fileAt(*datacenter, name)
	return file, ok && file.exists()
}

// extend is the task that makes a disk larger which runs nowhere. vcsim writes the file anew.
func (f *front) extend(c *call, request *types.ExtendVirtualDisk_Task) (reference, bool) {
	file, ok := f.diskIn(request.Datacenter, request.Name)
	if !ok {
		return reference{}, false
	}
	identity, err := f.identify(file)
	if err != nil || request.NewCapacityKb*1024 < identity.capacity {
		return reference{}, false
	}
	return f.submit(c, func(*simulator.Task) outcome {
		identity.capacity = request.NewCapacityKb * 1024
		if err := file.describe(identity); err != nil {
			return failure(&types.CannotAccessFile{FileFault: types.FileFault{File: request.Name}})
		}
		return outcome{result: request.Name}
	}), true
}

// copyDisk is the task that copies a disk: the copy is another disk.
func (f *front) copyDisk(r *http.Request, c *call, request *types.CopyVirtualDisk_Task) reference {
	return f.submit(c, func(*simulator.Task) outcome {
		end := f.asPart(r, c, methods.CopyVirtualDisk_TaskBody{Req: request})
		datacenter := request.DestDatacenter
		if datacenter == nil {
			datacenter = request.SourceDatacenter
		}
		file, ok := f.diskIn(datacenter, request.DestName)
		if end.fault != nil || !ok {
			return end
		}
		if identity, err := file.identity(); err == nil {
			identity.uuid = uuid.NewString()
			_ = file.describe(identity)
		}
		return end
	})
}
