package vcenter

import (
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// holds are the objects of which word is held back, each with how often it is.
type holds struct {
	mu    sync.Mutex
	count map[reference]int
}

func (h *holds) has(ref reference) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count[ref] > 0
}

func (h *holds) change(ref reference, by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == nil {
		h.count = map[reference]int{}
	}
	if h.count[ref] += by; h.count[ref] == 0 {
		delete(h.count, ref)
	}
}

// hold keeps what one task does from those who watch. None holds nothing.
type hold struct {
	collectors *collectors

	mu   sync.Mutex
	refs []reference
}

// hold keeps back what a call's task is going to do, if a rule says so.
func (f *front) hold(c *call) *hold {
	if c.tell == 0 {
		return nil
	}
	h := &hold{collectors: &f.collectors}
	for _, ref := range f.affected(c) {
		h.add(ref)
	}
	return h
}

func (h *hold) add(ref reference) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refs = append(h.refs, ref)
	h.collectors.holds.change(ref, 1)
}

// release has everything told after a while.
func (h *hold) release(after time.Duration) {
	if h == nil {
		return
	}
	time.AfterFunc(after, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, ref := range h.refs {
			h.collectors.holds.change(ref, -1)
		}
		h.refs = nil
		h.collectors.chooseAgain()
	})
}

// affected are the objects that a call's task is going to change: what it is for, and where that is or comes to be.
func (f *front) affected(c *call) []reference {
	switch request := c.request().(type) {
	case *types.CloneVM_Task:
		return []reference{request.Folder}
	case *types.Destroy_Task:
		all := f.descendants(c.this)
		if ancestors := f.ancestors(c.this); len(ancestors) > 1 {
			all = append(all, ancestors[1])
		}
		return all
	case *types.MoveIntoFolder_Task:
		all := append(slices.Clone(request.List), c.this)
		for _, ref := range request.List {
			if ancestors := f.ancestors(ref); len(ancestors) > 1 {
				all = append(all, ancestors[1])
			}
		}
		return all
	}
	return []reference{c.this}
}

// descendants are an object and, if it is a folder, all that is in it.
func (f *front) descendants(ref reference) []reference {
	all := []reference{ref}
	folder, ok := f.service.Context.Map.Get(ref).(*simulator.Folder)
	if !ok {
		return all
	}
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	var children []reference
	ctx.WithLock(folder, func() { children = slices.Clone(folder.ChildEntity) })
	for _, child := range children {
		all = append(all, f.descendants(child)...)
	}
	return all
}

// changes takes up what vcsim says of its objects.
type changes struct{ *front }

func (changes) Reference() reference { return reference{Type: "PropertyCollector", Value: "front"} }

func (c changes) PutObject(_ *simulator.Context, obj mo.Reference) {
	c.noteBirth(obj)
	c.collectors.touch(obj.Reference(), false)
	if entity, ok := obj.(mo.Entity); ok && entity.Entity().Parent != nil {
		c.collectors.touch(*entity.Entity().Parent, false)
	}
}

func (c changes) UpdateObject(_ *simulator.Context, obj mo.Reference, changed []types.PropertyChange) {
	c.history.note(obj, changed)
	c.notePower(obj, changed)
	c.collectors.touch(obj.Reference(), false)
}

func (c changes) RemoveObject(ctx *simulator.Context, ref reference) {
	c.collectors.touch(ref, true)
	if entity, ok := ctx.Map.Get(ref).(mo.Entity); ok && entity.Entity().Parent != nil {
		parent := *entity.Entity().Parent
		// vcsim takes it out of its folder only after this.
		time.AfterFunc(accumulate, func() { c.collectors.touch(parent, false) })
	}
}
