package vcenter

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"

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
	// What can be seen of its objects may have changed.
	all bool

	// It has been looked at.
	seen bool

	// What the next look is to find out; the collector's lock guards it.
	again, choose bool
}

// scene is what a look has to go by.
type scene struct {
	touched map[reference]bool   // objects that may have changed; true: gone
	isHeld  func(reference) bool // nothing is to be told of these
	silent  func(string) bool    // changes of these properties are not told
	read    read
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
	request, ok := c.request().(*types.CreateFilter)
	if !ok {
		return nil, false
	}
	f := &filter{ref: response.Filter, spec: request.Spec}
	f.restart()
	return f, true
}

// restart forgets what was told.
func (f *filter) restart() { f.known, f.stale, f.seen = map[reference]map[string]string{}, true, false }

// isSilent tells whether what the filter's objects are listed by tells of no changes.
func (f *filter) isSilent(s *scene) bool {
	return slices.ContainsFunc(f.spec.ObjectSet, func(object types.ObjectSpec) bool {
		return slices.ContainsFunc(object.SelectSet, func(selection types.BaseSelectionSpec) bool {
			step, ok := selection.(*types.TraversalSpec)
			return ok && s.silent(step.Path)
		})
	})
}

func (f *filter) watchesTasks() bool {
	return slices.ContainsFunc(f.spec.PropSet, func(properties types.PropertySpec) bool { return properties.Type == "Task" })
}

// look finds out what has changed, knowing which objects may have.
func (f *filter) look(s *scene) ([]update, error) {
	if f.seen && f.isSilent(s) {
		return nil, nil
	}
	f.seen = true
	var updates []update
	changed := f.reviewed(s)
	for ref, gone := range s.touched {
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
		came, went, err := f.compare(s)
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
	contents, err := s.read(f.just(changed))
	for _, content := range contents {
		if u, ok := f.tell(s, content); ok {
			updates = append(updates, u)
		}
	}
	return updates, err
}

// reviewed are the objects that have to be read again without having changed.
func (f *filter) reviewed(s *scene) []reference {
	if !f.all {
		return nil
	}
	f.all = false
	var refs []reference
	for ref := range f.known {
		if _, touched := s.touched[ref]; !touched && !s.isHeld(ref) {
			refs = append(refs, ref)
		}
	}
	return refs
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
func (f *filter) compare(s *scene) (came, went []reference, err error) {
	contents, err := s.read(f.bare())
	if err != nil {
		return nil, nil, err
	}
	f.stale = false
	here := make(map[reference]bool, len(contents))
	for _, content := range contents {
		here[content.Object] = true
		if f.isStranger(content.Object) && !s.touched[content.Object] && !s.isHeld(content.Object) {
			came = append(came, content.Object)
		}
	}
	for ref := range f.known {
		if !here[ref] && !s.isHeld(ref) {
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
func (f *filter) tell(s *scene, content content) (update, bool) {
	before, known := f.known[content.Object]
	now := make(map[string]string, len(content.Properties))
	var changes strings.Builder
	for _, p := range content.Properties {
		if told, ok := before[p.Name]; known && s.silent(p.Name) {
			if ok {
				now[p.Name] = told
			}
			continue
		}
		now[p.Name] = p.XML
		if told, ok := before[p.Name]; !ok || withoutStats(p.Name, told) != withoutStats(p.Name, p.XML) {
			changes.WriteString("<changeSet>" + strings.Replace(p.XML, "</name>", "</name><op>assign</op>", 1) + "</changeSet>")
		}
	}
	var missing strings.Builder
	for _, m := range content.Missing {
		if m.whole == "" {
			continue
		}
		now[m.Path] = m.whole
		if before[m.Path] != m.whole {
			missing.WriteString(m.whole)
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			changes.WriteString(encode("changeSet", types.PropertyChange{Name: name, Op: types.PropertyChangeOpAssign}))
		}
	}
	f.known[content.Object] = now
	told := changes.String() + missing.String()
	if !known {
		return f.update("enter", content.Object, told), true
	}
	return f.update("modify", content.Object, told), told != ""
}

var quickStats = regexp.MustCompile(`(?s)<quickStats>.*</quickStats>`)

// withoutStats is a property as far as its changes are told.
func withoutStats(path, text string) string {
	if path != "summary" {
		return text
	}
	return quickStats.ReplaceAllString(text, "")
}

func (f *filter) update(kind string, ref reference, changes string) update {
	return update{f.ref, fmt.Sprintf(`<objectSet><kind>%s</kind><obj type="%s">%s</obj>%s</objectSet>`, kind, ref.Type, ref.Value, changes)}
}
