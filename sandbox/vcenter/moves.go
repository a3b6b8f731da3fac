package vcenter

import (
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

func (f *front) announceMoved(c *call, ref reference) {
	move, ok := c.request().(*types.MoveIntoFolder_Task)
	if !ok || await(f.service, ref).fault != nil {
		return
	}
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	for _, child := range move.List {
		if entity, ok := ctx.Map.Get(child).(mo.Entity); ok {
			parent := types.PropertyChange{Name: "parent", Val: move.This}
			ctx.WithLock(entity, func() { ctx.Update(entity, []types.PropertyChange{parent}) })
		}
	}
	f.collectors.chooseAgain()
}
