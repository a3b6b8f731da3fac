package vcenter

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

func (c *call) waits() bool { return c.method == "WaitForUpdatesEx" || c.method == "WaitForUpdates" }

// waitRequest is the request of a long poll, by either of its names.
func (c *call) waitRequest() (*types.WaitForUpdatesEx, error) {
	method, err := simulator.UnmarshalBody(typeOf, c.body)
	if err != nil {
		return nil, err
	}
	switch request := method.Body.(type) {
	case *types.WaitForUpdatesEx:
		return request, nil
	case *types.WaitForUpdates:
		return &types.WaitForUpdatesEx{Version: request.Version}, nil
	}
	return nil, errors.New("no long poll")
}

// poll answers a long poll when something has changed, its time is over, it is cancelled, its session ends or its client hangs up.
func (f *front) poll(r *http.Request, c *call, over <-chan struct{}) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	request, err := c.waitRequest()
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return out
	}
	collector := f.collectors.of(c, over)
	collector.polls.Lock()
	defer collector.polls.Unlock()
	if !collector.begin(request.Version) {
		writeFault(out, "The version is not the one last told.", &types.InvalidCollectorVersion{})
		return out
	}
	canceled := collector.cancelable()
	atOnce, deadline := patience(request.Options)
	for {
		updates, err := collector.look(func(spec types.PropertyFilterSpec) ([]content, error) { return f.read(r, c, spec) })
		var refused refusal
		switch {
		case errors.As(err, &refused):
			return refused.answer
		case err != nil:
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return out
		case len(updates) > 0 || request.Version == "":
			collector.tell(out, c.method, updates, pageSize(request.Options))
			return out
		case atOnce:
			writeUpdates(out, c.method, "")
			return out
		}
		select {
		case <-collector.wake:
			time.Sleep(accumulate)
		case <-deadline:
			writeUpdates(out, c.method, "")
			return out
		case <-canceled:
			writeFault(out, "The request was canceled.", &types.RequestCanceled{})
			return out
		case <-over:
			writeFault(out, "The session is not authenticated.", notAuthenticated(c))
			return out
		case <-r.Context().Done():
			return out
		}
	}
}

func patience(options *types.WaitOptions) (atOnce bool, deadline <-chan time.Time) {
	if options == nil || options.MaxWaitSeconds == nil {
		return false, nil
	}
	seconds := *options.MaxWaitSeconds
	return seconds <= 0, time.After(time.Duration(seconds) * time.Second)
}

// pageSize is how many objects an answer tells of: all, unless the client asks for fewer.
func pageSize(options *types.WaitOptions) int {
	if options == nil || options.MaxObjectUpdates <= 0 {
		return math.MaxInt
	}
	return int(options.MaxObjectUpdates)
}

// begin takes up where the version says that the client is: at the beginning, or where the last answer has left it.
func (c *collector) begin(version string) bool {
	if version == "" {
		c.pending = nil
		c.restart()
		return true
	}
	return version == strconv.Itoa(c.version)
}

// look finds out what has changed, unless something is still to be told. Tasks are looked at first and told of last: what a task
// has done is to be seen wherever its end is.
func (c *collector) look(read read) ([]update, error) {
	if updates := c.pending; len(updates) > 0 {
		c.pending = nil
		return updates, nil
	}
	c.takeMarks()
	tasks, others := c.watched()
	s := &scene{touched: c.takeTouched(), isHeld: c.isHeld, silent: c.silent, read: read}
	ends, err := lookAt(tasks, s)
	if err != nil {
		return nil, err
	}
	c.addTouched(s.touched)
	updates, err := lookAt(others, s)
	return append(updates, ends...), err
}

func lookAt(filters []*filter, s *scene) ([]update, error) {
	var updates []update
	for _, f := range filters {
		found, err := f.look(s)
		if err != nil {
			return nil, err
		}
		updates = append(updates, found...)
	}
	return updates, nil
}

// tell answers with as many updates as the client takes, and keeps the rest.
func (c *collector) tell(w http.ResponseWriter, method string, updates []update, pageSize int) {
	c.version++
	var set strings.Builder
	fmt.Fprintf(&set, "<version>%d</version>", c.version)
	page := updates[:min(pageSize, len(updates))]
	for i, u := range page {
		if i == 0 || page[i-1].filter != u.filter {
			fmt.Fprintf(&set, `<filterSet><filter type="%s">%s</filter>`, u.filter.Type, u.filter.Value)
		}
		set.WriteString(u.xml)
		if i == len(page)-1 || page[i+1].filter != u.filter {
			set.WriteString("</filterSet>")
		}
	}
	if c.pending = updates[len(page):]; len(c.pending) > 0 {
		set.WriteString("<truncated>true</truncated>")
	}
	writeUpdates(w, method, "<returnval>"+set.String()+"</returnval>")
}

func writeUpdates(w http.ResponseWriter, method, set string) {
	writeEnvelope(w, http.StatusOK, fmt.Sprintf(`<%sResponse xmlns="urn:vim25">%s</%sResponse>`, method, set, method))
}

// refusal is vcsim's answer to a request that can't be met.
type refusal struct{ answer *httptest.ResponseRecorder }

func (refusal) Error() string { return "refused" }

// read has vcsim read objects for the client of a call, and returns what that may see.
func (f *front) read(r *http.Request, c *call, spec types.PropertyFilterSpec) ([]content, error) {
	// What has been hidden since the filter was made is as good as gone.
	spec.ObjectSet = slices.DeleteFunc(slices.Clone(spec.ObjectSet), func(o types.ObjectSpec) bool { return f.sight.hides(c.client, o.Obj) })
	if len(spec.ObjectSet) == 0 {
		return nil, nil
	}
	v, specs, _ := f.sight.look(c.client, []types.PropertyFilterSpec{spec})
	inner := c.with(methods.RetrievePropertiesExBody{Req: &types.RetrievePropertiesEx{This: c.this, SpecSet: specs}})
	answer := httptest.NewRecorder()
	f.forward(answer, r, inner)
	if answer.Code != http.StatusOK {
		return nil, refusal{answer}
	}
	var response struct {
		Objects []content `xml:"Body>RetrievePropertiesExResponse>returnval>objects"`
	}
	err := xml.Unmarshal(answer.Body.Bytes(), &response)
	inside := slices.DeleteFunc(response.Objects, func(c content) bool {
		return !f.collectors.isIn(spec.ObjectSet[0].Obj, f.ancestors(c.Object))
	})
	return v.show(inside), err
}
