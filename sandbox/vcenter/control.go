package vcenter

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
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
	mux.HandleFunc("GET /power", f.getPower)
	mux.HandleFunc("DELETE /power", f.deletePower)
	mux.HandleFunc("GET /touched", f.getTouched)
	mux.HandleFunc("PATCH /machines/{machine}", f.patchMachine)
	mux.HandleFunc("PATCH /hosts/{host}", f.patchHost)
	mux.HandleFunc("PUT /hidden", f.putHidden)
	mux.HandleFunc("PUT /unreadable", f.putUnreadable)
	mux.HandleFunc("DELETE /hosts/{host}", f.deleteHost)
	mux.HandleFunc("POST /hosts/{host}", f.postHost)
	mux.HandleFunc("PUT /recent-tasks", f.putRecentTasks)
	mux.HandleFunc("POST /noise", f.postNoise)
	mux.HandleFunc("POST /strangers", f.postStrangers)
	mux.HandleFunc("DELETE /strangers", f.deleteStrangers)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Errorf("no such control: %s %s; sandbox/README.md lists them", r.Method, r.URL.Path))
	})
	return mux
}

// callCounts are the calls that a vCenter was asked, by SOAP method, and the bytes of its answers as they were sent.
type callCounts struct {
	Total   int            `json:"total"`
	Bytes   int            `json:"bytes"`
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
		counts.Bytes += f.bytes[client]
	}
	reply(w, counts)
}

func (f *front) deleteCalls(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.calls)
	clear(f.bytes)
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

func (f *front) putRecentTasks(w http.ResponseWriter, r *http.Request) {
	var p struct{ Notify *bool }
	if !take(w, r, &p) {
		return
	}
	if p.Notify == nil {
		refuse(w, http.StatusBadRequest, errors.New("notify is missing"))
		return
	}
	f.collectors.recentSilent.Store(!*p.Notify)
	f.collectors.lookAgain()
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
