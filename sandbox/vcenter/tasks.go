package vcenter

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

var taskCount atomic.Int64

// runTask adds a task of the front's own to vCenter's. Unlike vcsim's it holds no lock on its entity while it runs.
func runTask(service *simulator.Service, entity types.ManagedObjectReference, name string, run func() (string, types.BaseMethodFault)) types.ManagedObjectReference {
	ctx := service.Context.For(service.Context.Map.Path)
	task := simulator.CreateTask(entity, name, nil)
	task.Self = types.ManagedObjectReference{Type: "Task", Value: fmt.Sprintf("task-f%d", taskCount.Add(1))}
	task.Info.Key, task.Info.Task = task.Self.Value, task.Self
	if e, ok := ctx.Map.Get(entity).(mo.Entity); ok {
		task.Info.EntityName = e.Entity().Name
	}
	now := time.Now()
	task.Info.StartTime, task.Info.State = &now, types.TaskInfoStateRunning
	ctx.Map.Put(task)
	go func() {
		message, fault := run()
		changes := []types.PropertyChange{
			{Name: "info.completeTime", Val: time.Now()},
			{Name: "info.state", Val: types.TaskInfoStateSuccess},
		}
		if fault != nil {
			changes[1].Val = types.TaskInfoStateError
			changes = append(changes, types.PropertyChange{Name: "info.error", Val: types.LocalizedMethodFault{Fault: fault, LocalizedMessage: message}})
		}
		ctx.Map.AtomicUpdate(ctx, task, changes)
	}()
	return task.Self
}

// failedTask is a task that takes as long as the real one would, and then fails.
func (f *front) failedTask(c *call, e effect) types.ManagedObjectReference {
	name := taskName(c.method)
	return runTask(f.service, c.this, name, func() (string, types.BaseMethodFault) {
		key := strings.ToUpper(name[:1]) + name[1:]
		time.Sleep(time.Duration(simulator.TaskDelay.MethodDelay[key]) * time.Millisecond)
		return e.message, e.taskFault
	})
}

// taskName is the name that vcsim gives the task of a method: cloneVm for CloneVM_Task, powerOn for PowerOnVM_Task.
func taskName(method string) string {
	name := strings.TrimSuffix(method, "_Task")
	if power, ok := strings.CutSuffix(name, "VM"); ok && strings.HasPrefix(name, "Power") {
		name = power
	}
	name = strings.Replace(name, "VM", "Vm", 1)
	return strings.ToLower(name[:1]) + name[1:]
}
