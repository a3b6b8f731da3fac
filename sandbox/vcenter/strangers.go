package vcenter

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// strangersFolder holds machines that were made up.
const strangersFolder = "strangers"

// postStrangers makes up machines of others, with so much extraConfig each. They have no files; vcsim would take minutes.
func (f *front) postStrangers(w http.ResponseWriter, r *http.Request) {
	var s struct{ Machines, ExtraConfigBytes int }
	if !take(w, r, &s) {
		return
	}
	if s.Machines < 1 || s.Machines > 100_000 || s.ExtraConfigBytes < 0 || s.ExtraConfigBytes > 1<<20 {
		refuse(w, http.StatusBadRequest, errors.New("give machines from 1 to 100000, and extraConfigBytes up to a megabyte"))
		return
	}
	crowd, err := f.newCrowd(strangersFolder)
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	all := f.machines()
	if len(all) == 0 {
		refuse(w, http.StatusNotFound, errors.New("there is no machine that the strangers could look like"))
		return
	}
	f.makeStrangers(crowd, all[0], s.Machines, s.ExtraConfigBytes)
	reply(w, map[string]int{"machines": s.Machines})
}

func (f *front) makeStrangers(crowd *crowd, like *simulator.VirtualMachine, machines, extraConfigBytes int) {
	registry := f.service.Context.Map
	ctx := f.service.Context.For(registry.Path)
	extra := []types.BaseOptionValue{&types.OptionValue{Key: "guestinfo.stranger", Value: strings.Repeat("x", extraConfigBytes)}}
	there := len(f.descendants(crowd.folder)) - 1
	var made []*simulator.VirtualMachine
	ctx.WithLock(like, func() {
		for i := range machines {
			made = append(made, stranger(like, fmt.Sprintf("stranger-%d", there+i), extra))
		}
	})
	var refs []reference
	for _, vm := range made {
		folder, pool := crowd.folder, crowd.pool
		vm.Parent, vm.ResourcePool = &folder, &pool
		refs = append(refs, registry.NewEntity(vm).Reference())
	}
	if folder, ok := registry.Get(crowd.folder).(*simulator.Folder); ok {
		ctx.WithLock(folder, func() { folder.ChildEntity = append(folder.ChildEntity, refs...) })
	}
	for _, vm := range made {
		ctx.WithLock(vm, func() { registry.Put(vm) })
	}
}

// stranger is a machine like another, powered off.
func stranger(like *simulator.VirtualMachine, name string, extra []types.BaseOptionValue) *simulator.VirtualMachine {
	vm := &simulator.VirtualMachine{VirtualMachine: like.VirtualMachine}
	config := *like.Config
	config.Name, config.Template, config.ExtraConfig = name, false, extra
	config.Uuid, config.InstanceUuid = uuid.NewString(), uuid.NewString()
	vm.Name, vm.Config, vm.RecentTask = name, &config, nil
	vm.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff
	vm.Summary.Vm, vm.Summary.Runtime = &vm.Self, vm.Runtime
	summary := &vm.Summary.Config
	summary.Name, summary.Template, summary.Uuid, summary.InstanceUuid = name, false, config.Uuid, config.InstanceUuid
	return vm
}

// deleteStrangers takes the made-up machines away, with their folder.
func (f *front) deleteStrangers(w http.ResponseWriter, _ *http.Request) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	removed := 0
	for _, entity := range ctx.Map.All("Folder") {
		folder, ok := entity.(*simulator.Folder)
		if !ok || folder.Name != strangersFolder {
			continue
		}
		gone := map[reference]bool{}
		for _, ref := range f.descendants(folder.Self) {
			gone[ref] = true
		}
		f.unlist(gone)
		for ref := range gone {
			ctx.Map.Remove(ctx, ref)
		}
		removed += len(gone) - 1
	}
	reply(w, map[string]int{"removed": removed})
}
