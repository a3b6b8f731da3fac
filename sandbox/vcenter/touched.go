package vcenter

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// touched is who has asked for something to be done to which machine. What was done and taken back shows nowhere else.
type touched struct {
	mu    sync.Mutex
	calls []touch
}

type touch struct {
	Client   string  `json:"client"`
	Method   string  `json:"method"`
	Machine  string  `json:"machine"`            // its moref
	Instance string  `json:"instance,omitempty"` // its instance UUID, which it keeps when it comes back under another moref
	At       float64 `json:"at"`                 // seconds since 1970
}

// noteTouched takes up a call to a machine, or one that moves some, whatever comes of it.
func (f *front) noteTouched(c *call) {
	var machines []reference
	switch {
	case c.this.Type == "VirtualMachine":
		machines = []reference{c.this}
	case c.method == "MoveIntoFolder_Task":
		if move, ok := c.request().(*types.MoveIntoFolder_Task); ok {
			machines = move.List
		}
	}
	for _, machine := range machines {
		t := touch{c.client, c.method, machine.Value, f.instanceOf(machine), float64(time.Now().UnixMicro()) / 1e6}
		f.touched.mu.Lock()
		f.touched.calls = append(f.touched.calls, t)
		f.touched.mu.Unlock()
	}
}

// instanceOf is the instance UUID of a machine, if it is there.
func (f *front) instanceOf(machine reference) string {
	vm, ok := f.service.Context.Map.Get(machine).(*simulator.VirtualMachine)
	if !ok {
		return ""
	}
	var instance string
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	ctx.WithLock(vm, func() {
		if vm.Config != nil {
			instance = vm.Config.InstanceUuid
		}
	})
	return instance
}

func (f *front) getTouched(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	f.touched.mu.Lock()
	defer f.touched.mu.Unlock()
	asked, others := []touch{}, []touch{}
	for _, t := range f.touched.calls {
		if strings.HasPrefix(t.Client, query.Get("client")) {
			asked = append(asked, t)
		} else {
			others = append(others, t)
		}
	}
	if query.Get("forget") == "true" {
		f.touched.calls = others
	}
	reply(w, asked)
}
