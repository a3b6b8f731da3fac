package vcenter

import (
	"net/http"

	"github.com/vmware/govmomi/vim25/types"
)

// ownTask submits a task of the front's own where vcsim's would not do all that vCenter's does.
func (f *front) ownTask(r *http.Request, c *call, request any) (task reference, ok bool) {
	if reconfigure, ok := changesDisks(request); ok {
		return f.reconfigureDisks(r, c, reconfigure), true
	}
	if task, ok := f.snapshotTask(r, c, request); ok {
		return task, true
	}
	switch request := request.(type) {
	case *types.RegisterVM_Task:
		return f.register(c, request), true
	case *types.Destroy_Task:
		if f.needsCare(c.this) {
			return f.destroyMachine(r, c, request), true
		}
	case *types.ExtendVirtualDisk_Task:
		return f.extend(c, request)
	case *types.CopyVirtualDisk_Task:
		return f.copyDisk(r, c, request), true
	case *types.PowerOnVM_Task:
		if f.sharesDisks(c.this) {
			return f.powerOn(r, c, request), true
		}
	}
	return reference{}, false
}
