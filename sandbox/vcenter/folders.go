package vcenter

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

type reference = types.ManagedObjectReference

// folders destroys folders as vCenter does: never while a clone is on its way in (vcsim would crash), and with all that
// is inside (vcsim would leave the machines without a parent).
type folders struct {
	service    *simulator.Service
	cloneDelay time.Duration

	mu     sync.Mutex
	doors  map[reference]*door
	waking map[reference]bool // machines that a clone powers on
}

// door is the way into a folder: shared while a clone into it is submitted, exclusive while the folder is destroyed.
type door struct {
	sync.RWMutex
	clones sync.WaitGroup // those on their way in
	count  atomic.Int32   // of them
}

func (f *folders) init(service *simulator.Service, cloneDelay time.Duration) {
	f.service, f.cloneDelay = service, cloneDelay
	f.doors, f.waking = map[reference]*door{}, map[reference]bool{}
}

func (f *folders) destroys(c *call) bool {
	return c.method == "Destroy_Task" && c.this.Type == "Folder" && f.service.Context.Map.Get(c.this) != nil
}

func (f *folders) destroy(folder reference) reference {
	return runTask(f.service, folder, "destroy", func() outcome {
		return outcome{fault: f.destroyTree(folder), message: "The folder could not be destroyed."}
	})
}

func (f *folders) destroyTree(folder reference) types.BaseMethodFault {
	door := f.door(folder)
	door.Lock()
	defer door.Unlock()
	door.clones.Wait()
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
	return await(f.service, response.Returnval).fault
}

func (f *folders) door(folder reference) *door {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.doors[folder] == nil {
		f.doors[folder] = new(door)
	}
	return f.doors[folder]
}
