package vcenter

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// accumulate is how long a poll that has something to tell waits for more, as vCenter does.
const accumulate = 20 * time.Millisecond

// collectors answers the long polls in vcsim's place: for every single change, vcsim reads all that is watched again, and
// so takes minutes to tell of a hundred new machines.
type collectors struct {
	mu   sync.Mutex
	live map[collectorKey]*collector
}

// collectorKey names a collector: every session has one of its own by the default's name.
type collectorKey struct {
	session string
	ref     reference
}

func (cs *collectors) init(service *simulator.Service) {
	cs.live = map[collectorKey]*collector{}
	service.Context.Map.AddHandler(changes{cs})
}

// changes takes up what vcsim says of its objects.
type changes struct{ *collectors }

func (changes) Reference() reference { return reference{Type: "PropertyCollector", Value: "front"} }

func (c changes) PutObject(_ *simulator.Context, obj mo.Reference) { c.touch(obj.Reference(), false) }

func (c changes) UpdateObject(_ *simulator.Context, obj mo.Reference, _ []types.PropertyChange) {
	c.touch(obj.Reference(), false)
}

func (c changes) RemoveObject(_ *simulator.Context, ref reference) { c.touch(ref, true) }

func (cs *collectors) touch(ref reference, gone bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, c := range cs.live {
		select {
		case <-c.over:
			delete(cs.live, key)
		default:
			c.touch(ref, gone)
		}
	}
}

// note takes up what an answered call did to the collectors of its session.
func (cs *collectors) note(c *call, over <-chan struct{}, answer *httptest.ResponseRecorder) {
	if answer.Code != http.StatusOK {
		return
	}
	switch c.method {
	case "CreateFilter":
		if filter, ok := newFilter(c, answer); ok {
			cs.of(c, over).add(filter)
		}
	case "DestroyPropertyFilter":
		cs.mu.Lock()
		defer cs.mu.Unlock()
		for _, collector := range cs.live {
			collector.remove(c.this)
		}
	case "DestroyPropertyCollector":
		cs.of(c, over).cancel()
		cs.mu.Lock()
		defer cs.mu.Unlock()
		delete(cs.live, collectorKey{sessionKey(c), c.this})
	case "CancelWaitForUpdates":
		cs.of(c, over).cancel()
	}
}

func (cs *collectors) of(c *call, over <-chan struct{}) *collector {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	key := collectorKey{sessionKey(c), c.this}
	if cs.live[key] == nil {
		cs.live[key] = &collector{over: over, wake: make(chan struct{}, 1), touched: map[reference]bool{}}
	}
	return cs.live[key]
}

// collector is a property collector: what it watches, and what has changed of that.
type collector struct {
	over  <-chan struct{} // closed when the session ends
	wake  chan struct{}
	polls sync.Mutex // one poll at a time; it has version, pending and the filters' insides to itself

	version int
	pending []update // what didn't fit into the last answer

	// Held for moments only: who tells of a change holds the object's lock.
	mu       sync.Mutex
	filters  []*filter
	touched  map[reference]bool // objects that may have changed since the last look; true: gone
	canceled chan struct{}      // closed to end the poll that waits
}

func (c *collector) touch(ref reference, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched[ref] = c.touched[ref] || gone // vcsim may change what it has removed
	c.rouse()
}

func (c *collector) add(f *filter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.filters = append(c.filters, f)
	c.rouse()
}

func (c *collector) remove(ref reference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.filters = slices.DeleteFunc(c.filters, func(f *filter) bool { return f.ref == ref })
}

func (c *collector) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.canceled != nil {
		close(c.canceled)
		c.canceled = nil
	}
}

func (c *collector) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// cancelable returns a channel that is closed when the poll that now begins is cancelled.
func (c *collector) cancelable() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.canceled = make(chan struct{})
	return c.canceled
}

// restart has every filter tell everything again.
func (c *collector) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.filters {
		f.restart()
	}
}

// watched are the filters, those that watch tasks apart.
func (c *collector) watched() (tasks, others []*filter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.filters {
		if f.watchesTasks() {
			tasks = append(tasks, f)
		} else {
			others = append(others, f)
		}
	}
	return tasks, others
}

// takeTouched returns what may have changed, which is looked at from now on.
func (c *collector) takeTouched() map[reference]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	touched := c.touched
	c.touched = map[reference]bool{}
	return touched
}

// addTouched adds what may have changed since, which the next look looks at too.
func (c *collector) addTouched(touched map[reference]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref, gone := range c.touched {
		touched[ref] = touched[ref] || gone
	}
}
