package vcenter

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// machineCounts are how many machines there are, templates left out, how many of them are powered on, and how many clones
// are under way.
type machineCounts struct {
	Machines  int `json:"machines"`
	PoweredOn int `json:"poweredOn"`
	Cloning   int `json:"cloning"`
}

// countMachines looks past the API, so that a test can look often without slowing down what it measures.
func (f *front) countMachines() machineCounts {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	counts := machineCounts{Cloning: f.folders.cloning()}
	for _, vm := range f.machines() {
		ctx.WithLock(vm, func() {
			if vm.Config.Template {
				return
			}
			counts.Machines++
			if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
				counts.PoweredOn++
			}
		})
	}
	return counts
}

// machines are all machines, templates included.
func (f *front) machines() []*simulator.VirtualMachine {
	var all []*simulator.VirtualMachine
	for _, entity := range f.service.Context.Map.All("VirtualMachine") {
		if vm, ok := entity.(*simulator.VirtualMachine); ok {
			all = append(all, vm)
		}
	}
	return all
}

func (f *front) isTemplate(ref reference) bool {
	vm, ok := f.service.Context.Map.Get(ref).(*simulator.VirtualMachine)
	return ok && vm.Config.Template
}

// entity finds the one object of a type with a name, a reference's value or an inventory path.
func (f *front) entity(kind, name string) (mo.Entity, error) {
	var found []mo.Entity
	for _, entity := range f.service.Context.Map.All(kind) {
		e := entity.Entity()
		if e.Name == name || e.Self.Value == name || strings.HasPrefix(name, "/") && f.path(e.Self) == name {
			found = append(found, entity)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d %s are called %q", len(found), plurals[kind], name)
	}
	return found[0], nil
}

var plurals = map[string]string{"VirtualMachine": "machines", "Folder": "folders", "HostSystem": "hosts"}

// ancestors are an object and all that it is in, from the inside out.
func (f *front) ancestors(ref reference) []reference {
	var all []reference
	for {
		entity, ok := f.service.Context.Map.Get(ref).(mo.Entity)
		if !ok {
			return all
		}
		all = append(all, ref)
		parent := entity.Entity().Parent
		if parent == nil {
			return all
		}
		ref = *parent
	}
}

// path is an object's inventory path.
func (f *front) path(ref reference) string {
	var names []string
	for _, ancestor := range f.ancestors(ref) {
		if entity, ok := f.service.Context.Map.Get(ancestor).(mo.Entity); ok && entity.Entity().Parent != nil {
			names = append(names, entity.Entity().Name)
		}
	}
	slices.Reverse(names)
	return "/" + strings.Join(names, "/")
}

// machineState is what a guest, its load, its host or its storage would change. What is not given stays as it is.
type machineState struct {
	IP              *string                              `json:"ip"`
	Addresses       *[]string                            `json:"addresses"`
	Tools           *string                              `json:"tools"`
	CPUMHz          *int32                               `json:"cpuMHz"`
	GuestMemory     *int32                               `json:"guestMemoryMB"`
	ConnectionState *types.VirtualMachineConnectionState `json:"connectionState"`
	MemoryLimit     *int64                               `json:"hotPlugMemoryLimit"`
	MemoryIncrement *int64                               `json:"hotPlugMemoryIncrementSize"`
}

func (f *front) patchMachine(w http.ResponseWriter, r *http.Request) {
	var s machineState
	if !take(w, r, &s) {
		return
	}
	if s.Tools != nil && !strings.HasPrefix(*s.Tools, "guestTools") {
		refuse(w, http.StatusBadRequest, fmt.Errorf("tools %q: give guestToolsRunning, guestToolsNotRunning or guestToolsExecutingScripts", *s.Tools))
		return
	}
	if s.ConnectionState != nil && !slices.Contains(s.ConnectionState.Values(), *s.ConnectionState) {
		refuse(w, http.StatusBadRequest, fmt.Errorf("connectionState %q: give connected, disconnected, inaccessible, invalid or orphaned", *s.ConnectionState))
		return
	}
	if err := f.setMachine(r.PathValue("machine"), s); err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	reply(w, struct{}{})
}

// setMachine changes a machine as its guest or host would.
func (f *front) setMachine(name string, s machineState) error {
	vm, err := f.entity("VirtualMachine", name)
	if err != nil {
		return err
	}
	if s.ConnectionState != nil {
		f.sight.lost.Store(true)
	}
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() { ctx.Update(vm, s.changes()) })
	return nil
}

func (s machineState) changes() []types.PropertyChange {
	var changes []types.PropertyChange
	set := func(value any, names ...string) {
		for _, name := range names {
			changes = append(changes, types.PropertyChange{Name: name, Val: value})
		}
	}
	if s.IP != nil {
		set(*s.IP, "guest.ipAddress", "summary.guest.ipAddress")
	}
	if s.Addresses != nil {
		set([]types.GuestNicInfo{{Connected: true, IpAddress: *s.Addresses}}, "guest.net")
	}
	if s.Tools != nil {
		set(*s.Tools, "guest.toolsRunningStatus", "summary.guest.toolsRunningStatus")
	}
	if s.CPUMHz != nil {
		set(*s.CPUMHz, "summary.quickStats.overallCpuUsage")
	}
	if s.GuestMemory != nil {
		set(*s.GuestMemory, "summary.quickStats.guestMemoryUsage")
	}
	if s.ConnectionState != nil {
		set(*s.ConnectionState, "runtime.connectionState", "summary.runtime.connectionState")
	}
	if s.MemoryLimit != nil {
		set(*s.MemoryLimit, "config.hotPlugMemoryLimit")
	}
	if s.MemoryIncrement != nil {
		set(*s.MemoryIncrement, "config.hotPlugMemoryIncrementSize")
	}
	return changes
}
