package vcenter

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/vmware/govmomi/simulator"
)

// departures are the hosts that were taken out of the inventory, by name.
type departures struct {
	mu   sync.Mutex
	away map[string]*departure
}

// departure is a host that is away with its machines, and where they were.
type departure struct {
	host     *simulator.HostSystem
	machines []*simulator.VirtualMachine
	places   map[reference][]place
}

// deleteHost takes a host with its machines out of the inventory: no task tells of it, and their names are free.
func (f *front) deleteHost(w http.ResponseWriter, r *http.Request) {
	entity, err := f.entity("HostSystem", r.PathValue("host"))
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	host, ok := entity.(*simulator.HostSystem)
	if !ok {
		refuse(w, http.StatusNotFound, fmt.Errorf("%s is no host", r.PathValue("host")))
		return
	}
	f.departures.mu.Lock()
	defer f.departures.mu.Unlock()
	d := &departure{host: host}
	for _, vm := range f.machines() {
		if vm.Runtime.Host != nil && *vm.Runtime.Host == host.Self {
			d.machines = append(d.machines, vm)
		}
	}
	f.quiesce(d)
	gone := map[reference]bool{host.Self: true}
	for _, vm := range d.machines {
		gone[vm.Self] = true
	}
	d.places = f.unlist(gone)
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	for ref := range gone {
		ctx.Map.Remove(ctx, ref)
	}
	if f.departures.away == nil {
		f.departures.away = map[string]*departure{}
	}
	f.departures.away[host.Name] = d
	reply(w, map[string]int{"machines": len(d.machines)})
}

// quiesce waits for the tasks on a host and its machines: vcsim crashes when they go meanwhile.
func (f *front) quiesce(d *departure) {
	entities := map[reference]bool{d.host.Self: true}
	for _, vm := range d.machines {
		entities[vm.Self] = true
	}
	for _, object := range f.service.Context.Map.AllReference("Task") {
		if task, ok := object.(*simulator.Task); ok && task.Info.Entity != nil && entities[*task.Info.Entity] && !isOwn(task) {
			task.Wait()
		}
	}
}

// postHost brings a host and its machines back, under new ids, and all else as it was.
func (f *front) postHost(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("host")
	f.departures.mu.Lock()
	defer f.departures.mu.Unlock()
	d, ok := f.departures.away[name]
	if !ok {
		refuse(w, http.StatusNotFound, fmt.Errorf("no host called %q is away", name))
		return
	}
	delete(f.departures.away, name)
	f.bringBackHost(d)
	for _, vm := range d.machines {
		f.bringBackMachine(d, vm)
	}
	reply(w, map[string]int{"machines": len(d.machines)})
}

func (f *front) bringBackHost(d *departure) {
	all := f.service.Context.Map
	old := d.host.Self
	all.NewEntity(d.host)
	now := d.host.Self
	d.host.Config.Host, d.host.Vm = now, nil
	f.enlist(now, d.places[old])
	f.replaceMember(old, now)
	all.Put(d.host)
}

// replaceMember has storage and switches know a host by its new id.
func (f *front) replaceMember(old, now reference) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	for _, entity := range ctx.Map.All("") {
		ctx.WithLock(entity, func() {
			switch member := entity.(type) {
			case *simulator.Datastore:
				for i := range member.Host {
					if member.Host[i].Key == old {
						member.Host[i].Key = now
					}
				}
			case *simulator.DistributedVirtualSwitch:
				replace(member.Summary.HostMember, old, now)
			}
		})
	}
}

func replace(refs []reference, old, now reference) {
	if at := slices.Index(refs, old); at >= 0 {
		refs[at] = now
	}
}

// bringBackMachine puts a machine where it was; in the datacenter's folder if its own is gone, and under another name if
// somebody has that by now.
func (f *front) bringBackMachine(d *departure, vm *simulator.VirtualMachine) {
	all := f.service.Context.Map
	old := vm.Self
	places := d.places[old]
	if all.Get(*vm.Parent) == nil {
		folder := f.machineFolder(d.host.Self)
		vm.Parent = &folder
		places = append(places, place{folder, "ChildEntity"})
	}
	name := vm.Name
	for i := 1; ; i++ {
		if _, taken := f.childNamed(*vm.Parent, vm.Name); !taken {
			break
		}
		vm.Name = fmt.Sprintf("%s (%d)", name, i)
	}
	vm.Config.Name, vm.Summary.Config.Name = vm.Name, vm.Name
	all.NewEntity(vm)
	host := d.host.Self
	vm.Runtime.Host, vm.Summary.Runtime.Host = &host, &host
	f.enlist(vm.Self, append(places, place{host, "Vm"}))
	all.Put(vm)
}

// machineFolder is the folder of all machines in an object's datacenter.
func (f *front) machineFolder(ref reference) reference {
	for _, ancestor := range f.ancestors(ref) {
		if datacenter, ok := f.service.Context.Map.Get(ancestor).(*simulator.Datacenter); ok {
			return datacenter.VmFolder
		}
	}
	return reference{}
}
