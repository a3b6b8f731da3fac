package vcenter

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// filter is what a property collector watches, with what was last told of it.
type filter struct {
	ref  reference
	spec types.PropertyFilterSpec
	// The objects it has, each with its properties as they were told.
	known map[reference]map[string]string
	// Which objects it has may have changed.
	stale bool
}

// content is an object as it was read: its properties as XML, with their names.
type content struct {
	Object     reference  `xml:"obj"`
	Properties []property `xml:"propSet"`
}

type property struct {
	Name string `xml:"name"`
	XML  string `xml:",innerxml"`
}

// update is what is told of an object in a filter.
type update struct {
	filter reference
	xml    string
}

// read reads objects.
type read func(types.PropertyFilterSpec) ([]content, error)

func newFilter(c *call, answer *httptest.ResponseRecorder) (*filter, bool) {
	var response struct {
		Filter reference `xml:"Body>CreateFilterResponse>returnval"`
	}
	if xml.Unmarshal(answer.Body.Bytes(), &response) != nil {
		return nil, false
	}
	method, err := simulator.UnmarshalBody(typeOf, c.body)
	if err != nil {
		return nil, false
	}
	request, ok := method.Body.(*types.CreateFilter)
	if !ok {
		return nil, false
	}
	f := &filter{ref: response.Filter, spec: request.Spec}
	f.restart()
	return f, true
}

// restart forgets what was told.
func (f *filter) restart() { f.known, f.stale = map[reference]map[string]string{}, true }

func (f *filter) watchesTasks() bool {
	return slices.ContainsFunc(f.spec.PropSet, func(properties types.PropertySpec) bool { return properties.Type == "Task" })
}

// look finds out what has changed, knowing which objects may have.
func (f *filter) look(touched map[reference]bool, read read) ([]update, error) {
	var updates []update
	var changed []reference
	for ref, gone := range touched {
		f.stale = f.stale || f.selectsBy(ref)
		switch {
		case f.isStranger(ref):
		case gone:
			updates = append(updates, f.leave(ref))
		default:
			changed = append(changed, ref)
		}
	}
	if f.stale {
		came, went, err := f.compare(touched, read)
		if err != nil {
			return nil, err
		}
		for _, ref := range went {
			updates = append(updates, f.leave(ref))
		}
		changed = append(slices.DeleteFunc(changed, f.isStranger), came...)
	}
	if len(changed) == 0 {
		return updates, nil
	}
	contents, err := read(f.just(changed))
	for _, content := range contents {
		if u, ok := f.tell(content); ok {
			updates = append(updates, u)
		}
	}
	return updates, err
}

// selectsBy tells whether a change of an object can change which objects the filter has.
func (f *filter) selectsBy(ref reference) bool {
	for _, object := range f.spec.ObjectSet {
		if object.Obj == ref {
			return true
		}
		for _, selection := range object.SelectSet {
			if step, ok := selection.(*types.TraversalSpec); ok && len(step.SelectSet) > 0 {
				return true // by any object on a longer way
			}
		}
	}
	return false
}

// compare reads which objects the filter has now, and says which of them are new and which have left.
func (f *filter) compare(touched map[reference]bool, read read) (came, went []reference, err error) {
	contents, err := read(f.bare())
	if err != nil {
		return nil, nil, err
	}
	f.stale = false
	here := make(map[reference]bool, len(contents))
	for _, content := range contents {
		here[content.Object] = true
		if f.isStranger(content.Object) && !touched[content.Object] {
			came = append(came, content.Object)
		}
	}
	for ref := range f.known {
		if !here[ref] {
			went = append(went, ref)
		}
	}
	return came, went, nil
}

// bare selects the filter's objects without their properties.
func (f *filter) bare() types.PropertyFilterSpec {
	spec := f.spec
	spec.PropSet = make([]types.PropertySpec, len(f.spec.PropSet))
	for i, properties := range f.spec.PropSet {
		spec.PropSet[i].Type = properties.Type
	}
	return spec
}

// just selects the properties of some objects.
func (f *filter) just(refs []reference) types.PropertyFilterSpec {
	spec := types.PropertyFilterSpec{PropSet: f.spec.PropSet, ReportMissingObjectsInResults: types.NewBool(true)}
	for _, ref := range refs {
		spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
	}
	return spec
}

func (f *filter) leave(ref reference) update {
	delete(f.known, ref)
	return f.update("leave", ref, "")
}

func (f *filter) isStranger(ref reference) bool {
	_, ok := f.known[ref]
	return !ok
}

// tell says what is new of an object, if anything is.
func (f *filter) tell(content content) (update, bool) {
	before, known := f.known[content.Object]
	now := make(map[string]string, len(content.Properties))
	var changes strings.Builder
	for _, p := range content.Properties {
		now[p.Name] = p.XML
		if before[p.Name] != p.XML {
			changes.WriteString("<changeSet>" + strings.Replace(p.XML, "</name>", "</name><op>assign</op>", 1) + "</changeSet>")
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			changes.WriteString("<changeSet><name>" + name + "</name><op>assign</op></changeSet>")
		}
	}
	f.known[content.Object] = now
	if !known {
		return f.update("enter", content.Object, changes.String()), true
	}
	return f.update("modify", content.Object, changes.String()), changes.Len() > 0
}

func (f *filter) update(kind string, ref reference, changes string) update {
	return update{f.ref, fmt.Sprintf(`<objectSet><kind>%s</kind><obj type="%s">%s</obj>%s</objectSet>`, kind, ref.Type, ref.Value, changes)}
}
