package vcenter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// What others do is done by this user, to at most so many machines at a time.
const (
	noiseUser     = `VSPHERE.LOCAL\Noise`
	noiseMachines = 50
)

// noise is what others do all the time.
type noise struct {
	mu   sync.Mutex
	stop chan struct{}
}

func (f *front) postNoise(w http.ResponseWriter, r *http.Request) {
	var n struct{ Rate float64 }
	if !take(w, r, &n) {
		return
	}
	if n.Rate < 0 || n.Rate > 1000 {
		refuse(w, http.StatusBadRequest, fmt.Errorf("rate %v: give changes in a second, 0 for none", n.Rate))
		return
	}
	f.noise.mu.Lock()
	defer f.noise.mu.Unlock()
	if f.noise.stop != nil {
		close(f.noise.stop)
		f.noise.stop = nil
	}
	if n.Rate > 0 {
		crowd, err := f.newCrowd("noise")
		if err != nil {
			refuse(w, http.StatusNotFound, err)
			return
		}
		f.noise.stop = make(chan struct{})
		go crowd.run(f.noise.stop, time.Duration(float64(time.Second)/n.Rate))
	}
	reply(w, struct{}{})
}

// crowd is other people with machines of their own in a folder.
type crowd struct {
	*front
	folder, pool reference
	datastore    string
	machines     []reference
	made         int
}

// newCrowd makes the folder in the first datacenter, or takes that which is there.
func (f *front) newCrowd(folder string) (*crowd, error) {
	c := &crowd{front: f}
	for _, entity := range f.service.Context.Map.All("ClusterComputeResource") {
		cluster, ok := entity.(*simulator.ClusterComputeResource)
		if !ok || len(cluster.Datastore) == 0 {
			continue
		}
		c.folder, c.pool = f.machineFolder(cluster.Self), *cluster.ResourcePool
		if datastore, ok := f.service.Context.Map.Get(cluster.Datastore[0]).(*simulator.Datastore); ok {
			c.datastore = datastore.Name
		}
	}
	if c.datastore == "" {
		return nil, errors.New("there is no cluster with a datastore")
	}
	if there, ok := f.childNamed(c.folder, folder); ok {
		c.folder = there
		return c, nil
	}
	made, err := methods.CreateFolder(context.Background(), f.service, &types.CreateFolder{This: c.folder, Name: folder})
	if err != nil {
		return nil, fmt.Errorf("making the folder %s: %w", folder, err)
	}
	c.folder = made.Returnval
	return c, nil
}

// run changes something at every beat.
func (c *crowd) run(stop <-chan struct{}, beat time.Duration) {
	c.machines = c.descendants(c.folder)[1:]
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			c.change()
		}
	}
}

// change makes, changes or destroys a machine.
func (c *crowd) change() {
	if len(c.machines) == 0 || len(c.machines) < noiseMachines && rand.IntN(3) == 0 {
		c.make()
		return
	}
	at := rand.IntN(len(c.machines))
	machine := c.machines[at]
	if c.service.Context.Map.Get(machine) == nil { // somebody else was at it
		c.machines = slices.Delete(c.machines, at, at+1)
		return
	}
	switch rand.IntN(5) {
	case 0:
		c.do(machine, &types.Rename_Task{This: machine, NewName: c.name()})
	case 1:
		c.do(machine, &types.PowerOnVM_Task{This: machine})
	case 2:
		c.do(machine, &types.PowerOffVM_Task{This: machine})
	case 3:
		c.do(machine, &types.ReconfigVM_Task{This: machine, Spec: types.VirtualMachineConfigSpec{Annotation: c.name()}})
	default:
		if c.do(machine, &types.Destroy_Task{This: machine}).fault == nil {
			c.machines = slices.Delete(c.machines, at, at+1)
		}
	}
}

func (c *crowd) name() string {
	c.made++
	return fmt.Sprintf("noise-%d-%d", c.made, rand.Uint32())
}

func (c *crowd) make() {
	name := c.name()
	config := types.VirtualMachineConfigSpec{
		Name: name, GuestId: string(types.VirtualMachineGuestOsIdentifierOtherGuest),
		Files: &types.VirtualMachineFileInfo{VmPathName: fmt.Sprintf("[%s] %s", c.datastore, name)},
	}
	if machine, ok := c.do(c.folder, &types.CreateVM_Task{This: c.folder, Config: config, Pool: c.pool}).result.(reference); ok {
		c.machines = append(c.machines, machine)
	}
}

// do submits a task as somebody else, and waits for its end.
func (c *crowd) do(entity reference, request any) outcome {
	var task reference
	var err error
	c.authors.during(entity, author{user: noiseUser}, func() { task, err = c.submitFor(request) })
	if err != nil {
		return refusedWith(err, entity)
	}
	return await(c.service, task)
}

func (c *crowd) submitFor(request any) (task reference, err error) {
	ctx := context.Background()
	switch request := request.(type) {
	case *types.CreateVM_Task:
		response, err := methods.CreateVM_Task(ctx, c.service, request)
		if err != nil {
			return task, err
		}
		return response.Returnval, nil
	case *types.Rename_Task:
		response, err := methods.Rename_Task(ctx, c.service, request)
		if err != nil {
			return task, err
		}
		return response.Returnval, nil
	case *types.PowerOnVM_Task:
		response, err := methods.PowerOnVM_Task(ctx, c.service, request)
		if err != nil {
			return task, err
		}
		return response.Returnval, nil
	case *types.PowerOffVM_Task:
		response, err := methods.PowerOffVM_Task(ctx, c.service, request)
		if err != nil {
			return task, err
		}
		return response.Returnval, nil
	case *types.ReconfigVM_Task:
		response, err := methods.ReconfigVM_Task(ctx, c.service, request)
		if err != nil {
			return task, err
		}
		return response.Returnval, nil
	case *types.Destroy_Task:
		response, err := methods.Destroy_Task(ctx, c.service, request)
		if err != nil {
			return task, err
		}
		return response.Returnval, nil
	}
	return task, fmt.Errorf("%T is nothing that others do", request)
}
