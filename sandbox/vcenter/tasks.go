package vcenter

import (
	"fmt"
	"strings"
	"sync"
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

func isOwn(task *simulator.Task) bool { return strings.HasPrefix(task.Self.Value, ownTasks) }

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

// submit answers a call with a task of the front's own, which ends as run does, or with the fault that a rule wants of it.
func (f *front) submit(c *call, run func(*simulator.Task) outcome) reference {
	c.hold = f.hold(c)
	return f.runTask(c, func(task *simulator.Task) outcome {
		defer c.hold.release(c.tell)
		end := run(task)
		if c.effect.taskFault != nil {
			end = outcome{fault: c.effect.taskFault, message: c.effect.message}
		}
		return end
	})
}

// runTask adds a task of the front's own to vCenter's. Unlike vcsim's it holds no lock on its entity while it runs. One that
// was cancelled stays so.
func (f *front) runTask(c *call, run func(*simulator.Task) outcome) reference {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	task := simulator.CreateTask(c.this, taskName(c.method), nil)
	task.Self = types.ManagedObjectReference{Type: "Task", Value: fmt.Sprintf("%s%d", ownTasks, taskCount.Add(1))}
	task.Info.Key, task.Info.Task, task.Info.Name = task.Self.Value, task.Self, c.method
	task.Info.Reason = &types.TaskReasonUser{UserName: c.user}
	describe(task)
	if e, ok := ctx.Map.Get(c.this).(mo.Entity); ok {
		task.Info.EntityName = e.Entity().Name
	}
	now := time.Now()
	task.Info.StartTime, task.Info.State = &now, types.TaskInfoStateRunning
	// It is added to the entity's list of tasks too.
	ctx.WithLock(c.this, func() { ctx.Map.Put(task) })
	go func() {
		end := run(task).changes()
		ctx.WithLock(task, func() {
			if task.Info.State == types.TaskInfoStateRunning {
				ctx.Update(task, end)
			}
		})
	}()
	return task.Self
}

// described are the ids of tasks' descriptions as vCenter has them, by vcsim's.
var described = map[string]string{
	"VirtualMachine.cloneVm":            "VirtualMachine.clone",
	"VirtualMachine.reconfigVm":         "VirtualMachine.reconfigure",
	"VirtualMachine.relocateVm":         "VirtualMachine.relocate",
	"VirtualMachine.suspendVm":          "VirtualMachine.suspend",
	"VirtualMachine.resetVm":            "VirtualMachine.reset",
	"VirtualMachine.customizeVm":        "VirtualMachine.customize",
	"VirtualMachine.revertSnapshot":     "VirtualMachine.revertToCurrentSnapshot",
	"VirtualMachine.RemoveAllSnapshots": "VirtualMachine.removeAllSnapshots",
	"VirtualMachine.removeSnapshot":     "vm.Snapshot.remove",
	"VirtualMachine.revertToSnapshot":   "vm.Snapshot.revert",
	"Folder.moveIntoFolder":             "Folder.moveInto",
	"HostSystem.disconnectHost":         "HostSystem.disconnect",
	"HostSystem.reconnectHost":          "HostSystem.reconnect",
	"Datacenter.powerOnMultiVM":         "Datacenter.powerOnVm",
}

func describe(task *simulator.Task) {
	if id, ok := described[task.Info.DescriptionId]; ok {
		task.Info.DescriptionId = id
	}
}

// isCanceled tells whether a task was cancelled while it ran.
func (f *front) isCanceled(task *simulator.Task) (canceled bool) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(task, func() { canceled = task.Info.Cancelled })
	return canceled
}

// changes are what the end of a task changes of it.
func (o outcome) changes() []types.PropertyChange {
	state := types.TaskInfoStateSuccess
	if o.fault != nil {
		state = types.TaskInfoStateError
	}
	changes := []types.PropertyChange{{Name: "info.completeTime", Val: time.Now()}, {Name: "info.state", Val: state}}
	if o.result != nil && o.fault == nil {
		changes = append(changes, types.PropertyChange{Name: "info.result", Val: o.result})
	}
	if o.fault != nil {
		fault := types.LocalizedMethodFault{Fault: o.fault, LocalizedMessage: o.message}
		changes = append(changes, types.PropertyChange{Name: "info.error", Val: fault})
	}
	return changes
}

// await waits for a task. One that is unknown has ended long ago.
func await(service *simulator.Service, ref types.ManagedObjectReference) outcome {
	task, ok := service.Context.Map.Get(ref).(*simulator.Task)
	if !ok {
		return outcome{}
	}
	// Not task.Wait: one that the front has made itself, such as one that a rule has fail, knows nothing of vcsim.
	for {
		var info types.TaskInfo
		service.Context.Map.WithLock(&simulator.Context{}, task, func() { info = task.Info })
		switch info.State {
		case types.TaskInfoStateError:
			return outcome{fault: info.Error.Fault, message: info.Error.LocalizedMessage}
		case types.TaskInfoStateSuccess:
			return outcome{result: info.Result}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// authors knows on whose behalf tasks are made. vcsim says of all of them that it made them itself.
type authors struct {
	mu    sync.Mutex
	locks map[reference]*sync.Mutex
	now   map[reference]author
}

// author is who has a task made. A part is the front's own doing, for another task which is the one that clients see.
type author struct {
	user string
	part bool
}

func (a *authors) init() { a.locks, a.now = map[reference]*sync.Mutex{}, map[reference]author{} }

// during makes every task that is added to an entity while submit runs the author's.
func (a *authors) during(entity reference, author author, submit func()) {
	a.mu.Lock()
	if a.locks[entity] == nil {
		a.locks[entity] = new(sync.Mutex)
	}
	lock := a.locks[entity]
	a.mu.Unlock()
	lock.Lock()
	defer lock.Unlock()
	a.set(entity, &author)
	defer a.set(entity, nil)
	submit()
}

func (a *authors) set(entity reference, now *author) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now == nil {
		delete(a.now, entity)
	} else {
		a.now[entity] = *now
	}
}

func (a *authors) of(entity reference) (author, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	author, ok := a.now[entity]
	return author, ok
}

// taskList lists the recent tasks with their authors, those left out that are parts of another.
type taskList struct {
	*simulator.TaskManager
	authors *authors
}

func listTasks(service *simulator.Service, authors *authors) {
	all := service.Context.Map
	if tasks, ok := all.Get(*vpx.ServiceContent.TaskManager).(*simulator.TaskManager); ok {
		all.AddHandler(taskList{tasks, authors})
	}
}

func (l taskList) PutObject(ctx *simulator.Context, obj mo.Reference) {
	task, ok := obj.(*simulator.Task)
	if !ok || isOwn(task) {
		l.TaskManager.PutObject(ctx, obj)
		return
	}
	author, known := l.authors.of(*task.Info.Entity)
	if known && author.part || !known && isHousekeeping(task) {
		return
	}
	describe(task)
	if known {
		task.Info.Reason = &types.TaskReasonUser{UserName: author.user}
	}
	if e, ok := ctx.Map.Get(*task.Info.Entity).(mo.Entity); ok {
		task.Info.EntityName = e.Entity().Name
	}
	l.TaskManager.PutObject(ctx, obj)
}

// isHousekeeping tells whether vcsim made a task for itself, such as for a destroyed machine's files.
func isHousekeeping(task *simulator.Task) bool {
	return task.Info.Entity.Type == "FileManager" || task.Info.Entity.Type == "VirtualDiskManager"
}

// failedTask is a task that takes as long as the real one would, and then fails.
func (f *front) failedTask(c *call, fault types.BaseMethodFault, message string) reference {
	return f.runTask(c, func(*simulator.Task) outcome {
		time.Sleep(f.taskDelay(taskName(c.method)))
		return outcome{fault: fault, message: message}
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
