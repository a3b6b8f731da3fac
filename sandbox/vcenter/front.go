package vcenter

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// front answers for vcsim: it counts each call, applies the rules it was given, and puts right where vcsim is laxer
// than vCenter.
type front struct {
	service     *simulator.Service
	outage      outage
	sessions    sessions
	folders     folders
	authors     authors
	sight       sight
	pages       pages
	departures  departures
	registered  registered
	noise       noise
	rules       rules
	privileges  privileges
	certificate certificate
	collectors  collectors
	history     history
	touched     touched
	turns       turns
	disks       disks
	guests      guests

	mu    sync.Mutex
	calls map[string]map[string]int // by client, then by method
	bytes map[string]int            // sent, by client
}

func newFront(service *simulator.Service, i Inventory, user, password string) *front {
	f := &front{service: service, calls: map[string]map[string]int{}, bytes: map[string]int{}}
	f.turns.perHost = i.ClonesPerHost
	f.sessions.init(service, user, password)
	f.folders.init(i.CloneDelay)
	f.authors.init()
	f.sight.init(f)
	f.collectors.init()
	service.Context.Map.AddHandler(changes{f})
	listTasks(service, &f.authors)
	return f
}

// ServeHTTP is one call from a client, from the outside in: outage, rules, session, vcsim.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.outage.answer(w, r) {
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/sdk") || r.Method != http.MethodPost {
		f.count(r.UserAgent(), r.Method+" "+r.URL.Path)
		f.service.ServeMux.ServeHTTP(w, r)
		return
	}
	c, err := readCall(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.count(c.client, c.method)
	f.noteTouched(c)
	effect, tell := f.rules.apply(r.Context(), c)
	c.effect, c.tell = effect, tell
	switch {
	case effect.drop == "before":
		drop(w)
		return
	case effect.hold == "before" && !effect.waits(r.Context()):
		return
	case effect.fault != nil:
		writeFault(w, effect.message, effect.fault)
		return
	}
	answer := f.answer(r, c)
	switch {
	case f.outage.swallow(w, r):
		return
	case effect.drop == "after":
		drop(w)
		return
	case effect.hold == "after" && !effect.waits(r.Context()):
		return
	}
	f.send(w, r, c.client, answer)
}

// answer is vCenter's answer to a call.
func (f *front) answer(r *http.Request, c *call) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	over, err := f.sessions.check(c)
	if err != nil {
		writeFault(out, "The session is not authenticated.", err)
		return out
	}
	if c.waits() {
		return f.poll(r, c, over)
	}
	for _, refusal := range []func(*call) *httptest.ResponseRecorder{f.sight.forbids, f.privileged, f.connected, f.failing} {
		if refused := refusal(c); refused != nil {
			return refused
		}
	}
	if c.submits() {
		return f.submitted(r, c, over)
	}
	ask := func() *httptest.ResponseRecorder { return f.ask(r, c, over) }
	switch c.method {
	case "UnregisterVM":
		return f.unregister(c, ask)
	case "QueryVirtualDiskUuid", "SetVirtualDiskUuid":
		if told := f.diskUUID(c); told != nil {
			return told
		}
	}
	return ask()
}

// submitted answers a call that submits a task: with one of the front's own, or with vcsim's.
func (f *front) submitted(r *http.Request, c *call, over <-chan struct{}) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	if f.destroysFolder(c) {
		writeTask(out, c.method, f.destroyFolder(c))
		return out
	}
	request := c.request()
	if clone, ok := request.(*types.CloneVM_Task); ok {
		return f.clone(c, clone)
	}
	for _, check := range []func(*call, any) types.BaseMethodFault{f.checkNames, f.checkReconfigure, f.checkFiles, f.checkCustomize, f.checkCards, f.checkCreate} {
		if fault := check(c, request); fault != nil {
			writeTask(out, c.method, f.failedTask(c, fault, fmt.Sprintf("%T", fault)))
			return out
		}
	}
	if task, ok := f.ownTask(r, c, request); ok {
		writeTask(out, c.method, task)
		return out
	}
	return f.ask(r, c, over)
}

func (f *front) privileged(c *call) *httptest.ResponseRecorder {
	return f.privileges.answer(c, f.needs)
}

// failing answers a call whose task a rule has fail without doing anything.
func (f *front) failing(c *call) *httptest.ResponseRecorder {
	if c.effect.taskFault == nil || c.effect.acts {
		return nil
	}
	out := httptest.NewRecorder()
	writeTask(out, c.method, f.failedTask(c, c.effect.taskFault, c.effect.message))
	return out
}

// ask has vcsim answer, and takes up what that has changed.
func (f *front) ask(r *http.Request, c *call, over <-chan struct{}) *httptest.ResponseRecorder {
	var out *httptest.ResponseRecorder
	switch {
	case c.reads():
		out = f.retrieve(r, c)
	case c.submits():
		out = f.askTask(r, c)
	default:
		out = httptest.NewRecorder()
		f.forward(out, r, c)
	}
	if c.searches() {
		seen := f.sight.withoutHidden(c.client, out.Body.String())
		out.Body = bytes.NewBufferString(seen)
	}
	f.sessions.note(c, out)
	f.announce(c, out)
	f.collectors.note(c, over, out)
	return out
}

// askTask has vcsim submit a task. Where a rule wants it to fail after it has acted, the task that the client sees is the
// front's.
func (f *front) askTask(r *http.Request, c *call) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	hold := f.hold(c)
	f.authors.during(c.this, author{user: c.user, part: c.effect.acts}, func() { f.forward(out, r, c) })
	if out.Code != http.StatusOK {
		hold.release(0)
		return out
	}
	task := taskOf(out)
	if c.effect.acts {
		failed := httptest.NewRecorder()
		writeTask(failed, c.method, f.runTask(c, func(*simulator.Task) outcome {
			await(f.service, task)
			hold.release(c.tell)
			return outcome{fault: c.effect.taskFault, message: c.effect.message}
		}))
		return failed
	}
	go func() {
		await(f.service, task)
		hold.release(c.tell)
	}()
	return out
}

// forward has vcsim answer. A panic in there is vcsim's, and ends the call, not the simulator.
func (f *front) forward(w http.ResponseWriter, r *http.Request, c *call) {
	defer func() {
		if p := recover(); p != nil {
			log.Printf("vcsim panicked in %s of %s: %v\n%s", c.method, c.this, p, debug.Stack())
			writeFault(w, "vcsim panicked; its log says where", &types.SystemError{})
		}
	}()
	f.service.ServeMux.ServeHTTP(w, c.forwarded(r))
}

// forwarded is a request of the same client and session for vcsim itself, without the client's right to hang up.
func (c *call) forwarded(r *http.Request) *http.Request {
	inner := r.Clone(context.WithoutCancel(r.Context()))
	inner.Body = io.NopCloser(bytes.NewReader(c.body))
	inner.ContentLength = int64(len(c.body))
	return inner
}

func (f *front) count(client, method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls[client] == nil {
		f.calls[client] = map[string]int{}
	}
	f.calls[client][method]++
}

// send passes an answer on, compressed where the client takes that, as vCenter does.
func (f *front) send(w http.ResponseWriter, r *http.Request, client string, answer *httptest.ResponseRecorder) {
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	}
	body := answer.Body.Bytes()
	if len(body) > 1024 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var small bytes.Buffer
		z, _ := gzip.NewWriterLevel(&small, gzip.BestSpeed) // a valid level
		_, _ = z.Write(body)
		_ = z.Close()
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Del("Content-Length")
		body = small.Bytes()
	}
	f.mu.Lock()
	f.bytes[client] += len(body)
	f.mu.Unlock()
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

// drop closes the connection without a word.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	reset(conn)
}

// reset ends a connection so that the other side sees it at once.
func reset(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = conn.Close()
}
