package vcenter

import (
	"net/http"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// history is when machines were powered on and off, by vCenter's own clock. Whoever measures how fast a change was answered
// must not look for it himself: he would begin too late, and take time from what he measures.
type history struct {
	mu      sync.Mutex
	changes []powerChange
}

type powerChange struct {
	Machine string  `json:"machine"` // its moref
	On      bool    `json:"on"`
	At      float64 `json:"at"` // seconds since 1970
}

// note takes up a change of an object, if it is one of a machine's power. The object is locked.
func (h *history) note(obj mo.Reference, changes []types.PropertyChange) {
	machine := obj.Reference()
	if machine.Type != "VirtualMachine" {
		return
	}
	for _, change := range changes {
		state, ok := change.Val.(types.VirtualMachinePowerState)
		if !ok || change.Name != "runtime.powerState" {
			continue
		}
		on := state == types.VirtualMachinePowerStatePoweredOn
		h.mu.Lock()
		h.changes = append(h.changes, powerChange{machine.Value, on, float64(time.Now().UnixMicro()) / 1e6})
		h.mu.Unlock()
	}
}

func (f *front) getPower(w http.ResponseWriter, _ *http.Request) {
	f.history.mu.Lock()
	defer f.history.mu.Unlock()
	reply(w, append([]powerChange{}, f.history.changes...))
}

func (f *front) deletePower(w http.ResponseWriter, _ *http.Request) {
	f.history.mu.Lock()
	defer f.history.mu.Unlock()
	f.history.changes = nil
	reply(w, struct{}{})
}
