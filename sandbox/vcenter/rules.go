package vcenter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// rule is one misbehaviour: which calls it meets, how many of them, and the one thing that it does to them.
type rule struct {
	ID     int    `json:"id"`
	Method string `json:"method"`           // a SOAP method, several with commas between, or * for all
	Client string `json:"client,omitempty"` // only calls whose User-Agent starts so
	Skip   int    `json:"skip,omitempty"`   // let so many matching calls through first
	Count  int    `json:"count,omitempty"`  // then act on so many; 0: on all
	// Share acts on a part of the calls only, chosen by chance from Seed.
	Share float64 `json:"share,omitempty"`
	Seed  uint64  `json:"seed,omitempty"`

	Latency   string `json:"latency,omitempty"`
	Fault     *fault `json:"fault,omitempty"`
	TaskFault *fault `json:"taskFault,omitempty"`
	When      string `json:"when,omitempty"` // of a taskFault: the same as its own
	Tell      string `json:"tell,omitempty"` // the effect of a task is told so much after its end
	Drop      string `json:"drop,omitempty"`
	Hold      string `json:"hold,omitempty"`

	Hits int `json:"hits"` // calls it acted on

	seen    int
	chance  *rand.Rand
	latency time.Duration
	tell    time.Duration
	built   types.BaseMethodFault
	gone    chan struct{} // closed when the rule is taken away
}

// effect is what the rules do to one call.
type effect struct {
	message   string
	fault     types.BaseMethodFault
	taskFault types.BaseMethodFault
	acts      bool // the task fails after it has acted
	drop      string
	hold      string
	released  <-chan struct{} // ends the hold
}

// waits holds a call, and says whether it goes on: not if the client hangs up.
func (e effect) waits(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-e.released:
		return true
	}
}

type rules struct {
	mu   sync.Mutex
	next int
	list []*rule
}

func (r *rules) add(n *rule) error {
	if err := n.check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	n.ID, n.Hits, n.gone = r.next, 0, make(chan struct{})
	r.list = append(r.list, n)
	return nil
}

// remove takes one rule away, or all with id 0, and says how many went.
func (r *rules) remove(id int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.list)
	r.list = slices.DeleteFunc(r.list, func(n *rule) bool {
		if id != 0 && n.ID != id {
			return false
		}
		close(n.gone)
		return true
	})
	return before - len(r.list)
}

func (r *rules) snapshot() []rule {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]rule, 0, len(r.list))
	for _, n := range r.list {
		all = append(all, *n)
	}
	return all
}

// apply waits out the latencies that meet the call, and returns the first other effect, and how much later than the end of
// its task its effect is told.
func (r *rules) apply(ctx context.Context, c *call) (e effect, tell time.Duration) {
	var wait time.Duration
	r.mu.Lock()
	for _, n := range r.list {
		decided := e != effect{}
		if (decided && n.latency == 0 && n.tell == 0) || !n.meets(c) {
			continue
		}
		n.Hits++
		switch {
		case n.Fault != nil:
			e = effect{message: n.Fault.Message, fault: n.built}
		case n.TaskFault != nil:
			e = effect{message: n.TaskFault.Message, taskFault: n.built, acts: n.TaskFault.When == "after"}
		case n.Drop != "":
			e = effect{drop: n.Drop}
		case n.Hold != "":
			e = effect{hold: n.Hold, released: n.gone}
		}
		wait += n.latency
		tell += n.delay()
	}
	r.mu.Unlock()
	if wait > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return e, tell
}

// delay is how much later the effect of a task is told: by chance where there is a seed.
func (n *rule) delay() time.Duration {
	if n.Seed == 0 || n.tell == 0 {
		return n.tell
	}
	return 1 + time.Duration(n.chance.Int64N(int64(n.tell)))
}

func (n *rule) meets(c *call) bool {
	if n.Method != "*" && !slices.Contains(n.methods(), c.method) || !strings.HasPrefix(c.client, n.Client) {
		return false
	}
	if (n.TaskFault != nil || n.tell > 0) && !c.submits() {
		return false
	}
	n.seen++
	if n.seen <= n.Skip || n.Count > 0 && n.Hits >= n.Count {
		return false
	}
	return n.Share == 0 || n.chance.Float64() < n.Share
}

func (n *rule) methods() []string { return strings.Split(n.Method, ",") }

func (n *rule) check() error {
	for _, method := range n.methods() {
		if _, ok := typeOf(method); !ok && method != "*" {
			return fmt.Errorf("there is no method %q in vSphere's API; * stands for all", method)
		}
	}
	if n.Skip < 0 || n.Count < 0 {
		return errors.New("skip and count can't be negative")
	}
	if n.Share < 0 || n.Share > 1 {
		return fmt.Errorf("share %v: give a number from 0 to 1", n.Share)
	}
	n.chance = rand.New(rand.NewPCG(n.Seed, 0))
	effects := 0
	for _, check := range []func() (bool, error){n.checkDelays, n.checkFaults, n.checkMoments} {
		has, err := check()
		if err != nil {
			return err
		}
		if has {
			effects++
		}
	}
	if effects != 1 {
		return errNoEffect
	}
	return n.checkTasks()
}

var errNoEffect = errors.New("a rule has one of latency, fault, taskFault, tell, drop and hold")

// checkDelays reads the effects that take their time.
func (n *rule) checkDelays() (has bool, err error) {
	for _, delay := range []struct {
		name, text string
		into       *time.Duration
	}{{"latency", n.Latency, &n.latency}, {"tell", n.Tell, &n.tell}} {
		if delay.text == "" {
			continue
		}
		if *delay.into, err = time.ParseDuration(delay.text); err != nil || *delay.into <= 0 {
			return false, fmt.Errorf("%s %q: give a duration such as 250ms", delay.name, delay.text)
		}
		if has {
			return false, errNoEffect
		}
		has = true
	}
	return has, nil
}

// checkFaults builds the fault that the rule answers with.
func (n *rule) checkFaults() (has bool, err error) {
	for _, f := range []*fault{n.Fault, n.TaskFault} {
		if f == nil {
			continue
		}
		if n.built, err = f.build(); err != nil {
			return false, err
		}
		if f.Message == "" {
			f.Message = "A fault of the sandbox's making."
		}
		if has {
			return false, errNoEffect
		}
		has = true
	}
	return has, nil
}

// checkMoments reads the effects that take place before or after vCenter has seen the call.
func (n *rule) checkMoments() (has bool, err error) {
	for name, when := range map[string]string{"drop": n.Drop, "hold": n.Hold} {
		if when == "" {
			continue
		}
		if when != "before" && when != "after" {
			return false, fmt.Errorf("%s %q: give before (vCenter never sees the call) or after (only the answer is lost)", name, when)
		}
		if has {
			return false, errNoEffect
		}
		has = true
	}
	return has, nil
}

// checkTasks checks what is said of a task.
func (n *rule) checkTasks() error {
	for name, is := range map[string]bool{"taskFault": n.TaskFault != nil, "tell": n.tell > 0} {
		if is && n.Method != "*" && !strings.HasSuffix(n.Method, "_Task") {
			return fmt.Errorf("%s: %s submits no task", name, n.Method)
		}
	}
	if n.Fault != nil && n.Fault.When != "" || n.TaskFault == nil && n.When != "" {
		return errors.New("when: only a taskFault has it")
	}
	if n.TaskFault == nil {
		return nil
	}
	if n.TaskFault.When == "" {
		n.TaskFault.When = n.When
	}
	switch n.TaskFault.When {
	case "", "before", "after":
		return nil
	}
	return fmt.Errorf("when %q: give before (the task does nothing) or after (it acts, then fails)", n.TaskFault.When)
}
