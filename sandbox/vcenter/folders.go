package vcenter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

type reference = types.ManagedObjectReference

// folders destroys folders as vCenter does: never while a clone is on its way in (vcsim would crash), and with all that
// is inside (vcsim would leave the machines without a parent).
type folders struct {
	service *simulator.Service

	mu     sync.Mutex
	locks  map[reference]*sync.RWMutex // shared while a clone into the folder is submitted, exclusive while it is destroyed
	clones map[reference][]reference   // tasks of clones into a folder
}

func (f *folders) init(service *simulator.Service) {
	f.service, f.locks, f.clones = service, map[reference]*sync.RWMutex{}, map[reference][]reference{}
}

// cloneInto submits a clone into a folder, if the call is one, and remembers its task.
func (f *folders) cloneInto(c *call, submit func() *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	request, ok := c.clone()
	if !ok {
		return submit()
	}
	lock := f.lock(request.Folder)
	lock.RLock()
	defer lock.RUnlock()
	if dead, ok := f.missing(request); ok {
		out := httptest.NewRecorder()
		writeFault(out, "The object has already been deleted or has not been completely created.", &types.ManagedObjectNotFound{Obj: dead})
		return out
	}
	answer := submit()
	var response struct {
		Task reference `xml:"Body>CloneVM_TaskResponse>returnval"`
	}
	if answer.Code == http.StatusOK && xml.Unmarshal(answer.Body.Bytes(), &response) == nil {
		f.mu.Lock()
		f.clones[request.Folder] = append(f.clones[request.Folder], response.Task)
		f.mu.Unlock()
	}
	return answer
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

func (f *folders) destroys(c *call) bool {
	return c.method == "Destroy_Task" && c.this.Type == "Folder" && f.service.Context.Map.Get(c.this) != nil
}

func (f *folders) destroy(folder reference) reference {
	return runTask(f.service, folder, "destroy", func() (string, types.BaseMethodFault) {
		return "The folder could not be destroyed.", f.destroyTree(folder)
	})
}

func (f *folders) destroyTree(folder reference) types.BaseMethodFault {
	lock := f.lock(folder)
	lock.Lock()
	defer lock.Unlock()
	f.awaitClones(folder)
	entity, ok := f.service.Context.Map.Get(folder).(*simulator.Folder)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: folder}
	}
	for _, child := range slices.Clone(entity.ChildEntity) {
		destroy := f.destroyOne
		if child.Type == "Folder" {
			destroy = f.destroyTree
		}
		if fault := destroy(child); fault != nil {
			return fault
		}
	}
	return f.destroyOne(folder)
}

// destroyOne has vcsim destroy one object, and waits for it.
func (f *folders) destroyOne(ref reference) types.BaseMethodFault {
	response, err := methods.Destroy_Task(context.Background(), f.service, &types.Destroy_Task{This: ref})
	if err != nil {
		return &types.ManagedObjectNotFound{Obj: ref}
	}
	if task := f.await(response.Returnval); task != nil && task.Info.Error != nil {
		return task.Info.Error.Fault
	}
	return nil
}

func (f *folders) awaitClones(folder reference) {
	f.mu.Lock()
	tasks := f.clones[folder]
	delete(f.clones, folder)
	f.mu.Unlock()
	for _, task := range tasks {
		f.await(task)
	}
}

func (f *folders) await(ref reference) *simulator.Task {
	task, ok := f.service.Context.Map.Get(ref).(*simulator.Task)
	if !ok {
		return nil
	}
	task.Wait()
	return task
}

func (f *folders) lock(folder reference) *sync.RWMutex {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.locks[folder] == nil {
		f.locks[folder] = new(sync.RWMutex)
	}
	return f.locks[folder]
}
