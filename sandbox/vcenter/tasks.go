package vcenter

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/vpx"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// ownTasks begin with this, so that they are told from vcsim's.
const ownTasks = "task-f"

var taskCount atomic.Int64

// outcome is how a task ends: with a result, if it has one, or with a fault.
type outcome struct {
	result  types.AnyType
	fault   types.BaseMethodFault
	message string
}

// failure is a fault with the message that vcsim would give it.
func failure(fault types.BaseMethodFault) outcome {
	return outcome{fault: fault, message: fmt.Sprintf("%T", fault)}
}

// runTask adds a task of the front's own to vCenter's. Unlike vcsim's it holds no lock on its entity while it runs.
func runTask(service *simulator.Service, entity types.ManagedObjectReference, name string, run func() outcome) types.ManagedObjectReference {
	ctx := service.Context.For(service.Context.Map.Path)
	task := simulator.CreateTask(entity, name, nil)
	task.Self = types.ManagedObjectReference{Type: "Task", Value: fmt.Sprintf("%s%d", ownTasks, taskCount.Add(1))}
	task.Info.Key, task.Info.Task = task.Self.Value, task.Self
	if e, ok := ctx.Map.Get(entity).(mo.Entity); ok {
		task.Info.EntityName = e.Entity().Name
	}
	now := time.Now()
	task.Info.StartTime, task.Info.State = &now, types.TaskInfoStateRunning
	// It is added to the entity's list of tasks too.
	ctx.WithLock(entity, func() { ctx.Map.Put(task) })
	go func() { ctx.Map.AtomicUpdate(ctx, task, run().changes()) }()
	return task.Self
}

// changes are what the end of a task changes of it.
func (o outcome) changes() []types.PropertyChange {
	state := types.TaskInfoStateSuccess
	if o.fault != nil {
		state = types.TaskInfoStateError
	}
	changes := []types.PropertyChange{{Name: "info.completeTime", Val: time.Now()}, {Name: "info.state", Val: state}}
	if o.result != nil {
		changes = append(changes, types.PropertyChange{Name: "info.result", Val: o.result})
	}
	if o.fault != nil {
		fault := types.LocalizedMethodFault{Fault: o.fault, LocalizedMessage: o.message}
		changes = append(changes, types.PropertyChange{Name: "info.error", Val: fault})
	}
	return changes
}

// await waits for a task of vcsim's. One that is unknown has ended long ago.
func await(service *simulator.Service, ref types.ManagedObjectReference) outcome {
	task, ok := service.Context.Map.Get(ref).(*simulator.Task)
	if !ok {
		return outcome{}
	}
	task.Wait()
	if failed := task.Info.Error; failed != nil {
		return outcome{fault: failed.Fault, message: failed.LocalizedMessage}
	}
	return outcome{result: task.Info.Result}
}

// taskList lists the recent tasks, those left out that are parts of another.
type taskList struct {
	*simulator.TaskManager
	isPart func(*simulator.Task) bool
}

func listTasks(service *simulator.Service, isPart func(*simulator.Task) bool) {
	all := service.Context.Map
	if tasks, ok := all.Get(*vpx.ServiceContent.TaskManager).(*simulator.TaskManager); ok {
		all.AddHandler(taskList{tasks, isPart})
	}
}

func (l taskList) PutObject(ctx *simulator.Context, obj mo.Reference) {
	if task, ok := obj.(*simulator.Task); ok && l.isPart(task) {
		return
	}
	l.TaskManager.PutObject(ctx, obj)
}

// failedTask is a task that takes as long as the real one would, and then fails.
func (f *front) failedTask(c *call, e effect) types.ManagedObjectReference {
	name := taskName(c.method)
	return runTask(f.service, c.this, name, func() outcome {
		time.Sleep(f.taskDelay(name))
		return outcome{fault: e.taskFault, message: e.message}
	})
}

// taskDelay is how long a task of this name takes.
func (f *front) taskDelay(name string) time.Duration {
	if name == "cloneVm" {
		return f.folders.cloneDelay
	}
	key := strings.ToUpper(name[:1]) + name[1:]
	return time.Duration(simulator.TaskDelay.MethodDelay[key]) * time.Millisecond
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
