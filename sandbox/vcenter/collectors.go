package vcenter

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// accumulate is how long a poll that has something to tell waits for more, as vCenter does.
const accumulate = 20 * time.Millisecond

// collectors answers the long polls in vcsim's place: for every single change, vcsim reads all that is watched again, and
// so takes minutes to tell of a hundred new machines.
type collectors struct {
	holds holds
	// recentTask tells of no changes.
	recentSilent atomic.Bool
	// What the container views are for, by their references.
	views sync.Map

	mu   sync.Mutex
	live map[collectorKey]*collector
}

// collectorKey names a collector: every session has one of its own by the default's name.
type collectorKey struct {
	session string
	ref     reference
}

func (cs *collectors) init() { cs.live = map[collectorKey]*collector{} }

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

// isSilent tells whether vCenter tells of a property only with an object that is new, and never of its changes.
func (cs *collectors) isSilent(path string) bool {
	return isWithin(path, "summary.quickStats") || path == "recentTask" && cs.recentSilent.Load()
}

// lookAgain has everything looked at again: what can be seen of it has changed.
func (cs *collectors) lookAgain() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.live {
		c.markAll(func(f *filter) { f.again = true })
	}
}

// chooseAgain has all filters find out again which objects they have.
func (cs *collectors) chooseAgain() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.live {
		c.markAll(func(f *filter) { f.choose = true })
	}
}

// note takes up what an answered call did to the collectors of its session.
func (cs *collectors) note(c *call, over <-chan struct{}, answer *httptest.ResponseRecorder) {
	if answer.Code != http.StatusOK {
		return
	}
	switch c.method {
	case "CreateContainerView":
		cs.noteView(c, answer)
	case "DestroyView":
		cs.views.Delete(c.this)
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

// noteView takes up what a new container view is for.
func (cs *collectors) noteView(c *call, answer *httptest.ResponseRecorder) {
	var response struct {
		View reference `xml:"Body>CreateContainerViewResponse>returnval"`
	}
	request, ok := c.request().(*types.CreateContainerView)
	if !ok || xml.Unmarshal(answer.Body.Bytes(), &response) != nil {
		return
	}
	// Of others, it can't be said by the objects' parents what is in them.
	if request.Container.Type == "Folder" || request.Container.Type == "Datacenter" {
		cs.views.Store(response.View, request)
	}
}

// isIn tells whether an object with these ancestors is in a container view, as far as is known. vcsim's views keep what is
// moved away.
func (cs *collectors) isIn(view reference, ancestors []reference) bool {
	stored, known := cs.views.Load(view)
	request, ok := stored.(*types.CreateContainerView)
	if !known || !ok || len(ancestors) == 0 {
		return true
	}
	if !request.Recursive {
		return len(ancestors) > 1 && ancestors[1] == request.Container
	}
	return slices.Contains(ancestors[1:], request.Container)
}

func (cs *collectors) of(c *call, over <-chan struct{}) *collector {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	key := collectorKey{sessionKey(c), c.this}
	if cs.live[key] == nil {
		collector := &collector{over: over, silent: cs.isSilent, wake: make(chan struct{}, 1), touched: map[reference]bool{}}
		if !isAdministrator(c.client) {
			collector.holds = &cs.holds
		}
		cs.live[key] = collector
	}
	return cs.live[key]
}

// collector is a property collector: what it watches, and what has changed of that.
type collector struct {
	over  <-chan struct{} // closed when the session ends
	holds *holds          // what is held back from the client; none for an administrator
	wake  chan struct{}
	// What is told of with a new object alone.
	silent func(path string) bool
	polls  sync.Mutex // one poll at a time; it has version, pending and the filters' insides to itself

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

// markAll marks all filters for the next look.
func (c *collector) markAll(mark func(*filter)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.filters {
		mark(f)
	}
	c.rouse()
}

// takeMarks has the filters look at what they are marked for.
func (c *collector) takeMarks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.filters {
		f.stale = f.stale || f.again || f.choose
		f.all = f.all || f.again
		f.again, f.choose = false, false
	}
}

// isHeld tells whether word of an object is held back.
func (c *collector) isHeld(ref reference) bool { return c.holds != nil && c.holds.has(ref) }

// takeTouched returns what may have changed, which is looked at from now on. What is held waits.
func (c *collector) takeTouched() map[reference]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	touched := c.touched
	c.touched = map[reference]bool{}
	for ref, gone := range touched {
		if c.isHeld(ref) {
			c.touched[ref] = gone
			delete(touched, ref)
		}
	}
	return touched
}

// addTouched adds what may have changed since, which the next look looks at too.
func (c *collector) addTouched(touched map[reference]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref, gone := range c.touched {
		if !c.isHeld(ref) {
			touched[ref] = touched[ref] || gone
		}
	}
}
