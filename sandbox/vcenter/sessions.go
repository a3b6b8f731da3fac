package vcenter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// What vCenter answers without a session. vcsim would answer any property retrieval too.
var openMethods = map[string]bool{
	"RetrieveServiceContent": true, "Login": true, "LoginByToken": true, "LoginExtensionByCertificate": true, "CloneSession": true,
}

// sessions knows who is logged in, so that sessions can be ended from outside, long polls included.
type sessions struct {
	service *simulator.Service

	mu       sync.Mutex
	user     string
	password string
	live     map[string]session // by its key
}

// session is somebody who is logged in.
type session struct {
	over chan struct{} // closed when the session ends
	user string        // as vCenter calls it
}

func (s *sessions) init(service *simulator.Service, user, password string) {
	s.service, s.user, s.password, s.live = service, user, password, map[string]session{}
	service.Context.Map.SessionManager().ValidLogin = s.valid
	// Any user but the simulator's default has it ask ValidLogin.
	service.Listen.User = url.User(user)
}

func (s *sessions) valid(login *types.Login) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return login.UserName == s.user && login.Password == s.password
}

func (s *sessions) setPassword(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.password = password
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// check finds the call's session, and returns a channel that is closed when that ends, or the fault for having none.
func (s *sessions) check(c *call) (<-chan struct{}, types.BaseMethodFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session, ok := s.live[sessionKey(c)]; ok {
		c.user = session.user
		return session.over, nil
	}
	if openMethods[c.method] {
		return nil, nil
	}
	return nil, notAuthenticated(c)
}

// note takes up what an answered call did to its session.
func (s *sessions) note(c *call, answer *httptest.ResponseRecorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cookie := range answer.Result().Cookies() {
		if cookie.Name == soap.SessionCookieName {
			s.live[cookie.Value] = session{over: make(chan struct{}), user: userOf(answer)}
		}
	}
	if session, ok := s.live[sessionKey(c)]; ok && c.method == "Logout" && answer.Code == http.StatusOK {
		close(session.over)
		delete(s.live, sessionKey(c))
	}
}

// expire ends every session, and says how many there were.
func (s *sessions) expire() int {
	s.mu.Lock()
	ended := s.live
	s.live = map[string]session{}
	s.mu.Unlock()
	for key, session := range ended {
		close(session.over)
		// One that vcsim has ended by itself is not found, which is as good.
		_, _ = methods.TerminateSession(context.Background(), s.service, &types.TerminateSession{
			This: s.service.Context.Map.SessionManager().Reference(), SessionId: []string{key},
		})
	}
	return len(ended)
}

// userOf is the user of a session that was just made.
func userOf(answer *httptest.ResponseRecorder) string {
	var response struct {
		Body struct {
			Any struct {
				User string `xml:"returnval>userName"`
			} `xml:",any"`
		} `xml:"Body"`
	}
	_ = xml.Unmarshal(answer.Body.Bytes(), &response) // what is no session has no user
	return response.Body.Any.User
}

func sessionKey(c *call) string {
	cookie, err := (&http.Request{Header: c.header}).Cookie(soap.SessionCookieName)
	if err != nil {
		return ""
	}
	return cookie.Value
}

func notAuthenticated(c *call) types.BaseMethodFault {
	return &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &c.this, PrivilegeId: "System.View"}}
}
