package vcenter

import (
	"reflect"
	"slices"

	"github.com/vmware/govmomi/vim25/mo"
)

// place is a list of references that an object has, such as the machines of a host.
type place struct {
	object reference
	list   string
}

// unlist takes objects out of every list that has them, and says where each was.
func (f *front) unlist(gone map[reference]bool) map[reference][]place {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	places := map[reference][]place{}
	for _, object := range ctx.Map.AllReference("") {
		if gone[object.Reference()] {
			continue
		}
		changed := false
		ctx.WithLock(object, func() {
			for name, list := range lists(object) {
				for _, ref := range *list {
					if gone[ref] {
						places[ref] = append(places[ref], place{object.Reference(), name})
						changed = true
					}
				}
				*list = slices.DeleteFunc(slices.Clone(*list), func(ref reference) bool { return gone[ref] })
			}
		})
		if changed {
			f.collectors.touch(object.Reference(), false)
		}
	}
	return places
}

// enlist adds an object to lists, as far as these are still there.
func (f *front) enlist(ref reference, places []place) {
	ctx := f.service.Context.For(f.service.Context.Map.Path)
	for _, p := range places {
		object := ctx.Map.Get(p.object)
		if object == nil {
			continue
		}
		ctx.WithLock(object, func() {
			if list, ok := lists(object)[p.list]; ok {
				*list = append(slices.Clone(*list), ref)
			}
		})
		f.collectors.touch(p.object, false)
	}
}

// lists are an object's lists of references, by the names of their properties in Go.
func lists(object mo.Reference) map[string]*[]reference {
	found := map[string]*[]reference{}
	if value := reflect.ValueOf(object); value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.Struct {
		collectLists(value.Elem(), found)
	}
	return found
}

func collectLists(value reflect.Value, found map[string]*[]reference) {
	for i := range value.NumField() {
		field := value.Type().Field(i)
		switch {
		case !field.IsExported():
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			collectLists(value.Field(i), found)
		case field.Type == reflect.TypeFor[[]reference]():
			found[field.Name], _ = value.Field(i).Addr().Interface().(*[]reference)
		}
	}
}
