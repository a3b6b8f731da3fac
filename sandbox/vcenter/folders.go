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

// folders knows the ways into the folders, so that they are destroyed as vCenter does: never while a clone is on its way
// in (vcsim would crash), and with all that is inside (vcsim would leave the machines without a parent).
type folders struct {
	cloneDelay time.Duration

	mu    sync.Mutex
	doors map[reference]*door
}

// door is the way into a folder: shared while a clone into it is submitted, exclusive while the folder is destroyed.
type door struct {
	sync.RWMutex
	clones sync.WaitGroup // those on their way in
	count  atomic.Int32   // of them

	making   sync.Mutex // while a machine is expected
	expected *birth
	names    sync.Map // of machines that are being made
}

func (f *folders) init(cloneDelay time.Duration) {
	f.cloneDelay, f.doors = cloneDelay, map[reference]*door{}
}

func (f *folders) door(folder reference) *door {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.doors[folder] == nil {
		f.doors[folder] = new(door)
	}
	return f.doors[folder]
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

// destroysFolder tells whether a call is for a folder's end.
func (f *front) destroysFolder(c *call) bool {
	return c.method == "Destroy_Task" && c.this.Type == "Folder" && f.service.Context.Map.Get(c.this) != nil
}

// destroyFolder is one task, whatever is inside.
func (f *front) destroyFolder(c *call) reference {
	return f.submit(c, func(*simulator.Task) outcome {
		return outcome{fault: f.destroyTree(c.this), message: "The folder could not be destroyed."}
	})
}

func (f *front) destroyTree(folder reference) types.BaseMethodFault {
	door := f.folders.door(folder)
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
func (f *front) destroyOne(ref reference) types.BaseMethodFault {
	return f.destroying(ref, func() outcome {
		return f.part(ref, func(ctx context.Context) (reference, error) {
			response, err := methods.Destroy_Task(ctx, f.service, &types.Destroy_Task{This: ref})
			if err != nil {
				return reference{}, err
			}
			return response.Returnval, nil
		})
	}).fault
}

// part has vcsim run a task on an entity as a part of one of the front's, and waits for its end.
func (f *front) part(entity reference, submit func(context.Context) (reference, error)) outcome {
	var task reference
	var err error
	f.authors.during(entity, author{part: true}, func() { task, err = submit(context.Background()) })
	if err != nil {
		return refusedWith(err, entity)
	}
	return await(f.service, task)
}
