package vcenter

import (
	"net/http"
	"net/http/httptest"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// hostState is what a host's load or its administrator would change. What is not given stays as it is.
type hostState struct {
	Name     *string                    `json:"name"`
	CPUMHz   *int32                     `json:"cpuMHz"`
	MemoryMB *int32                     `json:"memoryMB"`
	Status   *types.ManagedEntityStatus `json:"status"`
}

func (f *front) patchHost(w http.ResponseWriter, r *http.Request) {
	var s hostState
	if !take(w, r, &s) {
		return
	}
	if err := f.setHost(r.PathValue("host"), s); err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	reply(w, struct{}{})
}

// setHost changes a host, named by its name or reference.
func (f *front) setHost(name string, s hostState) error {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	host, err := f.entity("HostSystem", name)
	if err != nil {
		return err
	}
	ctx.WithLock(host, func() { ctx.Update(host, s.changes()) })
	return nil
}

func (s hostState) changes() []types.PropertyChange {
	var changes []types.PropertyChange
	set := func(name string, value any) { changes = append(changes, types.PropertyChange{Name: name, Val: value}) }
	if s.Name != nil {
		set("name", *s.Name)
		set("summary.config.name", *s.Name)
	}
	if s.CPUMHz != nil {
		set("summary.quickStats.overallCpuUsage", *s.CPUMHz)
	}
	if s.MemoryMB != nil {
		set("summary.quickStats.overallMemoryUsage", *s.MemoryMB)
	}
	if s.Status != nil {
		set("overallStatus", *s.Status)
		set("summary.overallStatus", *s.Status)
	}
	return changes
}

// announce tells those who watch what a call has changed, where vcsim changes an object without a word.
func (f *front) announce(c *call, out *httptest.ResponseRecorder) {
	if out.Code != http.StatusOK {
		return
	}
	switch c.method {
	case "EnterMaintenanceMode_Task", "ExitMaintenanceMode_Task", "DisconnectHost_Task", "ReconnectHost_Task":
		go f.announceHost(c.this, taskOf(out))
	case "AddHost_Task":
		go f.announceNewHost(taskOf(out))
	case "CreateResourcePool":
		f.announceNew(taskOf(out)) // it is no task: what is returned is the pool
	case "CreateClusterEx":
		f.announcePool(taskOf(out)) // neither is this: it is the cluster
	case "MoveIntoFolder_Task":
		go f.announceMoved(c, taskOf(out))
	case "SetField":
		f.announceField(c)
	case "MarkAsTemplate", "MarkAsVirtualMachine":
		f.announceTemplate(c.this)
	}
}

func taskOf(out *httptest.ResponseRecorder) reference {
	var response struct {
		Body struct {
			Any struct {
				Task reference `xml:"returnval"`
			} `xml:",any"`
		} `xml:"Body"`
	}
	// What isn't a task's reference is none, and is waited for by nobody.
	_ = xml.Unmarshal(out.Body.Bytes(), &response)
	return response.Body.Any.Task
}

func (f *front) announceHost(ref, task reference) {
	await(f.service, task)
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	host, ok := ctx.Map.Get(ref).(*simulator.HostSystem)
	if !ok {
		return
	}
	ctx.WithLock(host, func() {
		ctx.Update(host, []types.PropertyChange{
			{Name: "runtime.inMaintenanceMode", Val: host.Runtime.InMaintenanceMode},
			{Name: "runtime.connectionState", Val: host.Runtime.ConnectionState},
		})
	})
}

// announceTemplate tells of a machine that has become a template, or is one no more.
func (f *front) announceTemplate(ref reference) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	if vm, ok := ctx.Map.Get(ref).(*simulator.VirtualMachine); ok {
		ctx.WithLock(vm, func() {
			ctx.Update(vm, []types.PropertyChange{{Name: "config.template", Val: vm.Config.Template}})
		})
	}
}

func (f *front) announceNewHost(ref reference) {
	if host, ok := await(f.service, ref).result.(reference); ok {
		f.announceNew(host)
	}
}

// announcePool tells of the resource pool that a new cluster has by itself.
func (f *front) announcePool(cluster reference) {
	object := f.service.Context.Map.Get(cluster)
	if made, ok := object.(*simulator.ClusterComputeResource); ok && made.ResourcePool != nil {
		f.announceNew(*made.ResourcePool)
	}
}

// announceNew has container views look again: vcsim asks them before the object is in what it is made in.
func (f *front) announceNew(ref reference) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	if object := ctx.Map.Get(ref); object != nil {
		ctx.Map.Put(object)
	}
}

func (f *front) announceField(c *call) {
	request, ok := c.request().(*types.SetField)
	if !ok {
		return
	}
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	object := ctx.Map.Get(request.Entity)
	entity, ok := object.(mo.Entity)
	if !ok {
		return
	}
	ctx.WithLock(object, func() {
		ctx.Update(object, []types.PropertyChange{
			{Name: "availableField", Val: entity.Entity().AvailableField},
			{Name: "customValue", Val: entity.Entity().CustomValue},
		})
	})
}
