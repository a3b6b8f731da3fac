package vcenter

import (
	"context"
	"net/http/httptest"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// clone answers a clone with a task that ends when its time is over and the machine is as the spec has it. The machine is
// made half-way: vcsim makes one after the other, and would be late with many at the end. What can't be is refused at once.
func (f *front) clone(c *call, request *types.CloneVM_Task) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	door := f.folders.door(request.Folder)
	door.RLock()
	defer door.RUnlock()
	if dead, ok := f.missing(request); ok {
		writeFault(out, "The object has already been deleted or has not been completely created.", &types.ManagedObjectNotFound{Obj: dead})
		return out
	}
	door.enter()
	asked := time.Now()
	writeTask(out, c.method, f.submit(c, func(task *simulator.Task) outcome {
		defer door.leave()
		began, leave := f.takeTurn(asked, request)
		defer leave()
		return f.runClone(c, task, request, began.Add(f.folders.cloneDelay))
	}))
	return out
}

// runClone makes a clone's machine half-way, shows its config when it is nearly over, and powers it on at the end where that
// is asked for. A machine that can't be powered on stays; that of a cancelled clone doesn't.
func (f *front) runClone(c *call, task *simulator.Task, request *types.CloneVM_Task, end time.Time) outcome {
	time.Sleep(time.Until(end) / 2)
	if f.isCanceled(task) {
		return failure(&types.RequestCanceled{})
	}
	cloned := f.makeClone(c, request)
	machine, ok := cloned.result.(reference)
	if !ok {
		return cloned
	}
	time.Sleep(time.Until(end) / 2)
	f.sight.settle(machine)
	f.collectors.touch(machine, false)
	time.Sleep(time.Until(end))
	if f.isCanceled(task) {
		f.destroyOne(machine)
		return failure(&types.RequestCanceled{})
	}
	if !request.Spec.PowerOn {
		return cloned
	}
	on := f.powerOnPart(machine)
	if on.fault != nil && !isOn(on.fault) {
		return on
	}
	return cloned
}

// makeClone has vcsim make the machine.
func (f *front) makeClone(c *call, request *types.CloneVM_Task) outcome {
	source, ok := f.service.Context.Map.Get(request.This).(*simulator.VirtualMachine)
	if !ok {
		return failure(&types.ManagedObjectNotFound{Obj: request.This})
	}
	door := f.folders.door(request.Folder)
	if _, taken := door.names.LoadOrStore(request.Name, true); taken {
		return failure(&types.DuplicateName{Name: request.Name, Object: request.Folder})
	}
	defer door.names.Delete(request.Name)
	if twin, ok := f.childNamed(request.Folder, request.Name); ok {
		return failure(&types.DuplicateName{Name: request.Name, Object: twin})
	}
	create, fault := f.cloneRequest(source, request)
	if fault != nil {
		return failure(fault)
	}
	made := f.create(c, request.Folder, func(ctx context.Context) (reference, error) {
		response, err := methods.CreateVM_Task(ctx, f.service, create)
		if err != nil {
			return reference{}, err
		}
		return response.Returnval, nil
	})
	machine, ok := made.result.(reference)
	if !ok {
		return made
	}
	if fault := f.customizeClone(machine, request.Spec.Customization); fault != nil {
		f.destroyOne(machine)
		return failure(fault)
	}
	if request.Spec.Template {
		if _, err := methods.MarkAsTemplate(context.Background(), f.service, &types.MarkAsTemplate{This: machine}); err != nil {
			return refusedWith(err, machine)
		}
	}
	return made
}

// birth is a machine that is being made.
type birth struct {
	machine chan reference // takes it as soon as it is there
	hold    *hold          // it isn't told of until then
}

// create has vcsim make a machine, one at a time in a folder, so that it is known whose it is. It has no config until it is
// settled.
func (f *front) create(c *call, folder reference, submit func(context.Context) (reference, error)) outcome {
	door := f.folders.door(folder)
	made := make(chan outcome, 1)
	birth := &birth{machine: make(chan reference, 1), hold: c.hold}
	door.making.Lock()
	f.expect(door, birth)
	go func() { made <- f.part(folder, submit) }()
	select {
	case machine := <-birth.machine:
		door.making.Unlock()
		end := <-made
		if end.fault != nil {
			f.sight.settle(machine)
		}
		return end
	case end := <-made: // nothing came of it
		f.expect(door, nil)
		door.making.Unlock()
		return end
	}
}

func (f *front) expect(door *door, birth *birth) {
	f.folders.mu.Lock()
	defer f.folders.mu.Unlock()
	door.expected = birth
}

// noteBirth takes up that vcsim has made a machine: one that was expected has no config yet. One that has a name was only moved.
// The object is locked.
func (f *front) noteBirth(obj mo.Reference) {
	vm, ok := obj.(*simulator.VirtualMachine)
	if !ok || vm.Parent == nil || vm.Name != "" {
		return
	}
	f.folders.mu.Lock()
	defer f.folders.mu.Unlock()
	door := f.folders.doors[*vm.Parent]
	if door == nil || door.expected == nil {
		return
	}
	f.sight.conceive(vm.Self)
	door.expected.hold.add(vm.Self)
	door.expected.machine <- vm.Self
	door.expected = nil
}

// isOn tells whether a machine could not be powered on for being so already: somebody was faster.
func isOn(fault types.BaseMethodFault) bool {
	state, ok := fault.(*types.InvalidPowerState)
	return ok && state.ExistingState == types.VirtualMachinePowerStatePoweredOn
}

// childNamed finds what has a name in a folder.
func (f *front) childNamed(folder reference, name string) (found reference, ok bool) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	parent, isFolder := ctx.Map.Get(folder).(*simulator.Folder)
	if !isFolder {
		return reference{}, false
	}
	ctx.WithLock(parent, func() {
		if child := ctx.Map.FindByName(name, parent.ChildEntity); child != nil {
			found, ok = child.Reference(), true
		}
	})
	return found, ok
}

// missing finds an object of the request that is no more. vcsim panics on most of them.
func (f *front) missing(request *types.CloneVM_Task) (reference, bool) {
	location := request.Spec.Location
	for _, ref := range []*reference{&request.This, &request.Folder, location.Folder, location.Pool, location.Host, location.Datastore} {
		if ref != nil && f.service.Context.Map.Get(*ref) == nil {
			return *ref, true
		}
	}
	return reference{}, false
}

// refusedWith is the end of a task whose part vcsim has refused.
func refusedWith(err error, entity reference) outcome {
	if soap.IsSoapFault(err) {
		if fault, ok := soap.ToSoapFault(err).VimFault().(types.BaseMethodFault); ok {
			return failure(fault)
		}
	}
	return failure(&types.ManagedObjectNotFound{Obj: entity})
}
