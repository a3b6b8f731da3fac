package vcenter

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// The ways in which a vCenter can be away.
const (
	refused     = "refused"     // connections end as soon as they are made
	unavailable = "unavailable" // HTTP 503, as while its services start
	silent      = "silent"      // it takes calls and never answers; what is open stays open
)

// outage is a time in which the vCenter is away.
type outage struct {
	mu    sync.Mutex
	mode  string
	until time.Time
	conns map[net.Conn]struct{}
}

func (o *outage) begin(mode string, length time.Duration) error {
	if mode != refused && mode != unavailable && mode != silent {
		return fmt.Errorf("mode %q: give %s, %s or %s", mode, refused, unavailable, silent)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mode, o.until = mode, time.Now().Add(length)
	if mode == silent {
		return nil // a vCenter that hangs ends nothing
	}
	for conn := range o.conns {
		reset(conn)
	}
	return nil
}

func (o *outage) current() (mode string, left time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if left = time.Until(o.until); left <= 0 {
		return "", 0
	}
	return o.mode, left
}

// answer handles a call while the vCenter is away, and says whether it is.
func (o *outage) answer(w http.ResponseWriter, r *http.Request) bool {
	mode, left := o.current()
	switch mode {
	case unavailable:
		http.Error(w, "503 Service Unavailable (Failed to connect to endpoint)", http.StatusServiceUnavailable)
	case silent:
		hang(w, r, left)
	case refused:
		drop(w)
	}
	return mode != ""
}

// swallow keeps back an answer that is ready while the vCenter is silent, and says whether it has.
func (o *outage) swallow(w http.ResponseWriter, r *http.Request) bool {
	mode, left := o.current()
	if mode == silent {
		hang(w, r, left)
	}
	return mode == silent
}

// hang keeps a client waiting until it hangs up or the time is over.
func hang(w http.ResponseWriter, r *http.Request, left time.Duration) {
	select {
	case <-r.Context().Done():
	case <-time.After(left):
	}
	drop(w)
}

// listen has an outage reach the connections too.
func (o *outage) listen(l net.Listener) net.Listener {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conns = map[net.Conn]struct{}{}
	return outageListener{l, o}
}

type outageListener struct {
	net.Listener
	outage *outage
}

func (l outageListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if mode, _ := l.outage.current(); mode == refused {
			reset(conn)
			continue
		}
		l.outage.mu.Lock()
		l.outage.conns[conn] = struct{}{}
		l.outage.mu.Unlock()
		return outageConn{conn, l.outage}, nil
	}
}

type outageConn struct {
	net.Conn
	outage *outage
}

func (c outageConn) Close() error {
	c.outage.mu.Lock()
	delete(c.outage.conns, c.Conn)
	c.outage.mu.Unlock()
	return c.Conn.Close()
}
