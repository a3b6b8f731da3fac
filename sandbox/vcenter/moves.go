package vcenter

import (
	"net/http/httptest"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// tellMoved has vcsim tell of the new parent of what was moved: it changes it without a word, and vCenter doesn't.
func (f *front) tellMoved(c *call, out *httptest.ResponseRecorder) {
	var response struct {
		Task reference `xml:"Body>MoveIntoFolder_TaskResponse>returnval"`
	}
	request, err := simulator.UnmarshalBody(typeOf, c.body)
	if err != nil || xml.Unmarshal(out.Body.Bytes(), &response) != nil {
		return
	}
	move, ok := request.Body.(*types.MoveIntoFolder_Task)
	if !ok {
		return
	}
	go func() {
		if task := f.folders.await(response.Task); task == nil || task.Info.Error != nil {
			return
		}
		ctx := f.service.Context.For(f.service.Context.Map.Path)
		for _, ref := range move.List {
			if entity, ok := ctx.Map.Get(ref).(mo.Entity); ok {
				parent := types.PropertyChange{Name: "parent", Val: move.This}
				ctx.WithLock(entity, func() { ctx.Update(entity, []types.PropertyChange{parent}) })
			}
		}
	}()
}
