package vcenter

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// control is the endpoint that tests read and steer the vCenter by. sandbox/README.md documents it.
func (f *front) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /calls", f.getCalls)
	mux.HandleFunc("DELETE /calls", f.deleteCalls)
	mux.HandleFunc("GET /rules", func(w http.ResponseWriter, _ *http.Request) { reply(w, f.rules.snapshot()) })
	mux.HandleFunc("POST /rules", f.postRule)
	mux.HandleFunc("DELETE /rules", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]int{"removed": f.rules.remove(0)})
	})
	mux.HandleFunc("DELETE /rules/{id}", f.deleteRule)
	mux.HandleFunc("POST /outage", f.postOutage)
	mux.HandleFunc("GET /sessions", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]int{"sessions": f.sessions.count()})
	})
	mux.HandleFunc("DELETE /sessions", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]int{"expired": f.sessions.expire()})
	})
	mux.HandleFunc("PUT /password", f.putPassword)
	mux.HandleFunc("PUT /privileges", f.putPrivileges)
	mux.HandleFunc("PUT /certificate", f.putCertificate)
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) { reply(w, f.countMachines()) })
	mux.HandleFunc("PATCH /machines/{machine}", f.patchMachine)
	mux.HandleFunc("PATCH /hosts/{host}", f.patchHost)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("no such control: %s %s; sandbox/README.md lists them", r.Method, r.URL.Path))
	})
	return mux
}

// callCounts are the calls that a vCenter was asked, by SOAP method.
type callCounts struct {
	Total   int            `json:"total"`
	Methods map[string]int `json:"methods"`
}

func (f *front) getCalls(w http.ResponseWriter, r *http.Request) {
	counts := callCounts{Methods: map[string]int{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	for client, methods := range f.calls {
		if !strings.HasPrefix(client, r.URL.Query().Get("client")) {
			continue
		}
		for method, n := range methods {
			counts.Methods[method] += n
			counts.Total += n
		}
	}
	reply(w, counts)
}

func (f *front) deleteCalls(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.calls)
	reply(w, struct{}{})
}

func (f *front) postRule(w http.ResponseWriter, r *http.Request) {
	var n rule
	if !take(w, r, &n) {
		return
	}
	if err := f.rules.add(&n); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	reply(w, map[string]int{"id": n.ID})
}

func (f *front) deleteRule(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 || f.rules.remove(id) == 0 {
		refuse(w, http.StatusNotFound, fmt.Errorf("there is no rule %s", r.PathValue("id")))
		return
	}
	reply(w, map[string]int{"removed": 1})
}

func (f *front) postOutage(w http.ResponseWriter, r *http.Request) {
	o := struct{ For, Mode string }{Mode: refused}
	if !take(w, r, &o) {
		return
	}
	length, err := time.ParseDuration(o.For)
	if err != nil || length < 0 {
		refuse(w, http.StatusBadRequest, fmt.Errorf("for %q: give a duration such as 5s; 0s ends an outage", o.For))
		return
	}
	if err := f.outage.begin(o.Mode, length); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	reply(w, struct{}{})
}

func (f *front) putPassword(w http.ResponseWriter, r *http.Request) {
	var p struct{ Password string }
	if !take(w, r, &p) {
		return
	}
	if p.Password == "" {
		refuse(w, http.StatusBadRequest, errors.New("password is missing"))
		return
	}
	f.sessions.setPassword(p.Password)
	reply(w, struct{}{})
}

// machineState is what a guest or its load would change. What is not given stays as it is.
type machineState struct {
	IP          *string   `json:"ip"`
	Addresses   *[]string `json:"addresses"`
	Tools       *string   `json:"tools"`
	CPUMHz      *int32    `json:"cpuMHz"`
	GuestMemory *int32    `json:"guestMemoryMB"`
}

func (f *front) patchMachine(w http.ResponseWriter, r *http.Request) {
	var s machineState
	if !take(w, r, &s) {
		return
	}
	if s.Tools != nil && !strings.HasPrefix(*s.Tools, "guestTools") {
		refuse(w, http.StatusBadRequest, fmt.Errorf("tools %q: give guestToolsRunning, guestToolsNotRunning or guestToolsExecutingScripts", *s.Tools))
		return
	}
	if err := f.setMachine(r.PathValue("machine"), s); err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	reply(w, struct{}{})
}

func (s machineState) changes() []types.PropertyChange {
	var changes []types.PropertyChange
	set := func(name string, value any) { changes = append(changes, types.PropertyChange{Name: name, Val: value}) }
	if s.IP != nil {
		set("guest.ipAddress", *s.IP)
		set("summary.guest.ipAddress", *s.IP)
	}
	if s.Addresses != nil {
		set("guest.net", []types.GuestNicInfo{{Connected: true, IpAddress: *s.Addresses}})
	}
	if s.Tools != nil {
		set("guest.toolsRunningStatus", *s.Tools)
		set("summary.guest.toolsRunningStatus", *s.Tools)
	}
	if s.CPUMHz != nil {
		set("summary.quickStats.overallCpuUsage", *s.CPUMHz)
	}
	if s.GuestMemory != nil {
		set("summary.quickStats.guestMemoryUsage", *s.GuestMemory)
	}
	return changes
}

// take reads the request's JSON. Unknown words are refused: a typing error must not pass for a test that saw nothing.
func take(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("reading the JSON: %w", err))
		return false
	}
	return true
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}
