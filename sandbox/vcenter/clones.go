package vcenter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// clone answers a clone, if the call is one, with a task that ends when its time is over and the machine is as the spec has
// it. vcsim makes the machine half-way: it makes one after the other, and would be late with many at the end. What it refuses
// at once is refused at once.
func (f *folders) clone(c *call, submit func() *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	request, ok := c.clone()
	if !ok {
		return submit()
	}
	door := f.door(request.Folder)
	door.RLock()
	defer door.RUnlock()
	out := httptest.NewRecorder()
	if dead, ok := f.missing(request); ok {
		writeFault(out, "The object has already been deleted or has not been completely created.", &types.ManagedObjectNotFound{Obj: dead})
		return out
	}
	door.enter()
	end := time.Now().Add(f.cloneDelay)
	answer := submit()
	part, ok := cloneTask(answer)
	if !ok {
		door.leave()
		return answer
	}
	writeTask(out, c.method, runTask(f.service, c.this, taskName(c.method), func() outcome {
		defer door.leave()
		return f.finishClone(part, end, request.Spec.PowerOn)
	}))
	return out
}

// cloning is how many clones are under way.
func (f *folders) cloning() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := 0
	for _, d := range f.doors {
		sum += int(d.count.Load())
	}
	return sum
}

func (d *door) enter() { d.clones.Add(1); d.count.Add(1) }
func (d *door) leave() { d.clones.Done(); d.count.Add(-1) }

// finishClone waits for vcsim's clone and for the end, and powers the machine on where that is asked for. One that can't be
// powered on stays.
func (f *folders) finishClone(part reference, end time.Time, powerOn bool) outcome {
	cloned := await(f.service, part)
	machine, ok := cloned.result.(reference)
	if !ok {
		return cloned
	}
	time.Sleep(time.Until(end))
	if !powerOn {
		return cloned
	}
	f.wakes(machine, true)
	response, err := methods.PowerOnVM_Task(context.Background(), f.service, &types.PowerOnVM_Task{This: machine})
	f.wakes(machine, false)
	if err != nil {
		return failure(&types.ManagedObjectNotFound{Obj: machine})
	}
	if on := await(f.service, response.Returnval); on.fault != nil && !isOn(on.fault) {
		return on
	}
	return cloned
}

// isOn tells whether a machine could not be powered on for being so already: somebody was faster.
func isOn(fault types.BaseMethodFault) bool {
	state, ok := fault.(*types.InvalidPowerState)
	return ok && state.ExistingState == types.VirtualMachinePowerStatePoweredOn
}

// isPart tells whether a task of vcsim's is a part of a clone: the task that clients know of is the front's.
func (f *folders) isPart(task *simulator.Task) bool {
	switch task.Info.DescriptionId {
	case "VirtualMachine.cloneVm":
		return !strings.HasPrefix(task.Self.Value, ownTasks)
	case "Folder.createVm":
		return f.door(*task.Info.Entity).count.Load() > 0
	case "VirtualMachine.powerOn":
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.waking[*task.Info.Entity]
	}
	return false
}

func (f *folders) wakes(machine reference, now bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now {
		f.waking[machine] = true
	} else {
		delete(f.waking, machine)
	}
}

func (c *call) clone() (*types.CloneVM_Task, bool) {
	if c.method != "CloneVM_Task" {
		return nil, false
	}
	method, err := simulator.UnmarshalBody(typeOf, c.body)
	if err != nil {
		return nil, false
	}
	request, ok := method.Body.(*types.CloneVM_Task)
	return request, ok
}

func cloneTask(answer *httptest.ResponseRecorder) (reference, bool) {
	var response struct {
		Task reference `xml:"Body>CloneVM_TaskResponse>returnval"`
	}
	ok := answer.Code == http.StatusOK && xml.Unmarshal(answer.Body.Bytes(), &response) == nil
	return response.Task, ok
}

// missing finds an object of the request that is no more. vcsim panics on most of them.
func (f *folders) missing(request *types.CloneVM_Task) (reference, bool) {
	location := request.Spec.Location
	for _, ref := range []*reference{&request.Folder, location.Folder, location.Pool, location.Host, location.Datastore} {
		if ref != nil && f.service.Context.Map.Get(*ref) == nil {
			return *ref, true
		}
	}
	return reference{}, false
}
