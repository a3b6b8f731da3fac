package vcenter

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// sight is what can be seen: what the user may see, and what there is to see of a machine. govc stands for an administrator
// who may see all.
type sight struct {
	front *front
	lost  atomic.Bool // some machine's connection was

	mu         sync.RWMutex
	hidden     map[reference]bool
	unreadable []string           // property paths
	unborn     map[reference]bool // machines whose clone is on its way: they have no config yet
}

func (s *sight) init(f *front) {
	s.front, s.hidden, s.unborn = f, map[reference]bool{}, map[reference]bool{}
}

// conceive notes that a machine is being made.
func (s *sight) conceive(machine reference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unborn[machine] = true
}

// settle notes that a machine has its config.
func (s *sight) settle(machine reference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unborn, machine)
}

// isClear tells whether everybody sees all that vcsim has.
func (s *sight) isClear() bool {
	s.mu.RLock()
	clear := len(s.hidden) == 0 && len(s.unreadable) == 0 && len(s.unborn) == 0
	s.mu.RUnlock()
	return clear && !s.lost.Load()
}

// isAdministrator tells whether a client sees all and at once.
func isAdministrator(client string) bool { return strings.HasPrefix(client, "govc") }

// hides tells whether a client may not see an object.
func (s *sight) hides(client string, ref reference) bool {
	if isAdministrator(client) {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.hidden) > 0 && slices.ContainsFunc(s.front.ancestors(ref), func(r reference) bool { return s.hidden[r] })
}

// unreadablePaths are the properties that a client may not read.
func (s *sight) unreadablePaths(client string) []string {
	if isAdministrator(client) {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.unreadable
}

// lacksConfig tells whether vCenter knows nothing of a machine's config: it is being made, or its storage is lost.
func (s *sight) lacksConfig(ref reference) bool {
	if ref.Type != "VirtualMachine" {
		return false
	}
	s.mu.RLock()
	unborn := s.unborn[ref]
	s.mu.RUnlock()
	if unborn {
		return true
	}
	vm, ok := s.front.service.Context.Map.Get(ref).(*simulator.VirtualMachine)
	if !ok {
		return false
	}
	switch vm.Runtime.ConnectionState {
	case types.VirtualMachineConnectionStateInaccessible, types.VirtualMachineConnectionStateInvalid,
		types.VirtualMachineConnectionStateOrphaned:
		return true
	}
	return false
}

func (f *front) putHidden(w http.ResponseWriter, r *http.Request) {
	var h struct{ Machines, Folders []string }
	if !take(w, r, &h) {
		return
	}
	hidden := map[reference]bool{}
	for kind, names := range map[string][]string{"VirtualMachine": h.Machines, "Folder": h.Folders} {
		for _, name := range names {
			entity, err := f.entity(kind, name)
			if err != nil {
				refuse(w, http.StatusNotFound, err)
				return
			}
			hidden[entity.Entity().Self] = true
		}
	}
	f.sight.mu.Lock()
	f.sight.hidden = hidden
	f.sight.mu.Unlock()
	f.collectors.lookAgain()
	reply(w, struct{}{})
}

func (f *front) putUnreadable(w http.ResponseWriter, r *http.Request) {
	var u struct{ Paths []string }
	if !take(w, r, &u) {
		return
	}
	if slices.ContainsFunc(u.Paths, func(path string) bool { return path == "" || strings.ContainsAny(path, " <>&/") }) {
		refuse(w, http.StatusBadRequest, errors.New("paths: give property paths such as config.extraConfig"))
		return
	}
	f.sight.mu.Lock()
	f.sight.unreadable = u.Paths
	f.sight.mu.Unlock()
	f.collectors.lookAgain()
	reply(w, struct{}{})
}

func noView(ref reference) types.BaseMethodFault {
	return &types.NoPermission{Object: &ref, PrivilegeId: "System.View"}
}

var referenceInRequest = regexp.MustCompile(` type="(\w+)"[^>]*>([^<>]+)</`)

// forbids answers a call that is for an object which the client may not see, or names one.
func (s *sight) forbids(c *call) *httptest.ResponseRecorder {
	s.mu.RLock()
	none := len(s.hidden) == 0
	s.mu.RUnlock()
	if none || c.reads() {
		return nil
	}
	for _, match := range referenceInRequest.FindAllSubmatch(c.body, -1) {
		ref := reference{Type: string(match[1]), Value: string(match[2])}
		if s.hides(c.client, ref) {
			out := httptest.NewRecorder()
			writeFault(out, "Permission to perform this operation was denied.", noView(ref))
			return out
		}
	}
	return nil
}

var referenceInAnswer = regexp.MustCompile(`<(returnval|ManagedObjectReference)[^>]* type="(\w+)"[^>]*>([^<>]+)</(?:returnval|ManagedObjectReference)>`)

// withoutHidden takes the references out of an XML text that the client may not see.
func (s *sight) withoutHidden(client, text string) string {
	s.mu.RLock()
	none := len(s.hidden) == 0
	s.mu.RUnlock()
	if none || !strings.Contains(text, ` type="`) {
		return text
	}
	return referenceInAnswer.ReplaceAllStringFunc(text, func(found string) string {
		match := referenceInAnswer.FindStringSubmatch(found)
		if s.hides(client, reference{Type: match[2], Value: match[3]}) {
			return ""
		}
		return found
	})
}

// view is how one client sees what a retrieval finds.
type view struct {
	*sight
	client  string
	refused []content            // objects that were named, and may not be seen
	blind   []types.PropertySpec // properties that were asked for, and may not be read
}

// look prepares a retrieval: what may not be seen or read isn't asked for. It says which object is refused outright.
func (s *sight) look(client string, specs []types.PropertyFilterSpec) (*view, []types.PropertyFilterSpec, *reference) {
	v := &view{sight: s, client: client}
	unreadable := s.unreadablePaths(client)
	specs = slices.Clone(specs)
	for i := range specs {
		spec := &specs[i]
		var seen []types.ObjectSpec
		for _, object := range spec.ObjectSet {
			if !s.hides(client, object.Obj) {
				seen = append(seen, object)
				continue
			}
			if spec.ReportMissingObjectsInResults == nil || !*spec.ReportMissingObjectsInResults {
				return nil, nil, &object.Obj
			}
			v.refused = append(v.refused, unseen(object.Obj, spec.PropSet))
		}
		spec.ObjectSet = seen
		spec.PropSet = slices.Clone(spec.PropSet)
		for j := range spec.PropSet {
			properties := &spec.PropSet[j]
			blind := types.PropertySpec{Type: properties.Type}
			var readable []string
			for _, path := range properties.PathSet {
				if touches(unreadable, path) {
					blind.PathSet = append(blind.PathSet, path)
				} else {
					readable = append(readable, path)
				}
			}
			properties.PathSet = readable
			v.blind = append(v.blind, blind)
		}
	}
	return v, specs, nil
}

// touches tells whether a path is one of those, or below or above one.
func touches(paths []string, path string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return isWithin(path, p) || isWithin(p, path) })
}

// isWithin tells whether a property path is another or lies below it: config.extraConfig["a"] below config.extraConfig.
func isWithin(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// unseen is all that is told of an object that was named and may not be seen.
func unseen(ref reference, properties []types.PropertySpec) content {
	c := content{Object: ref}
	for _, p := range properties {
		if isOfType(ref, p.Type) {
			c.addMissing("System.View", p.PathSet...)
		}
	}
	return c
}

// isOfType tells whether a specification for a type is for an object.
func isOfType(ref reference, kind string) bool {
	return ref.Type == kind || kind == "ManagedEntity" || kind == "ComputeResource" && ref.Type == "ClusterComputeResource"
}

// show is what the client sees of objects that were read.
func (v *view) show(contents []content) []content {
	seen := contents[:0]
	for _, c := range contents {
		if v.hides(v.client, c.Object) {
			continue
		}
		for i := range c.Properties {
			c.Properties[i].XML = v.withoutHidden(v.client, c.Properties[i].XML)
		}
		for _, blind := range v.blind {
			if isOfType(c.Object, blind.Type) {
				c.addMissing("System.Read", blind.PathSet...)
			}
		}
		c.Properties = slices.DeleteFunc(c.Properties, func(p property) bool {
			unreadable := touches(v.unreadablePaths(v.client), p.Name) // where all properties were asked for
			if unreadable {
				c.addMissing("System.Read", p.Name)
			}
			return unreadable
		})
		if v.lacksConfig(c.Object) {
			c.dropConfig()
		}
		seen = append(seen, c)
	}
	return append(seen, v.refused...)
}

func (c *content) addMissing(privilege string, paths ...string) {
	for _, path := range paths {
		object := c.Object
		fault := types.LocalizedMethodFault{
			Fault:            &types.NoPermission{Object: &object, PrivilegeId: privilege},
			LocalizedMessage: "Permission to perform this operation was denied.",
		}
		text := encode("missingSet", types.MissingProperty{Path: path, Fault: fault})
		c.Missing = append(c.Missing, missing{Path: path, whole: text})
	}
}

// What vCenter knows of a machine without its config: where it is and what it is called.
var configInSummary = regexp.MustCompile(`(?s)<(numCpu|memorySizeMB|cpuReservation|memoryReservation|numEthernetCards|numVirtualDisks|uuid|instanceUuid|guestId|guestFullName|annotation|hwVersion)>.*?</(?:\w+)>`)

// dropConfig unsets all that comes from a machine's config.
func (c *content) dropConfig() {
	c.Properties = slices.DeleteFunc(c.Properties, func(p property) bool {
		field, inSummary := strings.CutPrefix(p.Name, "summary.config.")
		return isWithin(p.Name, "config") || inSummary && field != "name" && field != "vmPathName" && field != "template"
	})
	for i, p := range c.Properties {
		if p.Name == "summary" || p.Name == "summary.config" {
			c.Properties[i].XML = configInSummary.ReplaceAllString(p.XML, "")
		}
	}
}

// reads tells whether a call reads properties.
func (c *call) reads() bool {
	switch c.method {
	case "RetrieveProperties", "RetrievePropertiesEx", "ContinueRetrievePropertiesEx":
		return true
	}
	return false
}

// searches tells whether a call looks for objects.
func (c *call) searches() bool { return strings.HasPrefix(c.method, "Find") }

// encode writes a value as an XML element of vSphere's.
func encode(name string, value any) string {
	var text strings.Builder
	start := xml.StartElement{Name: xml.Name{Local: name}}
	if err := xml.NewEncoder(&text).EncodeElement(value, start); err != nil {
		panic(fmt.Sprintf("%T can't be written: %v", value, err)) // govmomi's types are made for it
	}
	return text.String()
}
