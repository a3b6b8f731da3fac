package vcenter

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/vim25/types"
)

// privileges are those that the user lacks everywhere. vcsim knows roles and asks nobody for a privilege.
type privileges struct {
	mu      sync.Mutex
	missing []string
}

func (p *privileges) set(missing []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = missing
}

func (p *privileges) lacks(privilege string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.missing, privilege)
}

func (f *front) putPrivileges(w http.ResponseWriter, r *http.Request) {
	var p struct{ Missing []string }
	if !take(w, r, &p) {
		return
	}
	for _, privilege := range p.Missing {
		if !strings.Contains(privilege, ".") {
			refuse(w, http.StatusBadRequest, errors.New("missing: give privileges such as Folder.Create"))
			return
		}
	}
	f.privileges.set(p.Missing)
	reply(w, struct{}{})
}

// need is a privilege, and the object that it is needed on.
type need struct {
	on        types.ManagedObjectReference
	privilege string
}

// answer is vCenter's to a call that the user may not make, or nil if it may be made. It also answers the question
// what may be done.
func (p *privileges) answer(c *call, needs func(reference, any) []need) *httptest.ResponseRecorder {
	p.mu.Lock()
	none := len(p.missing) == 0
	p.mu.Unlock()
	if none {
		return nil
	}
	request := c.request()
	out := httptest.NewRecorder()
	if question, ok := request.(*types.HasPrivilegeOnEntities); ok {
		p.tell(out, question)
		return out
	}
	for _, n := range needs(c.this, request) {
		if p.lacks(n.privilege) {
			writeFault(out, "Permission to perform this operation was denied.",
				&types.NoPermission{Object: &n.on, PrivilegeId: n.privilege})
			return out
		}
	}
	return nil
}

func (p *privileges) tell(w http.ResponseWriter, question *types.HasPrivilegeOnEntities) {
	var answer types.HasPrivilegeOnEntitiesResponse
	for _, entity := range question.Entity {
		told := types.EntityPrivilege{Entity: entity}
		for _, privilege := range question.PrivId {
			granted := !p.lacks(privilege)
			told.PrivAvailability = append(told.PrivAvailability, types.PrivilegeAvailability{PrivId: privilege, IsGranted: granted})
		}
		answer.Returnval = append(answer.Returnval, told)
	}
	writeAnswer(w, "HasPrivilegeOnEntities", answer)
}

// needs is what vCenter's documentation says that a call needs, and where.
func (f *front) needs(this types.ManagedObjectReference, body any) []need {
	on := func(object types.ManagedObjectReference, names ...string) []need {
		var all []need
		for _, name := range names {
			all = append(all, need{object, name})
		}
		return all
	}
	switch request := body.(type) {
	case *types.CreateFolder:
		return on(this, "Folder.Create")
	case *types.Destroy_Task:
		if this.Type == "Folder" {
			return on(this, "Folder.Delete")
		}
		return on(this, "VirtualMachine.Inventory.Delete")
	case *types.Rename_Task:
		return on(this, "VirtualMachine.Config.Rename")
	case *types.MoveIntoFolder_Task:
		return on(this, "VirtualMachine.Inventory.Move")
	case *types.PowerOnVM_Task:
		return on(this, "VirtualMachine.Interact.PowerOn")
	case *types.PowerOffVM_Task, *types.ShutdownGuest:
		return on(this, "VirtualMachine.Interact.PowerOff")
	case *types.SuspendVM_Task:
		return on(this, "VirtualMachine.Interact.Suspend")
	case *types.ReconfigVM_Task:
		all := on(this, reconfigures(&request.Spec)...)
		return append(all, f.changesDevices(this, request.Spec.DeviceChange, f.devicesOf(this))...)
	case *types.CustomizeVM_Task:
		return on(this, "VirtualMachine.Provisioning.Customize")
	case *types.CloneVM_Task:
		all := on(this, "VirtualMachine.Provisioning.Clone")
		if f.isTemplate(this) {
			all = on(this, "VirtualMachine.Provisioning.DeployTemplate")
		}
		all = append(all, on(request.Folder, "VirtualMachine.Inventory.CreateFromExisting", "VirtualMachine.Config.AddNewDisk")...)
		if pool := request.Spec.Location.Pool; pool != nil {
			all = append(all, on(*pool, "Resource.AssignVMToPool")...)
		}
		if datastore := request.Spec.Location.Datastore; datastore != nil {
			all = append(all, on(*datastore, "Datastore.AllocateSpace")...)
		}
		changes := request.Spec.Location.DeviceChange
		if spec := request.Spec.Config; spec != nil {
			all = append(all, on(request.Folder, reconfigures(spec)...)...)
			changes = append(slices.Clone(changes), spec.DeviceChange...)
		}
		all = append(all, f.changesDevices(request.Folder, changes, f.devicesOf(this))...)
		if slices.ContainsFunc(changes, isCard) {
			all = append(all, on(request.Folder, "Network.Assign")...)
		}
		if request.Spec.Customization != nil {
			all = append(all, on(this, "VirtualMachine.Provisioning.Customize")...)
		}
		return all
	}
	return f.handlesFiles(body)
}

func isCard(change types.BaseVirtualDeviceConfigSpec) bool {
	_, ok := change.GetVirtualDeviceConfigSpec().Device.(types.BaseVirtualEthernetCard)
	return ok
}

// reconfigures lists the privileges that a change of a machine needs.
func reconfigures(spec *types.VirtualMachineConfigSpec) []string {
	var all []string
	for name, is := range map[string]bool{
		"VirtualMachine.Config.CPUCount":       spec.NumCPUs != 0,
		"VirtualMachine.Config.Memory":         spec.MemoryMB != 0,
		"VirtualMachine.Config.AdvancedConfig": len(spec.ExtraConfig) > 0,
		"VirtualMachine.Config.Settings":       spec.InstanceUuid != "",
		"VApp.ApplicationConfig":               spec.VAppConfigRemoved != nil,
	} {
		if is {
			all = append(all, name)
		}
	}
	return all
}
